"""Strided loads: vectors whose lanes are not contiguous in memory, by a few vector loads and shuffles."""

from collections.abc import Callable, Sequence
from itertools import pairwise

from adjoint.codegen.types import vector
from adjoint.codegen.writer import Writer
from adjoint.kernel.index import Index, Quotient, Remainder, Var, uses
from adjoint.kernel.ir import Apply, Const, Coordinate, Expr
from adjoint.lazy_dataclass import dataclass

__all__ = [
    "StridedLoad",
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

#: Most lanes that are read one by one, where others are 0: with two loads and a shuffle, they would take as long.
_MAX_INSERTED = 2

#: Minimum number of elements of a contiguous run for which a vector load is used.
_MIN_RUN = 4


def lane_offsets(index: Index, var: Var, width: int) -> list[int]:
    """The offset that each lane adds to an index; empty if it depends on anything else."""
    lane_part = Index(0, index.terms - without_lane(index, var).terms)
    found = [_at_lane(lane_part, var, lane) for lane in range(width)]
    return [] if any(v is None for v in found) else [v for v in found if v is not None]


def _at_lane(of: Index, var: Var, lane: int) -> int | None:
    """The value of an index at a lane; None if it depends on anything else."""
    total = of.constant
    for atom, c in of.terms:
        if atom is var:
            total += c * lane
            continue
        inner = _at_lane(atom.of, var, lane) if isinstance(atom, Quotient | Remainder) else None
        if inner is None:
            return None
        total += c * (inner // atom.by if isinstance(atom, Quotient) else inner % atom.by)  # type: ignore[union-attr]
    return total


def without_lane(index: Index, var: Var) -> Index:
    """The part of an index that is the same for all lanes."""
    return Index(index.constant, frozenset(t for t in index.terms if not uses(t[0], var)))


def guarded_lanes(
    guard: Expr | None, var: Var, width: int, unrolled: Callable[[Index], Index] = lambda index: index
) -> tuple[int, ...] | None:
    """The lanes for which a guard holds, if it is a comparison that depends on the lane alone, or several; or None.

    `unrolled` puts numbers in the place of other variables whose values are known.
    """
    if guard is None:
        return tuple(range(width))
    if not isinstance(guard, Apply):
        return None
    if guard.function == "and":
        parts = [guarded_lanes(operand, var, width, unrolled) for operand in guard.operands]
        every = [set(part) for part in parts if part is not None]
        return tuple(sorted(set.intersection(*every))) if len(every) == len(parts) else None
    if guard.function not in ("lt", "ge"):
        return None
    place, limit = guard.operands
    if not isinstance(place, Coordinate) or not isinstance(limit, Const):
        return None
    index = unrolled(place.index)
    if not all(uses(atom, var) for atom, _ in index.terms):
        return None
    offsets = lane_offsets(index, var, width)
    below = [index.constant + offset < limit.value for offset in offsets]
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


@dataclass(frozen=True, slots=True)
class StridedLoad:
    """A vector load whose lanes are not contiguous, at offsets that are known.

    Parameters
    ----------
    w : Writer
        Receives the instructions.
    buffer : str
        The pointer to the buffer.
    address : callable
        Returns the address of the element at an offset.
    type_, itemsize : str, int
        The type of an element in memory, and its bytes.
    extent : int
        Number of elements of the buffer.
    place : Index
        The index that offsets are added to, the same for the same place in memory.
    offsets, read : sequence of int
        The offsets of the lanes that are read, and which lanes these are.
    width : int
        Lanes of the vector.
    guarded : bool
        Whether lanes that are not read are 0, rather than anything.
    """

    w: Writer
    buffer: str
    address: Callable[[int], str]
    type_: str
    itemsize: int
    extent: int
    place: Index
    offsets: Sequence[int]
    read: Sequence[int]
    width: int
    guarded: bool

    def emit(self) -> str:
        """Emit the load, and return the name of the vector; empty if a gather is needed."""
        if self.guarded and len(self.read) <= _MAX_INSERTED:
            return self._from_elements()
        low, span = window(self.place, self.offsets, self.extent)
        size = min(self.width, 1 << (span.bit_length() - 1))
        if 1 < size <= span and all(o - low < size or o - low >= span - size for o in self.offsets):
            return self._from_ends(low, span, size)
        run = contiguous_run(self.offsets)
        if run < _MIN_RUN or len(self.read) < self.width:
            return self._from_window(low)
        return self._from_runs(run)

    def _from_elements(self) -> str:
        """A few elements, inserted into zeros one by one."""
        wide, made = vector(self.type_, self.width), "zeroinitializer"
        for lane, offset in zip(self.read, self.offsets, strict=True):
            one = self.w.load(self.buffer, f"load {self.type_}, ptr {self.address(offset)}, align {self.itemsize}")
            made = self.w.pure(f"insertelement {wide} {made}, {self.type_} {one}, i64 {lane}")
        return made

    def _from_ends(self, low: int, span: int, size: int) -> str:
        """Two vectors at the ends of the window hold all elements."""
        whole_pairs = every_second(self.offsets) and span == 2 * size and permutes(size, self.itemsize)
        if whole_pairs and not self.guarded:
            if before := self.w.kept(self.buffer, self.place + (low - 2)):
                return self._after(before, low, size)
            self.w.keep(self.buffer, self.place + low, (self._vector(low, size), self._vector(low + size, size)))
        a, b = self._vector(low, size), self._vector(low + span - size, size)
        inside = (o - low for o in self.offsets)
        picks = dict(zip(self.read, (o if o < size else 2 * size + o - span for o in inside), strict=True))
        made = self._shuffle(a, b, size, [picks.get(lane, 0) for lane in range(self.width)])
        return self._select([lane in picks for lane in range(self.width)], made) if self.guarded else made

    def _after(self, before: Sequence[str], low: int, size: int) -> str:
        """Two vectors that begin a pair earlier hold all elements but the last.

        That one is broadcast under a mask, since wide vectors have no insertion.
        """
        a, b = before
        made = self._shuffle(a, b, size, [*(o - low + 2 for o in self.offsets[:-1]), 0])
        one = self.w.load(self.buffer, f"load {self.type_}, ptr {self.address(self.offsets[-1])}")
        last = self.w.broadcast(one, self.type_, size)
        return self._select([lane == size - 1 for lane in range(size)], last, made)

    def _from_window(self, low: int) -> str:
        """Vectors that cover the window, each shuffled into what was picked so far."""
        inside = [o - low for o in self.offsets]
        made = ""
        for first, lanes in window_loads(inside, self.width, self.itemsize) if not self.guarded else []:
            one = self._vector(low + first, self.width)
            made = self._shuffle(made or one, one, self.width, lanes)
        return made

    def _from_runs(self, run: int) -> str:
        """Vectors of contiguous elements, joined."""
        parts = [self._vector(self.offsets[start], run) for start in range(0, len(self.offsets), run)]
        while len(parts) > 1:
            parts = [self._shuffle(a, b, run, range(2 * run)) for a, b in zip(parts[::2], parts[1::2], strict=True)]
            run *= 2
        return parts[0]

    def _vector(self, offset: int, size: int) -> str:
        where = self.address(offset)
        return self.w.load(self.buffer, f"load {vector(self.type_, size)}, ptr {where}, align {self.itemsize}")

    def _shuffle(self, a: str, b: str, size: int, picks: Sequence[int]) -> str:
        mask = ", ".join(f"i32 {p}" for p in picks)
        narrow = vector(self.type_, size)
        return self.w.pure(f"shufflevector {narrow} {a}, {narrow} {b}, <{len(picks)} x i32> <{mask}>")

    def _select(self, holds: Sequence[bool], made: str, other: str = "zeroinitializer") -> str:
        """The lanes of one vector for which something holds, and of another for the rest."""
        mask, wide = ", ".join(f"i1 {'true' if one else 'false'}" for one in holds), vector(self.type_, self.width)
        return self.w.pure(f"select <{self.width} x i1> <{mask}>, {wide} {made}, {wide} {other}")
