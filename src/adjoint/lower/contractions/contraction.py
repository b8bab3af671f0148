"""Contractions: sums of products of two tensors."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from adjoint.kernel.index import Index, Var
from adjoint.kernel.ir import Load

__all__ = ["Contraction"]


@dataclass(frozen=True, slots=True)
class Contraction:
    """``out[.., m, .., n] = sum over k of left[.., m, k] * right[.., k, n]``, by variables of the two loads.

    Parameters
    ----------
    left, right : Load
        The factors. `right` is the one that has the result's innermost axis.
    m : Var or None
        The longest axis of the result that only `left` has.
    n : Var
        The innermost axis of the result, which only `right` has.
    batch : tuple of Var
        The other axes of the result, whichever factor has them.
    k : tuple of Var
        Summed axes, outermost first.
    axes : tuple of Var
        All axes of the result with more than one element, outermost first.
    place : tuple of Index
        The position in the group's shape, in terms of the axes.
    runs : bool, default False
        Whether neighbours along n lie in runs in `right`, each contiguous, with jumps between them.
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
    def rows(self) -> int:
        """Extent of m."""
        return self.m.extent if self.m is not None else 1

    @property
    def columns(self) -> int:
        """Extent of n."""
        return self.n.extent

    @property
    def depth(self) -> int:
        """Number of products in a sum."""
        return prod(v.extent for v in self.k)

    @property
    def batches(self) -> int:
        """Number of products."""
        return prod(v.extent for v in self.batch)

    def index(self, at: Mapping[Var, Index]) -> tuple[Index, ...]:
        """The position in the group's shape, given one on the axes."""
        return tuple(i.substitute(at) for i in self.place)

    @property
    def vector_loadable(self) -> bool:
        """Whether lanes along n are read by a vector load or a few, without packing."""
        return self.runs or self.right.index.coefficient(self.n) in (1, 2)

    def element(self, load: Load, at: Mapping[Var, Index]) -> Load:
        """A factor's element."""
        return Load(load.buffer, load.index.substitute(at))
