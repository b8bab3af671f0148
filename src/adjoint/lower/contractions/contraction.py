"""Contractions: sums of products of two tensors, whatever the number and the names of their axes."""

from collections.abc import Mapping, Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Index, Var
from adjoint.kernel.ir import Apply, Expr, Load
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import compute_dtype

__all__ = ["Contraction", "Run", "contiguous_run", "in_arithmetic", "transposed_along", "transposed_run"]


@dataclass(frozen=True, slots=True)
class Contraction:
    """``out[.., m, .., n] = sum over k of left[.., m, k] * right[.., k, n]``, in terms of the variables of both loads.

    Parameters
    ----------
    left, right : Load
        The operands, of one dtype. `right` is the one that has the result's innermost axis.
    m : Var or None
        The longest axis of the result that only `left` has.
    n : Var
        The innermost axis of the result, which only `right` has.
    batch : tuple of Var
        The other axes of the result, in one operand or both.
    k : tuple of Var
        The axes that are summed over, outermost first.
    axes : tuple of Var
        All axes of the result with an extent above 1, outermost first.
    place : tuple of Index
        The index into the group's shape, in terms of the axes.
    runs : bool, default False
        Whether neighbours along n form short contiguous runs in `right`, with jumps between runs.
    """

    left: Load
    right: Load
    m: Var | None
    n: Var
    batch: tuple[Var, ...]
    k: tuple[Var, ...]
    axes: tuple[Var, ...]
    place: tuple[Index, ...]
    runs: bool = False

    @property
    def dtype(self) -> np.dtype:
        """The dtype of products, sums and packed operands: float32 where operands have 16 bits."""
        return compute_dtype(self.left.dtype)

    @property
    def rows(self) -> int:
        """Extent of m."""
        return self.m.extent if self.m is not None else 1

    @property
    def columns(self) -> int:
        """Extent of n."""
        return self.n.extent

    @property
    def depth(self) -> int:
        """Number of products in each sum."""
        return prod(v.extent for v in self.k)

    @property
    def batches(self) -> int:
        """Number of matrix products."""
        return prod(v.extent for v in self.batch)

    def index(self, at: Mapping[Var, Index]) -> tuple[Index, ...]:
        """The index into the group's shape at a point of the axes."""
        return tuple(i.substitute(at) for i in self.place)

    @property
    def vector_loadable(self) -> bool:
        """Whether a vector along n takes one vector load or a few, without packing."""
        return self.runs or self.right.index.coefficient(self.n) in (1, 2)

    def element(self, load: Load, at: Mapping[Var, Index], guard: Expr | None = None) -> Expr:
        """An operand's element at a point of the axes, in the dtype of the arithmetic; 0 where the guard fails."""
        return in_arithmetic(Load(load.buffer, load.index.substitute(at), guard))


def in_arithmetic(load: Load) -> Expr:
    """What is loaded, in the dtype that is computed in."""
    to = compute_dtype(load.dtype)
    return load if load.dtype == to else Apply("cast", (load,), to)


def contiguous_run(load: Load, k: Sequence[Var], blocks: Sequence[int]) -> tuple[int, int]:
    """How many outer axes of k remain, and the steps of the run that the others form: they are contiguous in memory.

    Trailing axes belong to it as far as those inside them are whole; none if the last axis is not contiguous.
    """
    kept, run = len(k), 1
    while kept and load.index.coefficient(k[kept - 1]) == run:
        kept -= 1
        run *= blocks[kept]
        if blocks[kept] != k[kept].extent:
            break
    return kept, run


class Run(NamedTuple):
    """Steps of k that squares of an operand are transposed along.

    Parameters
    ----------
    kept : int
        Outer axes of k that do not belong to it.
    steps : int
        Its steps.
    stride : int
        Elements from one to the next: 1, or 2 where windows move by two.
    """

    kept: int
    steps: int
    stride: int


def transposed_run(load: Load, k: Sequence[Var], blocks: Sequence[int]) -> Run:
    """The run of steps along which squares are transposed: a contiguous one, or every second element of an axis."""
    kept, steps = contiguous_run(load, k, blocks)
    if kept == len(k) and k and load.index.coefficient(k[-1]) == 2:
        return Run(kept - 1, blocks[-1], 2)
    return Run(kept, steps, 1)


def transposed_along(load: Load, own: Sequence[Var], k: Var) -> Var | None:
    """The axis along which an operand is contiguous, if squares of it and of `k` are worth transposing; or None."""
    beside = next((v for v in own if load.index.coefficient(v) == 1), None)
    return beside if beside is not None and min(beside.extent, k.extent) >= costs.MIN_RUN else None
