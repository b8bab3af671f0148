"""Running sums, products and extremes along an axis.

The gradient of a running sum is a running sum in the other direction; those of the others are linear recurrences.
"""

from dataclasses import replace
from typing import ClassVar

import numpy as np

from adjoint.ir.types import is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, multiply, subtract
from adjoint.ops.axes import axis_of
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Sample, Scalar
from adjoint.ops.convert import cast, stop_gradient
from adjoint.ops.create import iota
from adjoint.ops.logic import equal, logical_not, logical_or, not_equal, where
from adjoint.ops.recurrence import LinearRecurrence, Scan, neighbour
from adjoint.ops.reduce import lowest, widened
from adjoint.ops.rules import require_float, rounded
from adjoint.ops.transcendental import exp, log

__all__ = [
    "CumMax",
    "CumMin",
    "CumProd",
    "CumSum",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "logcumsumexp",
]


@dataclass(frozen=True, slots=True)
class _Total(Scan):
    """Base class of running sums and products."""

    #: The scalar function, its start, and the NumPy function.
    function: ClassVar[str]
    start: ClassVar[int]
    exclusive: bool = False

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.cumsum` or `numpy.cumprod`, of the elements in the order of the scan."""
        run = np.cumsum if self.function == "add" else np.cumprod

        def total(wide: np.ndarray) -> np.ndarray:
            ordered = np.flip(wide, self.axis) if self.reverse else wide
            made = run(ordered, self.axis, dtype=wide.dtype)
            if self.exclusive and wide.shape[self.axis]:
                start = np.full_like(np.take(made, [0], self.axis), self.start)
                made = np.concatenate([start, np.take(made, range(made.shape[self.axis] - 1), self.axis)], self.axis)
            return np.flip(made, self.axis) if self.reverse else made

        return np.ascontiguousarray(rounded(total, x))

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """A prefix scan."""

        def step(n: Coordinate, carry: Scalar) -> Scalar:
            return k.call(self.function, carry, x(self.at(index, n)))

        start = k.const(self.start, x.type.dtype)
        return k.prefix_scan(self.axis, x.type.shape[self.axis], start, step, self.exclusive, self.reverse)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both directions, inclusive and exclusive; zeros and integers, which wrap around."""
        ways = [{"reverse": r, "exclusive": e} for r in (False, True) for e in (False, True)]
        zeros = np.array([[1.5, 0.0, -2.0, 0.0, 3.0]], np.float64)
        whole = np.array([[100, 3, 2], [7, -5, 100]], np.int8)
        return [
            *cls.scan_samples(*ways),
            *(Sample(cls(1, **way), (zeros,)) for way in ways[:2]),
            Sample(cls(1), (whole,)),
            Sample(cls(0, True, True), (whole.astype(np.int64),)),
        ]


@dataclass(frozen=True, slots=True)
class CumSum(_Total):
    """The running sum along an axis; integers wrap around, 16-bit floats are added in f32.

    Parameters
    ----------
    axis : int
        The axis, counted from the start.
    reverse : bool, default False
        Whether to run from the last element to the first.
    exclusive : bool, default False
        Whether to leave out the element itself, so that the first result is 0.
    """

    name: ClassVar[str] = "cumsum"
    function: ClassVar[str] = "add"
    start: ClassVar[int] = 0

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The running sum of the cotangent in the other direction; none for integers."""
        return (apply(replace(self, reverse=not self.reverse), ct) if is_float(x.dtype) else None,)


@dataclass(frozen=True, slots=True)
class CumProd(_Total):
    """The running product along an axis; integers wrap around, 16-bit floats are multiplied in f32.

    Parameters
    ----------
    axis : int
        The axis, counted from the start.
    reverse : bool, default False
        Whether to run from the last element to the first.
    exclusive : bool, default False
        Whether to leave out the element itself, so that the first result is 1.
    """

    name: ClassVar[str] = "cumprod"
    function: ClassVar[str] = "mul"
    start: ClassVar[int] = 1

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The product before each element times a recurrence over those after it: no division, so zeros are no case.

        With x's element i left out, the products from i on are ``before[i] * x[i + 1] * ... * x[j]``. The sum of these
        times the cotangents is ``before[i] * s[i]`` where ``s[i] = ct[i] + x[i + 1] * s[i + 1]``.
        """
        if not is_float(x.dtype):
            return (None,)
        before = out if self.exclusive else apply(replace(self, exclusive=True), x)
        following = neighbour(x, self.axis, self.reverse)
        own = neighbour(ct, self.axis, self.reverse) if self.exclusive else ct
        return (multiply(before, apply(LinearRecurrence(self.axis, not self.reverse), following, own)),)


@dataclass(frozen=True, slots=True)
class _Extreme(Scan):
    """Base class of running extremes."""

    function: ClassVar[str]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.maximum.accumulate` or `numpy.minimum.accumulate`, in the order of the scan."""
        run = np.maximum if self.function == "max" else np.minimum
        ordered = np.flip(x, self.axis) if self.reverse else x
        made = rounded(lambda wide: run.accumulate(wide, self.axis), ordered)
        return np.ascontiguousarray(np.flip(made, self.axis) if self.reverse else made)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """For each element that is an extreme when it comes, the cotangents up to the next one of these, as PyTorch."""
        if not is_float(x.dtype):
            return (None,)
        chosen = _newest(x, out)
        passed = neighbour(cast(logical_not(chosen), x.dtype), self.axis, self.reverse)
        return (where(chosen, apply(LinearRecurrence(self.axis, not self.reverse), passed, ct), 0.0),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """A prefix scan."""

        def step(n: Coordinate, carry: Scalar) -> Scalar:
            return k.call(self.function, carry, x(self.at(index, n)))

        dtype = x.type.dtype
        start = k.const(lowest(dtype) if self.function == "max" else _greatest(dtype), dtype)
        return k.prefix_scan(self.axis, x.type.shape[self.axis], start, step, reverse=self.reverse)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Both directions; ties, NaN, infinities, integers."""
        special = np.array([[1, 3, 3, np.nan, 5], [np.inf, -np.inf, 0, 0, 2]], np.float32)
        return [
            *cls.scan_samples({"reverse": False}, {"reverse": True}),
            Sample(cls(1), (special,), gradient=False),
            Sample(cls(0), (np.array([4, -7, 9, 9], np.int32),)),
            Sample(cls(0, True), (np.array([4, 200, 9], np.uint8),)),
        ]


def _greatest(dtype: np.dtype) -> float:
    return float("inf") if is_float(dtype) else int(np.iinfo(dtype).max)


def _newest(x: Value, extremes: Value) -> Value:
    """Where an element equals the extreme up to it, or is NaN: the last of equal ones counts."""
    return logical_or(equal(x, extremes), not_equal(x, x))


@dataclass(frozen=True, slots=True)
class CumMax(_Extreme):
    """The running maximum along an axis; NaN from the first NaN on. Of equal elements, the last gets the gradient.

    Parameters
    ----------
    axis : int
        The axis, counted from the start.
    reverse : bool, default False
        Whether to run from the last element to the first.
    """

    name: ClassVar[str] = "cummax"
    function: ClassVar[str] = "max"


@dataclass(frozen=True, slots=True)
class CumMin(_Extreme):
    """The running minimum along an axis; NaN from the first NaN on. Of equal elements, the last gets the gradient.

    Parameters
    ----------
    axis : int
        The axis, counted from the start.
    reverse : bool, default False
        Whether to run from the last element to the first.
    """

    name: ClassVar[str] = "cummin"
    function: ClassVar[str] = "min"


def cumsum(x: Value, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    """The running sum along an axis.

    Parameters
    ----------
    x : Value
        Numbers of any dtype, which the result has too; integers wrap around, 16-bit floats are added in f32.
    axis : int
        The axis, negative counting from the end.
    exclusive : bool, default False
        Leave out the element itself, so that the first result is 0.
    reverse : bool, default False
        Run from the last element to the first.
    """
    return apply(CumSum(axis_of("cumsum", axis, len(x.shape)), reverse, exclusive), x)


def cumprod(x: Value, axis: int, exclusive: bool = False, reverse: bool = False) -> Value:
    """The running product along an axis; its gradient is right where elements are 0. Parameters as in `cumsum`.

    With `exclusive`, the first result is 1.
    """
    return apply(CumProd(axis_of("cumprod", axis, len(x.shape)), reverse, exclusive), x)


def cummax(x: Value, axis: int, reverse: bool = False) -> tuple[Value, Value]:
    """The running maximum along an axis and its i64 positions: the last of equal ones; NaN is greater than any number.

    Parameters
    ----------
    x : Value
        Numbers of any dtype.
    axis : int
        The axis, negative counting from the end.
    reverse : bool, default False
        Run from the last element to the first.
    """
    at = axis_of("cummax", axis, len(x.shape))
    return _with_positions(apply(CumMax(at, reverse), x), x, at, reverse)


def cummin(x: Value, axis: int, reverse: bool = False) -> tuple[Value, Value]:
    """The running minimum along an axis and its i64 positions, of which NaN has one. Parameters as in `cummax`."""
    at = axis_of("cummin", axis, len(x.shape))
    return _with_positions(apply(CumMin(at, reverse), x), x, at, reverse)


def _with_positions(extremes: Value, x: Value, axis: int, reverse: bool) -> tuple[Value, Value]:
    """The extremes, and the position of the newest one that each is."""
    places = iota(x.shape, axis)
    missing = x.shape[axis] if reverse else -1
    newest = where(_newest(x, extremes), places, missing)
    return extremes, apply(CumMin(axis, True) if reverse else CumMax(axis), newest)


def logcumsumexp(x: Value, axis: int) -> Value:
    """``log(cumsum(exp(x)))`` along an axis, without overflow: relative to the greatest element so far.

    Parameters
    ----------
    x : Value
        Float. 16-bit floats are computed in f32 and rounded once.
    axis : int
        The axis, negative counting from the end.
    """
    require_float("logcumsumexp", x)
    at, wide = axis_of("logcumsumexp", axis, len(x.shape)), widened(x)
    top = stop_gradient(apply(CumMax(at), wide))
    # Do not subtract infinities: inf - inf would be NaN.
    level = where(equal(subtract(top, top), 0.0), top, 0.0)
    before = neighbour(top, at, True, float("-inf"))
    shrunk = exp(subtract(neighbour(level, at, True), level))
    shrunk = where(equal(before, float("-inf")), 0.0, shrunk)
    total = apply(LinearRecurrence(at), stop_gradient(shrunk), exp(subtract(wide, level)))
    # The logarithm has no derivative at 0.
    none = equal(total, 0.0)
    return cast(where(none, float("-inf"), add(level, log(where(none, 1.0, total)))), x.dtype)
