"""Software prefetch: the cache lines of a region, spread evenly over the steps of a loop that computes.

A core can have a dozen or two outstanding line fills. Prefetches issued one at a time between multiply-adds are free;
a burst of them stalls the loads that the multiply-adds need. So the memory that the next block will read is described
as a `Region`, whose lines are numbered, and every step prefetches the next one or few::

    for step in 0..512:                                  two regions of 512 and 300 lines: two lines per step
      if 0 <= step < 256:
        prefetch x[start + (step * 2 + 0..2) * 16]
      else if 256 <= step < 406:
        prefetch y[start + ((step - 256) * 2 + 0..2) * 16]
      multiply-adds
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, For, Prefetch, Stmt, When
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import divisors, unravel

__all__ = ["Region", "prefetch_slots", "region", "spread_prefetches"]


@dataclass(frozen=True, slots=True)
class Region:
    """A region of memory as evenly spaced runs of cache lines.

    Parameters
    ----------
    buffer : Buffer
        The buffer.
    start : Index
        The first element of the first run.
    runs : tuple of (int, int)
        Number of runs and their distance in elements, for each axis, outermost first.
    run_lines, line_bytes : int
        Cache lines in a run, and bytes of a line.
    write : bool
        Whether the lines will be written.
    first : Index
        Number of the first line to prefetch.
    lines : int
        Number of lines to prefetch.
    """

    buffer: Buffer
    start: Index
    runs: tuple[tuple[int, int], ...]
    run_lines: int
    line_bytes: int
    write: bool
    first: Index
    lines: int

    def share(self, iteration: Index, iterations: int) -> "Region":
        """The share of the lines of one of so many iterations. The last share may run a few lines past the end."""
        lines = ceil(self.lines / iterations)
        return replace(self, first=self.first + iteration * lines, lines=lines)

    def prefetch(self, number: Index) -> Prefetch:
        """The prefetch of a line."""
        line, elements = Var("line", self.run_lines), self.line_bytes // self.buffer.dtype.itemsize
        number = self.first + number
        if not self.runs:
            return Prefetch(self.buffer, self.start + number * elements, self.write)
        axes = [Var(f"a{n}", count) for n, (count, _) in enumerate(self.runs)]
        # Indices are divided only where they are not negative, so whole rounds of the inner axes are added first.
        around = self.run_lines * prod(count for count, _ in self.runs[1:])
        before = max(ceil(-number.low / around), 0)
        at = unravel([*axes, line], number + before * around)
        place = self.start + at[line] * elements - before * self.runs[0][1]
        for axis, (_, apart) in zip(axes, self.runs, strict=True):
            place = place + at[axis] * apart
        return Prefetch(self.buffer, place, self.write)


def region(
    context: Context,
    group: Group,
    buffer: Buffer,
    index: Index,
    box: Mapping[Var, int],
    start: Mapping[Var, Index],
    write: bool = False,
) -> Region | None:
    """The region that a box of elements covers; None where the buffer is near or the index is not affine.

    Parameters
    ----------
    context : Context
        What is far away; anything else is not prefetched.
    group : Group
        The group whose kernel accesses the buffer.
    buffer, index
        The access, in terms of the axes.
    box : mapping
        Extent along each axis; 1 for axes that are not named.
    start : mapping
        Coordinates of the first element, along every axis.
    write : bool
        Whether the region will be written.
    """
    steps = [index.coefficient(v) for v in box]
    if not context.is_far(group, buffer) or any(step is None for step in steps):
        return None
    extents = [(abs(step), extent) for step, extent in zip(steps, box.values(), strict=True) if step and extent > 1]
    run = 1
    runs: list[tuple[int, int]] = []
    line = context.target.line_bytes
    near = line // buffer.dtype.itemsize
    for apart, count in sorted(extents):
        if not runs and apart <= run + max(run * costs.PREFETCH_GAP, near):
            run += (count - 1) * apart
        elif runs and apart == runs[-1][0] * runs[-1][1]:
            runs[-1] = (runs[-1][0] * count, runs[-1][1])
        else:
            runs.append((count, apart))
    # Runs that do not begin with a line reach into one more.
    lines = ceil(run * buffer.dtype.itemsize / line) + any(apart % near for _, apart in runs)
    every = lines * prod(count for count, _ in runs)
    return Region(buffer, index.substitute(start), tuple(reversed(runs)), lines, line, write, as_index(0), every)


def prefetch_slots(
    regions: Sequence[Region], steps: Sequence[Var], times: int
) -> tuple[tuple[Var, ...], tuple[Var, ...], dict[Var, Index]]:
    """Cut the loops over steps in two: those around the prefetches, and those over the steps after each.

    A prefetch takes up to 18 instructions, most of them for its address, about as many as a step with sixteen
    multiply-adds. So there are as many steps after each as possible without bursts, if all steps run so many `times`.

    Returns
    -------
    tuple of Var, tuple of Var, dict
        Both parts, and the coordinates along the original axes.
    """
    lines = sum(one.lines for one in regions)
    for least in costs.PREFETCHED_STEPS:
        around, after, at = _cut(steps, least)
        if lines <= costs.PREFETCH_BURSTS[0] * times * prod(v.extent for v in around):
            return around, after, at
    return tuple(steps), (), {step: as_index(step) for step in steps}


def _cut(steps: Sequence[Var], least: int) -> tuple[tuple[Var, ...], tuple[Var, ...], dict[Var, Index]]:
    """Cut loops as close to the innermost one as at least so many steps allow."""
    at = {step: as_index(step) for step in steps}
    for number in reversed(range(len(steps))):
        axis, after = steps[number], prod(v.extent for v in steps[number + 1 :])
        cuts = [n for n in divisors(axis.extent) if axis.extent // n * after >= least]
        if cuts:
            slot, rest = Var("slot", cuts[-1]), Var(axis.name, axis.extent // cuts[-1])
            at[axis] = as_index(slot) * rest.extent + as_index(rest)
            return (*steps[:number], slot), (rest, *steps[number + 1 :]), at
    return (), tuple(steps), at


def spread_prefetches(regions: Sequence[Region], step: Index, steps: int) -> tuple[Stmt, ...]:
    """The prefetches of one of `steps` steps: just as many lines in each step as it takes to cover all regions.

    Every step prefetches from one region, so with fewer steps than regions the last ones are left out.
    """
    regions = regions[:steps]
    each = ceil(sum(s.lines for s in regions) / steps)
    while sum(ceil(s.lines / each) for s in regions) > steps:
        each += 1
    body: tuple[Stmt, ...] = ()
    end = sum(ceil(s.lines / each) for s in regions)
    for last in reversed(regions):
        some = Var("line", each)
        iterations = ceil(last.lines / each)
        end -= iterations
        hint = last.prefetch((step - end) * each + as_index(some))
        body = (When(step, end, end + iterations, (For(some, (hint,), "unroll"),), body),)
    return body
