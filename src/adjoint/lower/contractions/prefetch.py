"""What is asked of memory ahead of its use: lines spread evenly over the steps of a loop that computes.

A core waits for a dozen or two lines at a time. Asked for one by one between products they cost nothing; asked for in
a burst they stop the loads that products need. So what a block will read is a `Region` of memory, whose lines are
numbered, and every step asks for the next one or few::

    for step in 0..512:                                  two stretches of 512 and 300 lines: two in a step
      if 0 <= step < 256:
        prefetch x[start + (step * 2 + 0..2) * 16]
      else if 256 <= step < 406:
        prefetch y[start + ((step - 256) * 2 + 0..2) * 16]
      products
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Prefetch, Stmt, When
from adjoint.lower.loops import unravel

__all__ = ["FAR_BYTES", "LINE_BYTES", "Region", "region", "spread_prefetches"]

#: Bytes of a tensor of which much is not in a second-level cache.
FAR_BYTES = 1024 * 1024
#: Bytes of a cache line.
LINE_BYTES = 64
#: Pieces are asked for as one where what lies between them is at most a line, or this share of them.
_GAP = 1 / 6


@dataclass(frozen=True, slots=True)
class Region:
    """Lines of memory, one piece after the other.

    Parameters
    ----------
    buffer : Buffer
        Where they are.
    start : Index
        The first element of the first piece.
    runs : tuple of (int, int)
        How many pieces there are, and how many elements lie from one to the next: the outermost axis first.
    run_lines : int
        Lines of a piece.
    write : bool
        Whether they will be written.
    first : Index
        The number of the first line that is asked for.
    lines : int
        How many are.
    """

    buffer: Buffer
    start: Index
    runs: tuple[tuple[int, int], ...]
    run_lines: int
    write: bool
    first: Index
    lines: int

    def share(self, turn: Index, turns: int) -> "Region":
        """The lines that one of so many turns asks for. The last one may ask for a few beyond the end."""
        lines = ceil(self.lines / turns)
        return replace(self, first=self.first + turn * lines, lines=lines)

    def prefetch(self, number: Index) -> Prefetch:
        """Ask for a line."""
        line, elements = Var("line", self.run_lines), LINE_BYTES // self.buffer.dtype.itemsize
        number = self.first + number
        if not self.runs:
            return Prefetch(self.buffer, self.start + number * elements, self.write)
        axes = [Var(f"a{n}", count) for n, (count, _) in enumerate(self.runs)]
        # Only what is not negative can be divided: so many rounds of all but the outermost axis are added before.
        around = self.run_lines * prod(count for count, _ in self.runs[1:])
        before = max(ceil(-number.low / around), 0)
        at = unravel([*axes, line], number + before * around)
        place = self.start + at[line] * elements - before * self.runs[0][1]
        for axis, (_, apart) in zip(axes, self.runs, strict=True):
            place = place + at[axis] * apart
        return Prefetch(self.buffer, place, self.write)


def region(
    buffer: Buffer, index: Index, box: Mapping[Var, int], start: Mapping[Var, Index], write: bool = False
) -> Region | None:
    """The memory of a box of elements; None where it is near, or the index walks it in no fixed steps.

    Parameters
    ----------
    buffer, index
        The elements, by axes.
    box : mapping
        How many elements of each axis. Axes that are not named have one.
    start : mapping
        Coordinates of the first element, of every axis.
    write : bool
        Whether it will be written.
    """
    steps = [index.coefficient(v) for v in box]
    if buffer.nbytes < FAR_BYTES or any(step is None for step in steps):
        return None
    extents = [(abs(step), extent) for step, extent in zip(steps, box.values(), strict=True) if step and extent > 1]
    run = 1
    runs: list[tuple[int, int]] = []
    near = LINE_BYTES // buffer.dtype.itemsize
    for apart, count in sorted(extents):
        if not runs and apart <= run + max(run * _GAP, near):
            run += (count - 1) * apart
        elif runs and apart == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * count, runs[-1][1])
        else:
            runs.append((count, apart))
    lines = ceil(run * buffer.dtype.itemsize / LINE_BYTES)
    every = lines * prod(count for count, _ in runs)
    return Region(buffer, index.substitute(start), tuple(reversed(runs)), lines, write, as_index(0), every)


def spread_prefetches(regions: Sequence[Region], step: Index, steps: int) -> tuple[Stmt, ...]:
    """What the current one of so many steps asks for: as many lines in each as are needed for all of them."""
    each = ceil(sum(s.lines for s in regions) / steps)
    while sum(ceil(s.lines / each) for s in regions) > steps:
        each += 1
    body: tuple[Stmt, ...] = ()
    end = sum(ceil(s.lines / each) for s in regions)
    for last in reversed(regions):
        some = Var("line", each)
        turns = ceil(last.lines / each)
        end -= turns
        ask = last.prefetch((step - end) * each + as_index(some))
        body = (When(step, end, end + turns, (For(some, (ask,), "unroll"),), body),)
    return body
