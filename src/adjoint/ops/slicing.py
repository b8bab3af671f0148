"""Slicing and joining: slice, pad, concat. The gradient of each is composed of the others."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, plural
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.axes import axis_of
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.create import plain_scalar, scalar_misfit
from adjoint.ops.rules import operands, refused
from adjoint.ops.sampling import spread
from adjoint.ops.vectorizing import all_mapped

__all__ = ["Concat", "Pad", "Slice", "concat", "pad", "slice", "slice_axis"]


def _one_each(name: str, x: TensorType, **fields: tuple[int, ...]) -> None:
    """Raise if an attribute does not have one integer per axis."""
    for field, given in fields.items():
        if len(given) != x.rank:
            raise TypeRuleError(
                f"{name}: {field} must have one number per axis, got {given} for {x}; pass {plural(x.rank, 'number')}"
            )


def _length(start: int, stop: int, step: int) -> int:
    return -(-(stop - start) // step)


@dataclass(frozen=True, slots=True)
class Slice(Operator):
    """The elements from `start` up to, not including, `stop`, in steps of `step`, along every axis.

    Parameters
    ----------
    start, stop : tuple of int
        One per axis, ``0 <= start <= stop <= size``.
    step : tuple of int
        One per axis, at least 1.
    """

    name: ClassVar[str] = "slice"
    flops: ClassVar[float] = 0.0
    start: tuple[int, ...]
    stop: tuple[int, ...]
    step: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "start", tuple(self.start))
        object.__setattr__(self, "stop", tuple(self.stop))
        object.__setattr__(self, "step", tuple(self.step))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The number of selected elements along each axis."""
        operands(self, inputs, 1)
        (x,) = inputs
        _one_each("slice", x, start=self.start, stop=self.stop, step=self.step)
        for axis, (size, start, stop, step) in enumerate(zip(x.shape, self.start, self.stop, self.step, strict=True)):
            if not 0 <= start <= stop <= size:
                raise TypeRuleError(
                    f"slice: bounds must satisfy 0 <= start <= stop <= size, got {start} to {stop} on axis {axis} of "
                    f"{x}; stay within {size}"
                )
            if step < 1:
                raise TypeRuleError(
                    f"slice: a step must be at least 1, got {step} on axis {axis} of {x}; use flip to reverse"
                )
        return x.with_shape(map(_length, self.start, self.stop, self.step))

    def reference(self, x: np.ndarray) -> np.ndarray:
        """NumPy's slicing."""
        return np.array(x[tuple(np.s_[a:b:c] for a, b, c in zip(self.start, self.stop, self.step, strict=True))])

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The cotangent at the selected elements, 0 elsewhere; none for integers."""
        if not is_float(x.dtype):
            return (None,)
        extents = [(n - 1) * step + 1 if n else 0 for n, step in zip(out.shape, self.step, strict=True)]
        high = tuple(size - a - extent for size, a, extent in zip(x.shape, self.start, extents, strict=True))
        return (pad(ct, self.start, high, interior=tuple(step - 1 for step in self.step)),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:  # noqa: ARG002
        """The element at ``start + index * step``."""
        return x(tuple(i * step + start for i, start, step in zip(index, self.start, self.step, strict=True)))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """All positions along the mapped axis."""
        (x,) = inputs
        return apply(Slice((0, *self.start), (x.shape[0], *self.stop), (1, *self.step)), x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Ranges at the ends and in the middle, steps, empty ranges; bounds out of range."""
        return [
            Sample(cls((1,), (4,), (1,)), (spread(5),)),
            Sample(cls((0, 1), (2, 3), (1, 1)), (spread(3, 4),)),
            Sample(cls((1, 0), (6, 5), (2, 3)), (spread(7, 5),)),
            Sample(cls((0, 1), (7, 6), (3, 2)), (spread(7, 7, dtype="f64"),)),
            Sample(cls((2, 0), (2, 3), (1, 2)), (spread(4, 3),)),
            Sample(cls((), (), ()), (spread(),)),
            Sample(cls((1,), (4,), (2,)), (np.array([1, 2, 3, 4], np.int32),)),
            refused(cls((1,), (6,), (1,)), ((5,), "f32"), error="got 1 to 6 on axis 0 of f32[5]; stay within 5"),
            refused(cls((3,), (2,), (1,)), ((5,), "f32"), error="0 <= start <= stop <= size, got 3 to 2"),
            refused(cls((0,), (2,), (0,)), ((5,), "f32"), error="a step must be at least 1, got 0 on axis 0"),
            refused(cls((0,), (2,), (1,)), ((5, 2), "f32"), error="start must have one number per axis, got (0,)"),
        ]


@dataclass(frozen=True, slots=True)
class Pad(Operator):
    """Insert `value` before, after and between the elements, along every axis.

    Parameters
    ----------
    low, high : tuple of int
        Number of values before and after, one per axis, at least 0.
    interior : tuple of int
        Number of values between two neighbours, one per axis, at least 0.
    value : float, int or bool, default 0.0
        The inserted value. The operand's dtype must be able to hold it; a whole number fits every number type.
    """

    name: ClassVar[str] = "pad"
    flops: ClassVar[float] = 0.0
    low: tuple[int, ...]
    high: tuple[int, ...]
    interior: tuple[int, ...]
    value: float | int | bool = 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "low", tuple(self.low))
        object.__setattr__(self, "high", tuple(self.high))
        object.__setattr__(self, "interior", tuple(self.interior))

    def infer(self, *inputs: TensorType) -> TensorType:
        """``low + size + (size - 1) * interior + high``, along each axis."""
        operands(self, inputs, 1)
        (x,) = inputs
        _one_each("pad", x, low=self.low, high=self.high, interior=self.interior)
        if any(n < 0 for n in (*self.low, *self.high, *self.interior)):
            raise TypeRuleError(
                f"pad: amounts must be at least 0, got low {self.low}, high {self.high}, interior "
                f"{self.interior} for {x}; use slice to remove elements"
            )
        misfit = scalar_misfit(plain_scalar(self.value, x.dtype), x.dtype)
        if misfit:
            raise TypeRuleError(f"pad: {misfit}")
        return x.with_shape(self._padded(x.shape))

    def _extents(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Distance from the first to the last element of the operand in the result, inclusive, along each axis."""
        return tuple((n - 1) * (gap + 1) + 1 if n else 0 for n, gap in zip(shape, self.interior, strict=True))

    def _padded(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(a + n + b for a, n, b in zip(self.low, self._extents(shape), self.high, strict=True))

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The operand written into an array filled with `value`."""
        result = np.full(self._padded(x.shape), self.value, x.dtype)
        spans = zip(self.low, self._extents(x.shape), self.interior, strict=True)
        result[tuple(np.s_[a : a + n : gap + 1] for a, n, gap in spans)] = x
        return result

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent at the operand's elements; none for integers."""
        if not is_float(x.dtype):
            return (None,)
        stop = tuple(a + n for a, n in zip(self.low, self._extents(x.shape), strict=True))
        return (slice(ct, self.low, stop, tuple(gap + 1 for gap in self.interior)),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """The operand's element, read only where there is one; otherwise the value."""
        value = k.const(plain_scalar(self.value, x.type.dtype), x.type.dtype)
        if 0 in x.type.shape:
            return value
        own, tests = [], []
        for axis, extent in enumerate(self._extents(x.type.shape)):
            low, step = self.low[axis], self.interior[axis] + 1
            i = index[axis] - low
            # Elements less than one step outside need no bounds check: the remainder test already excludes them.
            if low >= step or self.high[axis] >= step:
                tests.append(k.inside(i, 0, extent))
            if step > 1:
                tests.append(k.inside(i % step, 0, 1))
            # At an element its coordinate is i // step; elsewhere this is close to a valid coordinate.
            own.append(index[axis] // step - low // step)
        if not tests:
            return x(tuple(own))
        condition = tests[0]
        for test in tests[1:]:
            condition = k.call("and", condition, test)
        return k.choose(condition, lambda: x(tuple(own)), lambda: value)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """Nothing is inserted along the mapped axis."""
        return apply(Pad((0, *self.low), (0, *self.high), (0, *self.interior), self.value), *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Padding before, after and between, combined, and none; values of each kind."""
        return [
            Sample(cls((1,), (2,), (0,)), (spread(3),)),
            Sample(cls((0, 2), (1, 0), (0, 0), -1.5), (spread(2, 3),)),
            Sample(cls((0,), (0,), (2,)), (spread(4, dtype="f64"),)),
            Sample(cls((1, 0), (2, 1), (1, 2), 0.25), (spread(3, 2),)),
            Sample(cls((1,), (1,), (0,), float("-inf")), (spread(3),), gradient=False),
            Sample(cls((2,), (1,), (3,)), (spread(1),)),
            Sample(cls((1, 1), (2, 0), (1, 0)), (spread(0, 2),)),
            Sample(cls((0,), (0,), (0,)), (spread(3),)),
            Sample(cls((), (), ()), (spread(),)),
            Sample(cls((1,), (1,), (1,), 7), (np.array([1, -2, 3], np.int32),)),
            Sample(cls((1,), (0,), (0,), True), (np.array([False, False]),)),
            refused(cls((-1,), (0,), (0,)), ((3,), "f32"), error="at least 0, got low (-1,)"),
            refused(cls((1,), (0,), (0,), 2.5), ((3,), "i32"), error="pad: i32 holds integers, got 2.5"),
            refused(cls((1,), (0,), (0,)), ((3, 3), "f32"), error="low must have one number per axis, got (1,)"),
        ]


@dataclass(frozen=True, slots=True)
class Concat(Operator):
    """The operands concatenated along an axis.

    Parameters
    ----------
    axis : int
        The axis, counted from the start; the operands have equal dtypes and otherwise equal sizes.
    """

    name: ClassVar[str] = "concat"
    flops: ClassVar[float] = 0.0
    axis: int

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type with the sum of the sizes along the axis."""
        operands(self, inputs, max(len(inputs), 1))
        first = inputs[0]
        if not 0 <= self.axis < first.rank:
            raise TypeRuleError(
                f"concat: axis must be from 0 to {first.rank - 1} for {first}, got {self.axis}; choose one of its axes"
                if first.rank
                else f"concat: a scalar has no axes, got axis {self.axis} for {first}; reshape it to [1]"
            )
        rest = self._rest(first)
        for other in inputs[1:]:
            if other.dtype != first.dtype:
                raise TypeRuleError(
                    f"concat: operands must have the same dtype, got {first} and {other}; cast one of them"
                )
            if other.rank != first.rank or self._rest(other) != rest:
                raise TypeRuleError(
                    f"concat: sizes must be equal except on axis {self.axis}, got {first} and {other}; "
                    "reshape, pad or slice one of them"
                )
        size = 0
        for operand in inputs:
            size += operand.shape[self.axis]
        return first.with_shape((*first.shape[: self.axis], size, *first.shape[self.axis + 1 :]))

    def _rest(self, x: TensorType) -> tuple[int, ...]:
        return (*x.shape[: self.axis], *x.shape[self.axis + 1 :])

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """`numpy.concatenate`."""
        return np.concatenate(inputs, self.axis)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:
        """For each operand, its part of the cotangent; none for integers."""
        if not is_float(out.dtype):
            return (None,) * len(inputs)
        parts: list[Value | None] = []
        start = 0
        for x in inputs:
            stop = start + x.shape[self.axis]
            parts.append(slice_axis(ct, self.axis, start, stop))
            start = stop
        return tuple(parts)

    def lower(self, k: Builder, index: Index, *inputs: Operand) -> Scalar:
        """The element of the operand that contains the coordinate, found by binary search."""
        starts = [0]
        for x in inputs:
            starts.append(starts[-1] + x.type.shape[self.axis])

        def element(first: int, last: int) -> Scalar:
            if last - first == 1:
                own = index[self.axis] - starts[first]
                return inputs[first]((*index[: self.axis], own, *index[self.axis + 1 :]))
            middle = (first + last) // 2
            before = k.inside(index[self.axis], 0, starts[middle])
            return k.choose(before, lambda: element(first, middle), lambda: element(middle, last))

        return element(0, len(inputs))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same along the axis that follows."""
        return apply(Concat(self.axis + 1), *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """One to five operands, each axis, sizes 0 and 1."""
        return [
            Sample(cls(0), (spread(2, 3), spread(4, 3))),
            Sample(cls(1), (spread(2, 3), spread(2, 1), spread(2, 4))),
            Sample(cls(0), tuple(spread(n, dtype="f64") for n in (3, 1, 0, 2, 4))),
            Sample(cls(2), (spread(2, 1, 3), spread(2, 1, 2))),
            Sample(cls(0), (spread(3),)),
            Sample(cls(0), (np.array([1, 2], np.int64), np.array([-3], np.int64))),
            refused(
                cls(0), ((2, 3), "f32"), ((2, 4), "f32"), error="equal except on axis 0, got f32[2,3] and f32[2,4]"
            ),
            refused(cls(0), ((2,), "f32"), ((2, 1), "f32"), error="equal except on axis 0, got f32[2] and f32[2,1]"),
            refused(
                cls(0),
                ((2,), "f32"),
                ((2,), "f64"),
                error="concat: operands must have the same dtype, got f32[2] and f64[2]; cast one of",
            ),
            refused(cls(1), ((2,), "f32"), error="concat: axis must be from 0 to 0 for f32[2], got 1"),
            refused(cls(0), ((), "f32"), error="concat: a scalar has no axes"),
            refused(cls(0), error="concat: takes 1 operand, got none"),
        ]


def slice(x: Value, start: Sequence[int], stop: Sequence[int], step: Sequence[int] | None = None) -> Value:
    """The elements from `start` up to, not including, `stop`, in steps of `step`, along every axis.

    Parameters
    ----------
    x : Value
        Any tensor. Returned unchanged if the slice contains all of it.
    start, stop : sequence of int
        One per axis; negative ones count from the end. Bounds beyond the end are an error; they are not clipped.
    step : sequence of int, optional
        One per axis, at least 1; default: 1.
    """
    steps = (1,) * len(x.shape) if step is None else tuple(step)
    if len(start) == len(stop) == len(x.shape):
        start = [i + size if i < 0 else i for i, size in zip(start, x.shape, strict=True)]
        stop = [i + size if i < 0 else i for i, size in zip(stop, x.shape, strict=True)]
    op = Slice(tuple(start), tuple(stop), steps)
    whole = op.stop == x.shape and not any(op.start) and all(n == 1 for n in steps) and len(steps) == len(x.shape)
    return x if whole else apply(op, x)


def slice_axis(x: Value, axis: int, start: int, stop: int, step: int = 1) -> Value:
    """`slice` along one axis, which may be negative, keeping all of the others."""
    n, rank = axis_of("slice", axis, len(x.shape)), len(x.shape)

    def at(number: int, others: Sequence[int]) -> list[int]:
        return [number if other == n else others[other] for other in range(rank)]

    return slice(x, at(start, (0,) * rank), at(stop, x.shape), at(step, (1,) * rank))


def pad(
    x: Value,
    low: int | Sequence[int],
    high: int | Sequence[int],
    value: Any = 0.0,
    interior: int | Sequence[int] = 0,
) -> Value:
    """Insert `value` before, after and between the elements.

    Parameters
    ----------
    x : Value
        Any tensor. Returned unchanged if nothing is to be inserted.
    low, high : int or sequence of int
        Number of values before and after, at least 0: one number per axis, or one for all axes.
    value : float, int or bool, default 0.0
        The inserted value; `x`'s dtype must be able to hold it.
    interior : int or sequence of int, default 0
        Number of values between two neighbours, at least 0.
    """
    rank = len(x.shape)
    low, high, interior = ((n,) * rank if isinstance(n, int) else tuple(n) for n in (low, high, interior))
    if value == 0 and x.dtype == np.bool_:
        value = False
    op = Pad(low, high, interior, plain_scalar(value, x.dtype))
    nothing = len(low) == len(high) == len(interior) == rank and not any((*low, *high, *interior))
    return x if nothing else apply(op, x)


def concat(*values: Value | Sequence[Value], axis: int = 0) -> Value:
    """Concatenate tensors along an axis.

    Parameters
    ----------
    *values : Value
        One or more tensors, or one sequence of them, with equal dtypes and equal sizes except along `axis`. A single
        tensor is returned unchanged.
    axis : int, default 0
        The axis; negative counts from the end.
    """
    given: list[Value] = []
    for value in values:
        given.extend([value] if isinstance(value, Value) else value)
    if not given:
        raise InvalidValueError("concat: at least one tensor is required, got none; pass one")
    at = axis_of("concat", axis, len(given[0].shape)) if given[0].shape else axis
    return given[0] if len(given) == 1 and given[0].shape else apply(Concat(at), *given)
