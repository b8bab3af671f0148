"""Loops and branches of the step function: LLVM text around the calls of kernels.

Every thread runs the loops, so that all of them arrive at the same barriers. The addresses of the buffers that a region
accesses are computed at the beginning of each iteration.
"""

from collections.abc import Iterator, Sequence

from adjoint.kernel.ir import Buffer
from adjoint.kernel.regions import Carried, Place, Region, Rows

__all__ = ["RegionEmitter"]


class RegionEmitter:
    """Writes what opens and closes regions, in the order of the kernels.

    Parameters
    ----------
    regions : sequence of Region
        Outer before inner ones.
    pointers : dict of Buffer to str
        The addresses of buffers; those in regions are added.
    """

    def __init__(self, regions: Sequence[Region], pointers: dict[Buffer, str]) -> None:
        self._regions = list(enumerate(regions))
        self._pointers = pointers
        self._open: list[tuple[int, Region]] = []

    @property
    def inside(self) -> bool:
        """Whether a region is open."""
        return bool(self._open)

    def enter(self, position: int) -> Iterator[str]:
        """What precedes a kernel: the heads of regions that begin there, and tests."""
        for number, region in self._regions:
            if region.start == position:
                self._open.append((number, region))
                yield from self._head(number, region)
            if region.test is not None and region.at == position:
                yield from self._test(number, region)

    def leave(self, position: int) -> Iterator[str]:
        """What follows the last kernel of regions that end before a position."""
        while self._open and self._open[-1][1].stop == position:
            number, region = self._open.pop()
            if region.trips is None:
                yield f"  br label %latch{number}"
                yield f"latch{number}:"
                yield f"  %next{number} = add i64 %i{number}, 1"
                yield f"  br label %head{number}"
            elif region.repeats:
                yield f"  br label %latch{number}"
                yield f"latch{number}:"
                yield f"  %next{number} = add i64 %i{number}, 1"
                yield f"  %more{number} = icmp ult i64 %next{number}, {region.trips}"
                yield f"  br i1 %more{number}, label %head{number}, label %exit{number}"
            elif region.test is not None:
                yield f"  br label %exit{number}"
            else:
                continue
            yield f"exit{number}:"

    def _head(self, number: int, region: Region) -> Iterator[str]:
        i = "0"
        if region.repeats:
            i = f"%i{number}"
            yield f"  br label %enter{number}"
            yield f"enter{number}:"
            yield f"  br label %head{number}"
            yield f"head{number}:"
            yield f"  {i} = phi i64 [ 0, %enter{number} ], [ %next{number}, %latch{number} ]"
        for count, (buffer, place) in enumerate(region.places.items()):
            yield from self._address(f"%at{number}.{count}", buffer, place, i, region)

    def _address(self, name: str, buffer: Buffer, place: Place, i: str, region: Region) -> Iterator[str]:
        """Compute the address of a buffer in iteration `i`."""
        if isinstance(place, Buffer):
            self._pointers[buffer] = self._pointers[place]
            return
        self._pointers[buffer] = name
        if isinstance(place, Rows):
            yield f"  {name}.offset = mul i64 {i}, {place.stride}"
            yield f"  {name}.row = getelementptr i8, ptr {self._pointers[place.base]}, i64 {place.start}"
            yield f"  {name} = getelementptr i8, ptr {name}.row, i64 {name}.offset"
            return
        yield from self._carried(name, place, i, region)

    def _carried(self, name: str, place: Carried, i: str, region: Region) -> Iterator[str]:
        yield f"  {name}.turn = add i64 {i}, {int(place.written)}"
        yield f"  {name}.which = and i64 {name}.turn, 1"
        yield f"  {name}.offset = mul i64 {name}.which, {place.stride}"
        yield f"  {name}.near = getelementptr i8, ptr {self._pointers[place.pair]}, i64 {name}.offset"
        outside, when = (place.last, (region.trips or 0) - 1) if place.written else (place.first, 0)
        if outside is None:
            self._pointers[next(b for b, p in region.places.items() if p is place)] = f"{name}.near"
            return
        yield f"  {name}.end = icmp eq i64 {i}, {when}"
        yield f"  {name} = select i1 {name}.end, ptr {self._pointers[outside]}, ptr {name}.near"

    def _test(self, number: int, region: Region) -> Iterator[str]:
        """Wait for the kernel that computes the test, and leave the region if it fails."""
        assert region.test is not None
        yield f"  br i1 %many, label %wait{number}, label %test{number}"
        yield f"wait{number}:"
        yield "  call void @barrier(ptr %sync, i64 %threads)"
        yield f"  br label %test{number}"
        yield f"test{number}:"
        yield f"  %flag{number} = load i8, ptr {self._pointers[region.test]}"
        yield f"  %holds{number} = icmp {'ne' if region.want else 'eq'} i8 %flag{number}, 0"
        yield f"  br i1 %holds{number}, label %then{number}, label %exit{number}"
        yield f"then{number}:"
