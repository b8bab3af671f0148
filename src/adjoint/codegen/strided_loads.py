"""Strided vectors in memory: the offsets of the lanes, and the contiguous runs among them."""

from collections.abc import Sequence
from itertools import pairwise

from adjoint.kernel.index import Index, Quotient, Remainder, Var, uses
from adjoint.kernel.ir import Apply, Const, Coordinate, Expr

__all__ = [
    "contiguous_run",
    "every_second",
    "guarded_lanes",
    "lane_offsets",
    "permutes",
    "window",
    "window_loads",
    "without_lane",
]

#: Bytes of vectors of which one instruction picks any lanes of two (AVX-512's vpermt2ps), and most vectors of a window.
_PERMUTED_BYTES, _MAX_LOADS = 64, 8


def lane_offsets(index: Index, var: Var, width: int) -> list[int]:
    """The offset that each lane adds to an index; empty if it depends on anything else."""

    def value(of: Index, lane: int) -> int | None:
        total = of.constant
        for atom, c in of.terms:
            if atom is var:
                total += c * lane
                continue
            inner = value(atom.of, lane) if isinstance(atom, Quotient | Remainder) else None
            if inner is None:
                return None
            total += c * (inner // atom.by if isinstance(atom, Quotient) else inner % atom.by)  # type: ignore[union-attr]
        return total

    lane_part = Index(0, index.terms - without_lane(index, var).terms)
    found = [value(lane_part, lane) for lane in range(width)]
    return [] if any(v is None for v in found) else [v for v in found if v is not None]


def without_lane(index: Index, var: Var) -> Index:
    """The part of an index that is the same for all lanes."""
    return Index(index.constant, frozenset(t for t in index.terms if not uses(t[0], var)))


def guarded_lanes(guard: Expr | None, var: Var, width: int) -> tuple[int, ...] | None:
    """The lanes for which a guard holds, if it is a comparison that depends on the lane alone, or several; or None."""
    if guard is None:
        return tuple(range(width))
    if not isinstance(guard, Apply):
        return None
    if guard.function == "and":
        parts = [guarded_lanes(operand, var, width) for operand in guard.operands]
        every = [set(part) for part in parts if part is not None]
        return tuple(sorted(set.intersection(*every))) if len(every) == len(parts) else None
    if guard.function not in ("lt", "ge"):
        return None
    place, limit = guard.operands
    if not isinstance(place, Coordinate) or not isinstance(limit, Const):
        return None
    if not all(uses(atom, var) for atom, _ in place.index.terms):
        return None
    offsets = lane_offsets(place.index, var, width)
    below = [place.index.constant + offset < limit.value for offset in offsets]
    return tuple(n for n, holds in enumerate(below) if holds == (guard.function == "lt")) if offsets else None


def contiguous_run(offsets: Sequence[int]) -> int:
    """The largest power of two such that the offsets consist of contiguous runs of that length."""
    size = len(offsets)
    while size > 1 and any(offsets[i] != offsets[i - i % size] + i % size for i in range(len(offsets))):
        size //= 2
    return size


def every_second(offsets: Sequence[int]) -> bool:
    """Whether the offsets are those of every second element."""
    return len(offsets) > 1 and all(b - a == 2 for a, b in pairwise(offsets))


def permutes(width: int, itemsize: int) -> bool:
    """Whether one instruction picks any lanes of two vectors of so many elements."""
    return width * itemsize == _PERMUTED_BYTES


def window(fixed: Index, offsets: Sequence[int], size: int) -> tuple[int, int]:
    """The first offset of the memory that lanes are loaded from, and its extent, within a buffer of so many elements.

    It reaches from the first element to the last. Where these are every second one, it is made of whole pairs, if they
    are inside the buffer, so that loads of the even and of the odd elements are the same.
    """
    low, high = min(offsets), max(offsets)
    if every_second(offsets):
        start = low - (fixed.constant + low) % 2
        end = start + 2 * len(offsets)
        if (fixed + start).low >= 0 and (fixed + end).high <= size:
            return start, end - start
    return low, high - low + 1


def window_loads(offsets: Sequence[int], width: int, itemsize: int) -> list[tuple[int, list[int]]]:
    """The vectors that cover a window, each with the shuffle that picks its lanes beside what was picked so far.

    A vector of every sixth element takes six loads and as many shuffles, which neighbors share the loads of; one by
    one, its sixteen elements would take a load and an insertion each. Empty if there are too many of them, or if the
    CPU shuffles narrower vectors only, which takes several instructions.

    Parameters
    ----------
    offsets : sequence of int
        Where the lanes are in the window.
    width, itemsize : int
        Lanes of a vector, and bytes of an element.
    """
    span = max(offsets) + 1
    if not permutes(width, itemsize) or not width <= span <= _MAX_LOADS * width:
        return []
    found, done = [], set[int]()
    for first in (*range(0, span - width, width), span - width):
        mine = {lane: o - first for lane, o in enumerate(offsets) if lane not in done and 0 <= o - first < width}
        done |= set(mine)
        found.append((first, [width + mine[lane] if lane in mine else lane for lane in range(width)]))
    return found
