"""The roofline as a drawing: a dot a kernel, operations a byte against GFLOP/s, under what the machine allows.

After Williams, Waterman and Patterson 2009, "Roofline: an insightful visual performance model for multicore
architectures". Both axes are logarithmic; a level of memory is a slope, the multiply-adds are the flat roof.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from adjoint.profiling.machine import Peaks
from adjoint.profiling.markup import part_class, rate, tag, words
from adjoint.profiling.step import Row

__all__ = ["roofline_svg"]

_WIDTH, _HEIGHT = 1080.0, 500.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 64.0, 24.0, 28.0, 48.0

#: Share of the time from which a kernel's name is written beside its dot.
_NAMED = 0.01


@dataclass(frozen=True, slots=True)
class _Axis:
    """A logarithmic axis: decades of values to pixels."""

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


def roofline_svg(rows: Sequence[Row], peaks: Peaks) -> str:
    """The drawing of all kernels that have operations and took time to do them."""
    dots = [(k, row) for k, row in enumerate(rows) if row.gflops > 0 and row.intensity > 0]
    ridge = peaks.gflops / peaks.levels[-1].gbytes
    intensities = [row.intensity for _, row in dots]
    # Half a decade is left beside the roof's edge, so that it looks like one.
    x = _axis([min([0.3, *intensities]), max([3 * ridge, *intensities])], _LEFT, _WIDTH - _RIGHT)
    rates = [max(row.gflops, peaks.gflops * 1e-4) for _, row in dots]
    y = _axis([min([peaks.gflops / 100, *rates]), 1.5 * peaks.gflops], _HEIGHT - _BOTTOM, _TOP)
    parts = [*_grid(x, y), *_roofs(x, y, peaks), *_dots(dots, x, y)]
    return tag(
        "svg", *parts, viewBox=f"0 0 {_WIDTH:.0f} {_HEIGHT:.0f}", role="img", aria_label="roofline of the kernels"
    )


def _grid(x: _Axis, y: _Axis) -> Iterator[str]:
    for power in range(x.low, x.high + 1):
        at = x(10.0**power)
        yield tag("line", x1=at, x2=at, y1=y.start, y2=y.end, class_="grid")
        yield tag("text", words(_plain(power)), x=at, y=y.start + 18, class_="tick", text_anchor="middle")
    for power in range(y.low, y.high + 1):
        at = y(10.0**power)
        yield tag("line", x1=x.start, x2=x.end, y1=at, y2=at, class_="grid")
        yield tag("text", words(_plain(power)), x=x.start - 8, y=at + 4, class_="tick", text_anchor="end")
    middle = (x.start + x.end) / 2
    yield tag("text", "operations a byte", x=middle, y=y.start + 38, class_="tick", text_anchor="middle")
    yield tag("text", "GFLOP/s", x=x.start - 40, y=y.end - 12, class_="tick")


def _plain(power: int) -> str:
    return f"{10**power:,}" if power >= 0 else f"{10.0**power:g}"


def _roofs(x: _Axis, y: _Axis, peaks: Peaks) -> Iterator[str]:
    left, right, floor = 10.0**x.low, 10.0**x.high, 10.0**y.low
    for level in peaks.levels:
        begin = max(left, floor / level.gbytes)
        ridge = peaks.gflops / level.gbytes
        if ridge <= begin:
            continue
        yield tag("line", x1=x(begin), y1=y(begin * level.gbytes), x2=x(ridge), y2=y(peaks.gflops), class_="roof slope")
        decade_x, decade_y = x(10) - x(1), y(1) - y(10)
        angle = -math.degrees(math.atan2(decade_y, decade_x))
        # Every label at the same height, where the slopes lie well apart.
        mark = max(begin * 1.15, peaks.gflops * 0.012 / level.gbytes)
        px, py = x(mark), y(mark * level.gbytes) - 6
        label = f"{level.name} {rate(level.gbytes)} GB/s"
        yield tag("text", words(label), x=px, y=py, transform=f"rotate({angle:.1f} {px:.1f} {py:.1f})", class_="tick")
    first = max(left, peaks.gflops / max(level.gbytes for level in peaks.levels))
    roof = y(peaks.gflops)
    yield tag("line", x1=x(first), y1=roof, x2=x(right), y2=roof, class_="roof")
    label = f"multiply-add {rate(peaks.gflops)} GFLOP/s"
    yield tag("text", words(label), x=x(first) - 10, y=roof + 4, class_="tick", text_anchor="end")


def _dots(dots: Sequence[tuple[int, Row]], x: _Axis, y: _Axis) -> Iterator[str]:
    """Dots, the large ones first so that the small ones lie on them; then the names that find room."""
    placed: list[tuple[float, float, float]] = []
    ordered = sorted(dots, key=lambda dot: -dot[1].share)
    for k, row in ordered:
        at = x(row.intensity), y(max(row.gflops, 10.0**y.low)), 4 + 22 * math.sqrt(row.share)
        placed.append(at)
        yield tag("circle", cx=at[0], cy=at[1], r=at[2], class_=f"dot {part_class(row.part)}", data_k=k)
    boxes = [(px - r, py - r, px + r, py + r) for px, py, r in placed]
    for (k, row), (px, py, r) in zip(ordered, placed, strict=True):
        if row.share < _NAMED:
            continue
        width = 7.2 * len(row.kernel.name)
        for dx, dy in ((r + 5, 4), (-r - 5 - width, 4), (-width / 2, r + 14), (-width / 2, -r - 6)):
            box = (px + dx, py + dy - 10, px + dx + width, py + dy + 2)
            inside = box[0] > x.start and box[2] < x.end and box[1] > y.end and box[3] < y.start
            if inside and not any(_meet(box, other) for other in boxes):
                boxes.append(box)
                yield tag("text", words(row.kernel.name), x=px + dx, y=py + dy, class_="name", data_k=k)
                break


def _meet(a: tuple[float, float, float, float], b: tuple[float, float, float, float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
