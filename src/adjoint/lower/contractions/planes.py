"""Planes of images: where they begin, and copies that are transposed so that lanes run along channels."""

from collections.abc import Mapping
from math import prod

import numpy as np

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.context import Context
from adjoint.lower.contractions.borders import Image
from adjoint.lower.contractions.prefetch import Region, region
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, unroll_around, vector_loops

__all__ = ["first_plane", "padded_plane", "plane_region", "transposed_planes"]


def first_plane(image: Image, at: Mapping[Var, Index]) -> Index:
    """The number of the plane at a point of the axes that an image is read with."""
    first = as_index(0)
    for extent, index in zip(image.shape[:-2], image.at[:-2], strict=True):
        first = first * extent + index.substitute(at)
    return first


def padded_plane(target: Target, size: int, dtype: np.dtype) -> int:
    """Elements from one plane of `size` to the next: padded, so that planes do not start in the same set of a cache."""
    line = target.line_bytes // dtype.itemsize
    return (size // line + 1) * line


def plane_region(context: Context, group: Group, image: Image, at: Mapping[Var, Index]) -> Region | None:
    """The plane of an image at a point of all axes, to be prefetched; None where the image is near."""
    element = Var("s", prod(image.shape[-2:]))
    start = {element: first_plane(image, at) * element.extent}
    return region(context, group, image.buffer, as_index(element), {element: element.extent}, start)


def transposed_planes(image: Image, to: Buffer, start: int, first: Index, columns: int, lanes: int) -> tuple[Stmt, ...]:
    """Copy planes of an image, element by element, in squares that are transposed in registers.

    Parameters
    ----------
    image : Image
        The image, whose planes have at least as many elements as a vector has lanes.
    to : Buffer
        Where they go: ``[element, lane]``.
    start : int
        Elements of `to` that come before the first.
    first : Index
        The number of the first plane.
    columns, lanes : int
        Number of planes, and lanes of a vector.
    """
    plane = prod(image.shape[-2:])

    def copy(square: Var, step: Index) -> tuple[Stmt, ...]:
        def element(column: Index, _: Index) -> tuple[Stmt, ...]:
            source = Load(image.buffer, (first + column) * plane + step)
            return (Store(((to, (step + start) * lanes + column, source),)),)

        return tuple(unroll_around(square, statement) for statement in vector_loops(columns, lanes, element))

    iteration, inner, last = Var("s", plane // lanes), Var("i", lanes), Var("i", lanes)
    whole = nest([iteration], copy(inner, as_index(iteration) * lanes + as_index(inner)))
    # The last square overlaps the one before.
    return (*whole, *copy(last, as_index(last) + (plane - lanes))) if plane % lanes else whole
