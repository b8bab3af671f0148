"""How the functions of `adjoint.ops.pool` find windows, pool them, and compute positions and divisors."""

from collections.abc import Sequence
from dataclasses import replace
from math import prod

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, divide, floor_divide, multiply, subtract
from adjoint.ops.convert import cast
from adjoint.ops.create import constant, iota
from adjoint.ops.index import take
from adjoint.ops.piecewise import abs as absolute
from adjoint.ops.piecewise import relu, sign
from adjoint.ops.pooling import MaxPool2d, SumPool2d
from adjoint.ops.powers import power
from adjoint.ops.reduce import mean, widened
from adjoint.ops.resample import averages, resampled, window_bounds
from adjoint.ops.rules import require_float
from adjoint.ops.shape import expand_dims, pad, reshape, squeeze, stack
from adjoint.ops.slicing import slice as sliced
from adjoint.ops.views import swapaxes
from adjoint.ops.window_places import OfWindows, WindowArgMax, WindowPick
from adjoint.ops.windows import images, numbers

__all__ = [
    "Numbers",
    "Sizes",
    "Windows",
    "adaptive_average",
    "average",
    "covered",
    "framed",
    "pooled",
    "power_mean",
    "with_indices",
]

#: A number for all axes or one for each; for adaptive pooling also None for the size of the input.
Numbers = int | Sequence[int]
Sizes = int | Sequence[int | None] | None


@dataclass(frozen=True, slots=True)
class Windows:
    """The windows along one axis of an image.

    Parameters
    ----------
    size, window, stride, dilation, count : int
        Elements of the image and of a window, the distances between windows and between elements, number of windows.
    low, high : int
        Elements that are added before and after the image.
    table : numpy.ndarray or None
        For adaptive windows, which are copied to a stride of their own size: the elements that they consist of.
    """

    size: int
    window: int
    stride: int
    dilation: int
    count: int
    low: int
    high: int
    table: np.ndarray | None = None

    @property
    def apart(self) -> "Windows":
        """The same after `_separated`, which gives windows neighbouring elements."""
        if self.dilation == 1 and self.table is None:
            return self
        return replace(self, stride=self.window, dilation=1)

    def place(self, window: Value, inside: Value) -> Value:
        """The index in the image of an element of a window."""
        if self.table is not None:
            return take(constant(self.table), add(multiply(window, self.window), inside))
        return subtract(add(multiply(window, self.stride), multiply(inside, self.dilation)), self.low)

    def counts(self, include_pad: bool) -> np.ndarray:
        """The number of elements of each window, added ones beyond the padding excluded."""
        starts = np.arange(self.count) * self.stride - self.low
        stops = starts + self.window
        if include_pad:
            return np.minimum(stops, self.size + self.low) - starts
        return np.minimum(stops, self.size) - np.maximum(starts, 0)


def with_indices(x: Value, along: list[Windows]) -> tuple[Value, Value]:
    """The maxima of windows, and where in the image they are."""
    return pooled(MaxPool2d, x, along), _positions(x, along)


def _axes(
    name: str,
    axes: int,
    x: Value,
    window: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> list[Windows]:
    """The windows along each axis; raises for settings that are out of range."""
    sizes = numbers(name, "window", window, 1, axes)
    steps = sizes if stride is None else numbers(name, "stride", stride, 1, axes)
    around, apart = numbers(name, "padding", padding, 0, axes), numbers(name, "dilation", dilation, 1, axes)
    if any(2 * p > (k - 1) * d + 1 for p, k, d in zip(around, sizes, apart, strict=True)):
        raise InvalidValueError(
            f"{name}: padding must be at most half the window, got {padding!r} for {window!r}; pad less, or use pad "
            "first"
        )
    require_float(name, x)
    images(name, "the image", x.type, axes)
    settings = zip(x.shape[2:], sizes, steps, around, apart, strict=True)
    return [_axis(name, *each, ceil_mode) for each in settings]


def _axis(name: str, n: int, k: int, s: int, p: int, d: int, ceil_mode: bool) -> Windows:
    span = (k - 1) * d + 1
    room = n + 2 * p - span
    count = -(-room // s) + 1 if ceil_mode else room // s + 1
    if ceil_mode and (count - 1) * s >= n + p:  # this window would begin behind the image
        count -= 1
    if count < 1:
        raise TypeRuleError(
            f"{name}: windows must fit into the padded image, got windows that span {span} on an axis of {n} padded "
            f"by {p} on both sides; pad more or use a smaller window"
        )
    high = max(p, (count - 1) * s + span - n - p) if ceil_mode else p
    return Windows(n, k, s, d, count, p, high)


def framed(
    name: str,
    axes: int,
    x: Value,
    window: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    dilation: Numbers,
    ceil_mode: bool,
) -> tuple[Value, list[Windows]]:
    """Images with what never is the maximum around them, and the windows along each axis."""
    along = _axes(name, axes, x, window, stride, padding, dilation, ceil_mode)
    low, high = [axis.low for axis in along], [axis.high for axis in along]
    return _separated(pad(x, (0, 0, *low), (0, 0, *high), float("-inf")), along), along


def _separated(x: Value, along: list[Windows]) -> Value:
    """`x` with windows of neighbours along all axes."""
    for number, axis in enumerate(along, 2):
        x = _separated_axis(x, number, axis)
    return x


def _separated_axis(x: Value, number: int, axis: Windows) -> Value:
    """`x` with windows of neighbours along an axis: dilated or adaptive windows are copied, one after the other."""
    before, behind = x.shape[:number], x.shape[number + 1 :]
    if axis.table is not None:
        front = reshape(x, (prod(before), axis.size, prod(behind)))
        copied = swapaxes(take(swapaxes(front, 0, 1), constant(axis.table)), 0, 1)
        return reshape(copied, (*before, axis.table.size, *behind))
    if axis.dilation == 1:
        return x
    rank, length = len(x.shape), (axis.count - 1) * axis.stride + 1
    parts = []
    for tap in range(axis.window):
        start, step = tap * axis.dilation, axis.stride
        bounds = [(start, start + length, step) if n == number else (0, x.shape[n], 1) for n in range(rank)]
        parts.append(sliced(x, *zip(*bounds, strict=True)))
    return reshape(stack(parts, axis=number + 1), (*before, axis.count * axis.window, *behind))


def pooled(op: type[OfWindows], x: Value, along: list[Windows]) -> Value:
    """One element per window; volumes plane by plane, then along the planes."""
    last = [axis.apart for axis in along[-2:]]
    window, stride = tuple(axis.window for axis in last), tuple(axis.stride for axis in last)
    if len(along) == 1:
        return squeeze(apply(op((1, *window), (1, *stride)), expand_dims(x, 2)), 2)
    if len(along) == 2:
        return apply(op(window, stride), x)
    flat, first = _planes(x), along[0].apart
    found = _columns(apply(op(window, stride), flat), x)
    return _stacked(apply(op((first.window, 1), (first.stride, 1)), found), x, along)


def _planes(x: Value) -> Value:
    """The planes of volumes as channels of images."""
    return reshape(x, (x.shape[0], x.shape[1] * x.shape[2], *x.shape[3:]))


def _columns(flat: Value, x: Value) -> Value:
    """Pooled planes of volumes, with rows and columns in one."""
    return reshape(flat, (*x.shape[:3], prod(flat.shape[2:])))


def _stacked(found: Value, x: Value, along: list[Windows]) -> Value:
    return reshape(found, (*x.shape[:2], *(axis.count for axis in along)))


def _positions(x: Value, along: list[Windows]) -> Value:
    """Where in the image, as a flat index, the maximum of each window is."""
    if len(along) == 1:
        row = Windows(1, 1, 1, 1, 1, 0, 0)
        return squeeze(_positions(expand_dims(x, 2), [row, *along]), 2)
    if len(along) == 3:
        return _volume_positions(x, along)
    rows, columns = along
    op = WindowArgMax((rows.window, columns.window), (rows.apart.stride, columns.apart.stride))
    found = apply(op, x)
    down = floor_divide(found, columns.window)
    across = subtract(found, multiply(down, columns.window))
    top = rows.place(iota(found.shape, 2), down)
    return add(multiply(top, columns.size), columns.place(iota(found.shape, 3), across))


def _volume_positions(x: Value, along: list[Windows]) -> Value:
    """The same for volumes: the plane of the maximum, and the position in it, chosen from those of all planes."""
    front, rows, columns = along
    flat = _planes(x)
    inside = _columns(_positions(flat, [rows, columns]), x)
    largest = _columns(pooled(MaxPool2d, flat, [rows, columns]), x)
    window, stride = (front.window, 1), (front.apart.stride, 1)
    found = apply(WindowArgMax(window, stride), largest)
    plane = front.place(iota(found.shape, 2), found)
    # Positions are below 2**53, so that they are exact in f64, which windows are made of.
    chosen = cast(apply(WindowPick(window, stride), cast(inside, "f64"), found), "i64")
    return _stacked(add(multiply(plane, rows.size * columns.size), chosen), x, along)


def average(
    name: str,
    axes: int,
    x: Value,
    window: Numbers,
    stride: Numbers | None,
    padding: Numbers,
    count_include_pad: bool,
    ceil_mode: bool,
    divisor_override: int | None,
) -> Value:
    """The means of windows."""
    along = _axes(name, axes, x, window, stride, padding, 1, ceil_mode)
    if divisor_override == 0:
        raise InvalidValueError(f"{name}: divisor_override must not be 0, got 0; omit it for the mean")
    low, high = [axis.low for axis in along], [axis.high for axis in along]
    total = pooled(SumPool2d, pad(widened(x), (0, 0, *low), (0, 0, *high)), along)
    if divisor_override is not None:
        return cast(divide(total, float(divisor_override)), x.dtype)
    whole, each = 1, None
    for number, axis in enumerate(along):
        counts = axis.counts(count_include_pad)
        if np.all(counts == counts[0]):
            whole *= int(counts[0])
            continue
        aligned = constant(counts.reshape(-1, *(1 for _ in along[number + 1 :])), dtype=total.dtype)
        each = aligned if each is None else multiply(each, aligned)
    if each is None:
        return cast(divide(total, float(whole)), x.dtype)
    return cast(divide(total, multiply(each, float(whole)) if whole > 1 else each), x.dtype)


def power_mean(
    name: str, axes: int, x: Value, p: float, window: Numbers, stride: Numbers | None, ceil_mode: bool
) -> Value:
    """The roots of sums of powers of windows, as PyTorch computes them from means."""
    if not p:
        raise InvalidValueError(f"{name}: p must not be 0, got {p!r}; use 2 for the root of the sum of squares")
    require_float(name, x)
    means = average(name, axes, power(x, float(p)), window, stride, 0, True, ceil_mode, None)
    count = prod(numbers(name, "window", window, 1, axes))
    return power(multiply(multiply(sign(means), relu(absolute(means))), float(count)), 1.0 / p)


def _sizes(name: str, axes: int, x: Value, wanted: Sizes) -> list[int]:
    require_float(name, x)
    images(name, "the image", x.type, axes)
    given = [wanted] * axes if wanted is None or isinstance(wanted, int) else list(wanted)
    if len(given) != axes or not all(n is None or (isinstance(n, int) and n > 0) for n in given):
        raise InvalidValueError(
            f"{name}: output_size must be an integer of at least 1 or None, or one for each axis, got {wanted!r}; "
            "correct it"
        )
    return [size if n is None else n for n, size in zip(given, x.shape[2:], strict=True)]


def adaptive_average(name: str, axes: int, x: Value, wanted: Sizes) -> Value:
    """The means of windows that cover the image."""
    sizes = _sizes(name, axes, x, wanted)
    if all(n == 1 for n in sizes):
        return mean(x, tuple(range(2, 2 + axes)), keepdims=True)
    if not any(n % size for n, size in zip(x.shape[2:], sizes, strict=True)):
        window = [n // size for n, size in zip(x.shape[2:], sizes, strict=True)]
        return average(name, axes, x, window, None, 0, True, False, None)
    result = widened(x)
    for axis, size in enumerate(sizes, 2):
        if size != x.shape[axis]:
            result = resampled(result, axis, averages(x.shape[axis], size))
    return cast(result, x.dtype)


def covered(name: str, axes: int, x: Value, wanted: Sizes) -> tuple[Value, list[Windows]]:
    """Images with the windows of adaptive pooling apart, and these windows along each axis."""
    sizes = _sizes(name, axes, x, wanted)
    along = []
    for n, size in zip(x.shape[2:], sizes, strict=True):
        if n % size == 0 and n:
            along.append(Windows(n, n // size, n // size, 1, size, 0, 0))
            continue
        bounds = window_bounds(n, size)
        longest = max(stop - start for start, stop in bounds)
        # A shorter window repeats its last element, which is not the first of equal ones.
        table = np.array([min(start + i, stop - 1) for start, stop in bounds for i in range(longest)])
        along.append(Windows(n, longest, longest, 1, size, 0, 0, table))
    return _separated(x, along), along
