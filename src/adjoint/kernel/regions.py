"""Regions of a program: runs of kernels that are repeated, or left out, with the places of their buffers.

The kernels of a program are a flat list. A `Region` says that those from `start` to `stop` are a loop or the part of a
branch; regions nest. Inside a region, kernels access buffers that have no memory of their own: a *place* says where
such a buffer is in the current iteration.

Lowering first makes a loop or branch a single kernel, `Nested`, so that the passes over lists of kernels order it like
any other; `flattened` then replaces it by the kernels of its parts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from adjoint.kernel.ir import Buffer, Kernel
from adjoint.lazy_dataclass import dataclass

__all__ = [
    "Carried",
    "Nested",
    "Part",
    "Place",
    "Region",
    "Rows",
    "Test",
    "each_kernel",
    "expanded",
    "flattened",
    "memory_of",
    "places_of",
]


@dataclass(frozen=True, slots=True)
class Rows:
    """One row of a stacked buffer in each iteration i: at byte ``start + i * stride``."""

    base: Buffer
    start: int
    stride: int


@dataclass(frozen=True, slots=True)
class Carried:
    """A carry of a loop: two places take turns, so that an iteration reads one and writes the other.

    The first iteration reads `first`, and the last one writes `last`, so that nothing is copied.

    Parameters
    ----------
    first : Buffer
        The initial value.
    last : Buffer or None
        The final value; None if nothing reads it.
    pair : Buffer
        The two places in between, `stride` bytes apart.
    stride : int
        See there.
    written : bool
        Whether this is the new value, which an iteration writes, or the old one.
    """

    first: Buffer
    last: Buffer | None
    pair: Buffer
    stride: int
    written: bool


#: Where a buffer is: another buffer, a row of one, or a carry.
Place = Buffer | Rows | Carried


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Kernels that run together: a loop, or one side of a branch.

    Parameters
    ----------
    name : str
        What the names of its kernels begin with.
    kernels : tuple of Kernel
        In execution order.
    places : mapping
        Where the buffers are that belong to the outside.
    trips : int or None
        Number of iterations; None for a loop that its test ends.
    test : Buffer, optional
        A bool scalar on which it depends whether the kernels run.
    at : int, default 0
        The number of kernels that run before the test.
    want : bool, default True
        The value of the test for which the others run.
    """

    name: str
    kernels: tuple[Kernel, ...]
    places: Mapping[Buffer, Place]
    trips: int | None = 1
    test: Buffer | None = None
    at: int = 0
    want: bool = True


@dataclass(frozen=True, eq=False)
class Nested(Kernel):
    """A loop or branch, as one kernel in a list of kernels.

    Parameters
    ----------
    operands, outputs : tuple of Buffer
        What it reads and writes outside.
    parts : tuple of Part
        What it consists of.
    literals : mapping
        The literal arrays that its kernels read.
    """

    operands: tuple[Buffer, ...] = ()
    outputs: tuple[Buffer, ...] = ()
    parts: tuple[Part, ...] = ()
    literals: Mapping[Buffer, bytes] | None = None

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """The operands."""
        return self.operands

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """The outputs."""
        return self.outputs


@dataclass(frozen=True, slots=True, eq=False)
class Region:
    """A `Part` in the flat list of a program's kernels: those at positions ``start <= p < stop``.

    The test is read before the kernel at position `at`.
    """

    name: str
    start: int
    stop: int
    places: Mapping[Buffer, Place]
    trips: int | None
    test: Buffer | None
    at: int
    want: bool

    @property
    def repeats(self) -> bool:
        """Whether it is a loop."""
        return self.trips != 1

    def held(self) -> list[Buffer]:
        """The buffers outside, and those of carries, that must not be overwritten while it runs."""
        found = dict.fromkeys(buffer for place in self.places.values() for buffer in _buffers(place))
        return [*found, *([self.test] if self.test is not None else [])]


@dataclass(frozen=True, slots=True)
class Test:
    """The point at which all threads read the test of a region."""

    region: Region


def _buffers(place: Place) -> tuple[Buffer, ...]:
    if isinstance(place, Carried):
        outside = place.last if place.written else place.first
        return (place.pair,) if outside is None else (place.pair, outside)
    return (place.base if isinstance(place, Rows) else place,)


def flattened(kernels: Sequence[Kernel]) -> tuple[list[Kernel], tuple[Region, ...]]:
    """The kernels of all parts in one list, and its regions, outer before inner ones."""
    flat: list[Kernel] = []
    regions: list[Region] = []
    _flatten(kernels, "", 1, flat, regions)
    # An inner region is appended before its outer one.
    order = sorted(range(len(regions)), key=lambda n: (regions[n].start, -regions[n].stop, -n))
    return flat, tuple(regions[n] for n in order)


def _flatten(kernels: Sequence[Kernel], prefix: str, trips: int, flat: list[Kernel], regions: list[Region]) -> None:
    for kernel in kernels:
        if not isinstance(kernel, Nested):
            flat.append(_renamed(kernel, prefix, trips) if prefix else kernel)
            continue
        for part in kernel.parts:
            start = len(flat)
            _flatten(part.kernels, f"{prefix}{part.name}.", trips * (part.trips or 1), flat, regions)
            regions.append(
                Region(
                    f"{prefix}{part.name}",
                    start,
                    len(flat),
                    part.places,
                    part.trips,
                    part.test,
                    start + part.at,
                    part.want,
                )
            )


def _renamed(kernel: Kernel, prefix: str, trips: int) -> Kernel:
    """A kernel under the name of its region; what it is estimated to cost is that of all iterations."""
    values = tuple(f"%{prefix}{value.removeprefix('%')}" for value in kernel.values)
    name, flops, moved = f"{prefix}{kernel.name}", kernel.flops * trips, kernel.bytes * trips
    return replace(kernel, name=name, values=values, flops=flops, bytes=moved)


def places_of(regions: Sequence[Region]) -> dict[Buffer, Place]:
    """The places of all regions together."""
    return {buffer: place for region in regions for buffer, place in region.places.items()}


def memory_of(buffer: Buffer, places: Mapping[Buffer, Place]) -> tuple[Buffer, ...]:
    """The buffers with memory of their own in which a buffer is, in one iteration or another."""
    if buffer not in places:
        return (buffer,)
    return tuple(dict.fromkeys(b for part in _buffers(places[buffer]) for b in memory_of(part, places)))


#: How often the kernels of a loop occur in `expanded`: the first iteration differs from the others in what ran before
#: it, and the last in what runs after it.
_ITERATIONS = 3


def expanded(count: int, regions: Sequence[Region]) -> list[int | Test]:
    """The positions of kernels in an order in which they may run, with every loop run a few times, and every test.

    Parameters
    ----------
    count : int
        Number of kernels.
    regions : sequence of Region
        Outer before inner ones.
    """
    return list(_expand(0, count, list(regions)))


def _expand(start: int, stop: int, regions: list[Region]) -> Iterator[int | Test]:
    position, left = start, [r for r in regions if start <= r.start and r.stop <= stop]
    while left:
        outer = left.pop(0)
        yield from range(position, outer.start)
        inner = [r for r in left if r.stop <= outer.stop]
        left = [r for r in left if r.stop > outer.stop]
        for _ in range(_ITERATIONS if outer.repeats else 1):
            if outer.test is None:
                yield from _expand(outer.start, outer.stop, inner)
                continue
            yield from _expand(outer.start, outer.at, inner)
            yield Test(outer)
            yield from _expand(outer.at, outer.stop, inner)
        position = outer.stop
    yield from range(position, stop)


def each_kernel(kernel: Kernel, change: Callable[[Kernel], Kernel]) -> Kernel:
    """The kernel after a change; of a loop or branch, its kernels after it."""
    if not isinstance(kernel, Nested):
        return change(kernel)
    parts = tuple(replace(p, kernels=tuple(each_kernel(k, change) for k in p.kernels)) for p in kernel.parts)
    return replace(kernel, parts=parts)
