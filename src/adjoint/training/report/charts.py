"""Line charts as SVG: axes with round numbers, curves with bands, and points."""

import math
from collections.abc import Iterator, Sequence

import numpy as np

from adjoint.lazy_dataclass import dataclass
from adjoint.pages.figures import pixels
from adjoint.pages.shapes import Label, Line

__all__ = ["Chart", "Mark", "Series", "Stroke", "draw_chart"]

_WIDTH, _HEIGHT = 560.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 66.0, 14.0, 12.0, 40.0

#: The most points of a curve; of a longer one, neighbours are averaged, and a band shows their range.
_POINTS = 400

#: The most points that are drawn as dots.
_DOTS = 40

#: How many times as large as the median the largest value must be for a logarithmic axis.
_LOGARITHMIC = 20.0


@dataclass(frozen=True, slots=True)
class Series:
    """A curve.

    Parameters
    ----------
    name : str
        Its name in the legend.
    x, y : numpy.ndarray
        f64 [N]: the points, with x increasing; what is not finite is left out.
    dots : bool, default False
        Whether the points are measurements of their own, such as of an evaluation.
    """

    name: str
    x: np.ndarray
    y: np.ndarray
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Stroke:
    """A curve or band: its path, and the number of its series."""

    path: str
    series: int


@dataclass(frozen=True, slots=True)
class Mark:
    """A dot: its place, the number of its series, and what it says."""

    x: float
    y: float
    series: int
    text: str


@dataclass(frozen=True, slots=True)
class Chart:
    """The drawing, for the template ``chart.html.j2``."""

    title: str
    width: float
    height: float
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]
    bands: tuple[Stroke, ...]
    curves: tuple[Stroke, ...]
    dots: tuple[Mark, ...]
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels, along a line or logarithmically."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool = False

    def __call__(self, values: np.ndarray) -> np.ndarray:
        scaled = np.log10(values) if self.logarithmic else values
        return self.start + (scaled - self.low) / (self.high - self.low) * (self.end - self.start)

    def ticks(self) -> Iterator[tuple[float, str]]:
        """Positions in pixels, and their numbers."""
        size = _round_size((self.high - self.low) / 6)
        if self.logarithmic:
            size = max(1.0, math.ceil(size))
        for k in range(math.ceil(self.low / size - 1e-9), math.floor(self.high / size + 1e-9) + 1):
            place = self.start + (k * size - self.low) / (self.high - self.low) * (self.end - self.start)
            value = 10.0 ** (k * size) if self.logarithmic else k * size
            yield place, number(value)


def number(value: float) -> str:
    """A number with up to four digits."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.3g}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"


def _round_size(least: float) -> float:
    """The smallest of 1, 2 and 5 times a power of ten that is at least so large."""
    power = 10.0 ** math.floor(math.log10(least))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= least * (1 - 1e-9))


def draw_chart(title: str, series: Sequence[Series], x_name: str = "step") -> Chart | None:
    """Draw curves over a common axis.

    The vertical axis is logarithmic if all values are positive, and the largest is more than twenty times the median.

    Parameters
    ----------
    title : str
        What is drawn.
    series : sequence of Series
        The curves.
    x_name : str, default "step"
        The name of the horizontal axis.

    Returns
    -------
    Chart or None
        None if there is not a single point.
    """
    shown = [(each, _binned(each)) for each in series]
    shown = [(each, bins) for each, bins in shown if len(bins.x)]
    if not shown:
        return None
    low = np.concatenate([bins.low for _, bins in shown])
    high = np.concatenate([bins.high for _, bins in shown])
    middle = np.concatenate([bins.y for _, bins in shown])
    logarithmic = bool(low.min() > 0 and middle.max() > _LOGARITHMIC * np.median(middle))
    places = np.concatenate([bins.x for _, bins in shown])
    across = _Axis(*_range(places, False), _LEFT, _WIDTH - _RIGHT)
    # A band may leave the chart: single steps would squeeze the curve.
    inside = np.concatenate([middle, np.percentile(low, [2]), np.percentile(high, [98])])
    up = _Axis(*_range(np.log10(inside) if logarithmic else inside, True), _HEIGHT - _BOTTOM, _TOP, logarithmic)
    return Chart(
        title,
        _WIDTH,
        _HEIGHT,
        tuple(_grid(up)),
        tuple(_labels(across, up, x_name)),
        tuple(Stroke(_band(bins, across, up), i) for i, (_, bins) in enumerate(shown) if bins.is_wide),
        tuple(Stroke(_path(across(bins.x), up(bins.y)), i) for i, (_, bins) in enumerate(shown)),
        tuple(mark for i, (each, bins) in enumerate(shown) for mark in _dots(each, bins, across, up, i)),
        tuple(each.name for each, _ in shown),
    )


@dataclass(frozen=True, slots=True)
class _Bins:
    """A curve of few enough points, with the range that each stands for."""

    x: np.ndarray
    y: np.ndarray
    low: np.ndarray
    high: np.ndarray
    is_wide: bool


def _binned(series: Series) -> _Bins:
    finite = np.isfinite(series.y)
    x, y = np.asarray(series.x, np.float64)[finite], np.asarray(series.y, np.float64)[finite]
    if len(x) <= _POINTS:
        return _Bins(x, y, y, y, False)
    starts = np.linspace(0, len(x), _POINTS + 1).astype(np.int64)[:-1]
    counts = np.diff(np.append(starts, len(x)))
    means_x, means_y = (np.add.reduceat(values, starts) / counts for values in (x, y))
    return _Bins(means_x, means_y, np.minimum.reduceat(y, starts), np.maximum.reduceat(y, starts), True)


def _range(values: np.ndarray, padded: bool) -> tuple[float, float]:
    """The ends of an axis."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        size = abs(low) or 1.0
        return low - 0.5 * size, high + 0.5 * size
    space = 0.06 * (high - low) if padded else 0.0
    return low - space, high + space


def _grid(up: _Axis) -> Iterator[Line]:
    for y, _ in up.ticks():
        yield Line(_LEFT, y, _WIDTH - _RIGHT, y)


def _labels(across: _Axis, up: _Axis, x_name: str) -> Iterator[Label]:
    for y, text in up.ticks():
        yield Label(text, _LEFT - 7, y + 4, anchor="end")
    for x, text in across.ticks():
        # A count of steps or epochs has no fractions.
        if "." not in text:
            yield Label(text, x, _HEIGHT - _BOTTOM + 17, anchor="middle")
    yield Label(x_name, _WIDTH - _RIGHT, _HEIGHT - 6, anchor="end")


def _path(x: np.ndarray, y: np.ndarray) -> str:
    return "M" + "L".join(f"{pixels(a)} {pixels(b)}" for a, b in zip(x, y, strict=True))


def _band(bins: _Bins, across: _Axis, up: _Axis) -> str:
    x = across(bins.x)
    low, high = (np.clip(up(values), _TOP, _HEIGHT - _BOTTOM) for values in (bins.low, bins.high))
    return _path(np.append(x, x[::-1]), np.append(high, low[::-1])) + "Z"


def _dots(series: Series, bins: _Bins, across: _Axis, up: _Axis, i: int) -> Iterator[Mark]:
    if len(bins.x) > _DOTS or not (series.dots or len(bins.x) == 1):
        return
    for x, y, value in zip(across(bins.x), up(bins.y), bins.y, strict=True):
        yield Mark(float(x), float(y), i, f"{series.name} {number(float(value))}")
