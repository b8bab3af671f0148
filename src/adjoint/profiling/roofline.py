"""A drawing of the roofline: one dot per kernel, GFLOP/s over operations per byte, below the machine's limits.

After Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model for multicore
architectures". Both axes are logarithmic; levels of memory are slopes, the multiply-adds a horizontal roof.
"""

import math
from collections.abc import Iterator, Sequence

from adjoint.lazy_dataclass import dataclass
from adjoint.pages.figures import rate
from adjoint.pages.shapes import Label, Line
from adjoint.profiling.machine import Peaks
from adjoint.profiling.step import Row

__all__ = ["Dot", "RooflineDrawing", "draw_roofline"]

_WIDTH, _HEIGHT = 1080.0, 500.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 24.0, 28.0, 48.0

#: Minimum share of the time for which a kernel's name is written next to its dot.
_NAMED = 0.01


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis that maps decades of values to pixels."""

    low: int
    high: int
    start: float
    end: float

    def __call__(self, value: float) -> float:
        place = (math.log10(value) - self.low) / (self.high - self.low)
        return self.start + place * (self.end - self.start)


def _axis(values: Sequence[float], start: float, end: float) -> _Axis:
    low = math.floor(math.log10(min(values)))
    return _Axis(low, max(math.ceil(math.log10(max(values))), low + 1), start, end)


@dataclass(frozen=True, slots=True)
class Dot:
    """A kernel: its position, its size, and its part of the step."""

    x: float
    y: float
    radius: float
    part: str
    k: int


@dataclass(frozen=True, slots=True)
class RooflineDrawing:
    """The drawing, for the template ``roofline.html.j2``."""

    width: float
    height: float
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]
    dots: tuple[Dot, ...]
    names: tuple[Label, ...]


def draw_roofline(rows: Sequence[Row], peaks: Peaks) -> RooflineDrawing:
    """Draw the kernels that have both operations and a measured time."""
    kernels = [(k, row) for k, row in enumerate(rows) if row.gflops > 0 and row.intensity > 0]
    ridge = peaks.gflops / peaks.levels[-1].gbytes
    intensities = [row.intensity for _, row in kernels]
    # Leave half a decade beside the ridge point, so that it is visible.
    x = _axis([min([0.3, *intensities]), max([3 * ridge, *intensities])], _LEFT, _WIDTH - _RIGHT)
    rates = [max(row.gflops, peaks.gflops * 1e-4) for _, row in kernels]
    y = _axis([min([peaks.gflops / 100, *rates]), 1.5 * peaks.gflops], _HEIGHT - _BOTTOM, _TOP)
    roofs = list(_roofs(x, y, peaks))
    # Large dots first, so that small ones are drawn on top.
    kernels.sort(key=lambda kernel: -kernel[1].share)
    dots = [
        Dot(x(row.intensity), y(max(row.gflops, 10.0**y.low)), 4 + 22 * math.sqrt(row.share), row.part, k)
        for k, row in kernels
    ]
    return RooflineDrawing(
        width=_WIDTH,
        height=_HEIGHT,
        lines=(*_grid(x, y), *(line for line, _ in roofs)),
        labels=(*_ticks(x, y), *(label for _, label in roofs)),
        dots=tuple(dots),
        names=tuple(_names(dots, rows, x, y)),
    )


def _grid(x: _Axis, y: _Axis) -> Iterator[Line]:
    for power in range(x.low, x.high + 1):
        at = x(10.0**power)
        yield Line(at, y.start, at, y.end)
    for power in range(y.low, y.high + 1):
        at = y(10.0**power)
        yield Line(x.start, at, x.end, at)


def _ticks(x: _Axis, y: _Axis) -> Iterator[Label]:
    for power in range(x.low, x.high + 1):
        yield Label(_plain(power), x(10.0**power), y.start + 18, anchor="middle")
    for power in range(y.low, y.high + 1):
        yield Label(_plain(power), x.start - 8, y(10.0**power) + 4, anchor="end")
    yield Label("operations a byte", (x.start + x.end) / 2, y.start + 38, anchor="middle")
    yield Label("GFLOP/s", x.start - 40, y.end - 12)


def _plain(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"


def _roofs(x: _Axis, y: _Axis, peaks: Peaks) -> Iterator[tuple[Line, Label]]:
    """The machine's limits, each with its label."""
    left, right, floor = 10.0**x.low, 10.0**x.high, 10.0**y.low
    for level in peaks.levels:
        begin = max(left, floor / level.gbytes)
        ridge = peaks.gflops / level.gbytes
        if ridge <= begin:
            continue
        slope = Line(x(begin), y(begin * level.gbytes), x(ridge), y(peaks.gflops), "roof slope")
        decade_x, decade_y = x(10) - x(1), y(1) - y(10)
        angle = -math.degrees(math.atan2(decade_y, decade_x))
        # All labels at the same height, where the slopes are well separated.
        mark = max(begin * 1.15, peaks.gflops * 0.012 / level.gbytes)
        text = f"{level.name} {rate(level.gbytes)} GB/s"
        yield slope, Label(text, x(mark), y(mark * level.gbytes) - 6, angle=angle)
    first = max(left, peaks.gflops / max(level.gbytes for level in peaks.levels))
    roof = y(peaks.gflops)
    text = f"multiply-add {rate(peaks.gflops)} GFLOP/s"
    yield Line(x(first), roof, x(right), roof, "roof"), Label(text, x(first) - 10, roof + 4, anchor="end")


def _names(dots: Sequence[Dot], rows: Sequence[Row], x: _Axis, y: _Axis) -> Iterator[Label]:
    """Names for which there is space next to their dots, those of large dots first."""
    boxes = [(dot.x - dot.radius, dot.y - dot.radius, dot.x + dot.radius, dot.y + dot.radius) for dot in dots]
    for dot in dots:
        name, r = rows[dot.k].kernel.name, dot.radius
        if rows[dot.k].share < _NAMED:
            continue
        width = 7.2 * len(name)
        for dx, dy in ((r + 5, 4), (-r - 5 - width, 4), (-width / 2, r + 14), (-width / 2, -r - 6)):
            box = (dot.x + dx, dot.y + dy - 10, dot.x + dx + width, dot.y + dy + 2)
            inside = box[0] > x.start and box[2] < x.end and box[1] > y.end and box[3] < y.start
            if inside and not any(_meet(box, other) for other in boxes):
                boxes.append(box)
                yield Label(name, dot.x + dx, dot.y + dy, "name", k=dot.k)
                break


def _meet(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
