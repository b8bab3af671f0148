"""The views that all others are composed of: reshape, permute, selection of a part, expansion, and detach."""

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.ir import Value
from adjoint.tensor.aliases import Strides, View, contiguous_strides

__all__ = ["CONTIGUOUS", "DETACH", "EXPAND", "PERMUTE", "RESHAPE", "SELECT"]

#: One part of a selection: a position, which removes the axis, or the start, stop and positive step of a slice.
Part = int | tuple[int, int, int]

#: Number of layouts, of each kind of view, that need not be worked out again.
_REMEMBERED = 4096

Layout = tuple[Sequence[int], Strides | None]


def _reshape(x: Value, shape: Sequence[int]) -> Value:
    return ops.reshape(x, shape)


def _same_elements(x: Value, new: Value, _argument: Any) -> Value:
    return ops.reshape(new, x.shape)


@lru_cache(_REMEMBERED)
def _reshaped_layout(shape: Sequence[int], strides: Strides, new: Sequence[int]) -> Layout:
    """The strides of a view in another shape; None if elements would have to be moved.

    Axes whose elements follow each other are merged, and each merged run is split again.
    """
    if 0 in shape:
        return new, contiguous_strides(new)
    runs: list[list[int]] = []  # number of elements and stride of each run
    for size, stride in zip(shape, strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == size * stride:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    found: list[int] = []
    left, step = runs.pop() if runs else [1, 1]
    for size in reversed(new):
        if left == 1 and size > 1 and runs:
            left, step = runs.pop()
        if left % size:
            return new, None
        found.append(step)
        left, step = left // size, step * size
    return new, tuple(reversed(found))


def _permute(x: Value, dims: Sequence[int]) -> Value:
    return ops.permute(x, dims)


def _permuted_back(_x: Value, new: Value, dims: Sequence[int]) -> Value:
    return ops.permute(new, [dims.index(n) for n in range(len(dims))])


@lru_cache(_REMEMBERED)
def _permuted_layout(shape: Sequence[int], strides: Strides, dims: Sequence[int]) -> Layout:
    return tuple([shape[n] for n in dims]), tuple([strides[n] for n in dims])


def _select(x: Value, parts: Sequence[Part]) -> Value:
    bounds = [(part, part + 1, 1) if isinstance(part, int) else part for part in parts]
    part = ops.slice(x, *zip(*bounds, strict=True)) if bounds else x
    return ops.reshape(part, _selected_layout(x.shape, (0,) * len(parts), tuple(parts))[0])


def _selected(array: np.ndarray, parts: Sequence[Part]) -> np.ndarray:
    found: np.ndarray = array[tuple([part if isinstance(part, int) else slice(*part) for part in parts])]
    return found


@lru_cache(_REMEMBERED)
def _selected_layout(_shape: Sequence[int], strides: Strides, parts: Sequence[Part]) -> Layout:
    sizes, steps = [], []
    for part, stride in zip(parts, strides, strict=True):
        if not isinstance(part, int):
            sizes.append(len(range(*part)))
            steps.append(stride * part[2])
    return tuple(sizes), tuple(steps)


def _put_part(x: Value, new: Value, parts: Sequence[Part]) -> Value:
    """`x` with the selected elements replaced: the new ones, padded to its shape, where the selection is."""
    bounds = [(part, part + 1, 1) if isinstance(part, int) else part for part in parts]
    counts = [len(range(*bound)) for bound in bounds]
    if not all(counts):
        return x
    low = [start for start, _, _ in bounds]
    high = [
        size - 1 - start - (count - 1) * step
        for size, count, (start, _, step) in zip(x.shape, counts, bounds, strict=True)
    ]
    spread = ops.pad(ops.reshape(new, counts), low, high, 0, [step - 1 for _, _, step in bounds])
    chosen = None
    for axis, (size, count, bound) in enumerate(zip(x.shape, counts, bounds, strict=True)):
        if count < size:
            along = ops.reshape(_is_selected(size, bound), [size if n == axis else 1 for n in range(len(x.shape))])
            along = ops.broadcast_to(along, x.shape)
            chosen = along if chosen is None else ops.logical_and(chosen, along)
    return spread if chosen is None else ops.where(chosen, spread, x)


def _is_selected(size: int, bound: tuple[int, int, int]) -> Value:
    start, stop, step = bound
    if step != 1:
        places = np.zeros(size, np.bool_)
        places[start:stop:step] = True
        return ops.constant(places)
    place = ops.iota(size)
    return ops.logical_and(ops.greater_equal(place, start), ops.less(place, stop))


def _expand(x: Value, shape: Sequence[int]) -> Value:
    return ops.broadcast_to(x, shape)


def _expanded_layout(shape: Sequence[int], strides: Strides, new: Sequence[int]) -> Layout:
    missing = len(new) - len(shape)
    kept = zip(shape, strides, new[missing:], strict=True)
    return new, (*(0,) * missing, *(stride if size == wanted else 0 for size, stride, wanted in kept))


def _detach(x: Value, _argument: None) -> Value:
    return ops.stop_gradient(x)


def _identity(x: Value, _argument: None) -> Value:
    return x


def _same_layout(shape: Sequence[int], strides: Strides, _argument: None) -> Layout:
    return shape, strides


@lru_cache(_REMEMBERED)
def _contiguous_layout(shape: Sequence[int], strides: Strides, _argument: None) -> Layout:
    """Strides of axes with one element do not matter."""
    wanted = contiguous_strides(shape)
    same = all(size == 1 or a == b for size, a, b in zip(shape, strides, wanted, strict=True)) or not prod(shape)
    return shape, wanted if same else None


RESHAPE = View(_reshape, _same_elements, _reshaped_layout, scatters=False)
PERMUTE = View(_permute, _permuted_back, _permuted_layout)
SELECT = View(_select, _put_part, _selected_layout, select=_selected)
EXPAND = View(_expand, None, _expanded_layout)
DETACH = View(_detach, _same_elements, _same_layout, scatters=False, detaches=True)
CONTIGUOUS = View(_identity, _same_elements, _contiguous_layout, scatters=False)
