"""Operators that return their operand with another dtype, gradient, check or time: cast, stop_gradient and others."""

from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir.types import DTYPES, TensorType, as_dtype, is_float, is_integer
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Elementwise, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.rules import floats, operands, refused, require
from adjoint.ops.vectorizing import all_mapped

__all__ = ["After", "Cast", "CheckRange", "StopGradient", "after", "cast", "check_range", "stop_gradient"]


@dataclass(frozen=True, slots=True)
class Cast(Elementwise):
    """Convert to another dtype.

    To floats, and from integers to floats, values are rounded to the nearest; from float to integer truncated, limited
    to the integer's range, with NaN as 0; between integers taken modulo 2**bits; to bool by ``!= 0``.

    Parameters
    ----------
    dtype : dtype
        Dtype of the result.
    """

    name: ClassVar[str] = "cast"
    dtype: np.dtype

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def infer(self, *inputs: TensorType) -> TensorType:
        """Takes any type; returns the same shape with the new dtype."""
        operands(self, inputs, 1)
        return inputs[0].with_dtype(self.dtype)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.ndarray.astype`, but saturating from float to integer."""
        if is_float(x.dtype) and is_integer(self.dtype):
            return _saturated(x.astype(np.float64), self.dtype)
        with np.errstate(all="ignore"):
            return x.astype(self.dtype)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The cotangent in the operand's dtype; none unless both dtypes are floats."""
        smooth = is_float(x.dtype) and is_float(out.dtype)
        return (cast(ct, x.dtype) if smooth else None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The conversion of one element."""
        return k.cast(x, self.dtype)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Every dtype to every other; values out of range, NaN."""
        plain = np.array([[0, 1, 2], [5, 7, 100]], np.int64)
        good = [
            Sample(cls(target), (plain.astype(source),), gradient=False)
            for source in DTYPES.values()
            for target in DTYPES.values()
        ]
        special = np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, -0.9, 1.9, -1.5, 300.0, -300.0])
        targets = ("i8", "u8", "i32", "u32", "i64", "u64", "bool", "f32")
        good += [Sample(cls(DTYPES[target]), (special,), gradient=False) for target in targets]
        wraps = np.array([-1, 128, 256, 2**31, -(2**63), 2**24 + 1])
        good += [Sample(cls(DTYPES[t]), (wraps,)) for t in ("i8", "u8", "i32", "u64", "f32", "f64", "bool")]
        fractions = floats(33, low=-300.0, high=300.0)
        good += [Sample(cls(DTYPES[target]), (fractions,), gradient=False) for target in ("f16", "bf16", "i16", "f64")]
        smooth = Sample(cls(DTYPES["f64"]), (floats(3, 5),))
        return [*good, smooth, Sample(cls(DTYPES["f32"]), (), error="cast: takes 1 operand, got none")]


def _saturated(x: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Float64 converted to integer by truncation, limited to the range, with NaN as 0."""
    limits = np.iinfo(dtype)
    # max + 1 is a power of 2, hence exact; so is the minimum, unless it is 0.
    low, high = x <= float(limits.min), x >= float(limits.max + 1)
    within = ~(low | high | np.isnan(x))
    whole = np.where(within, x, 0.0).astype(dtype)
    return np.where(low, dtype.type(limits.min), np.where(high, dtype.type(limits.max), whole))


@dataclass(frozen=True, slots=True)
class StopGradient(Elementwise):
    """The operand itself, with no gradient."""

    name: ClassVar[str] = "stop_gradient"
    flops: ClassVar[float] = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Any type, unchanged."""
        operands(self, inputs, 1)
        return inputs[0]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """A copy."""
        return x.copy()

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: it is what stops the gradient."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:  # noqa: ARG002
        """The element."""
        return x

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers and bool. The gradient is by definition not the derivative, so it is not compared."""
        good = [floats(3, 7), floats(dtype="f64"), np.arange(5), np.array([True, False])]
        bad = Sample(cls(), (np.zeros(2), np.zeros(2)), error="stop_gradient: takes 1 operand, got f64[2], f64[2]")
        return [*(Sample(cls(), (x,), gradient=False) for x in good), bad]


@dataclass(frozen=True, slots=True)
class CheckRange(Elementwise):
    """The identity for integers, with the check that each is in ``[low, high)`` or equal to `allow`.

    A compiled function checks its arguments, and views and casts of them, before it starts, so nothing is modified if,
    for example, a class index is out of range. Integers that are computed inside it are not checked.

    Parameters
    ----------
    low : int
        The minimum.
    high : int
        One more than the maximum.
    allow : int, optional
        One additional allowed value, such as an index that a loss ignores.
    """

    name: ClassVar[str] = "check_range"
    low: int
    high: int
    allow: int | None = None

    def __post_init__(self) -> None:
        if self.low >= self.high:
            raise InvalidValueError(f"check_range: low must be below high, got {self.low} and {self.high}; swap them?")

    def infer(self, *inputs: TensorType) -> TensorType:
        """Integers, type unchanged."""
        operands(self, inputs, 1)
        require(self, inputs, "integer unsigned", "cast it to i64")
        return inputs[0]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """A copy; raises an InvalidValueError for the first element out of range."""
        # Compare Python integers, because the dtype may be unable to hold the bounds.
        wrong = [
            (where, int(x[where]))
            for where in np.ndindex(x.shape)
            if not self.low <= int(x[where]) < self.high and int(x[where]) != self.allow
        ]
        if wrong:
            where, element = wrong[0]
            also = "" if self.allow is None else f" or equal {self.allow}"
            place = f" at {where}" if where else ""
            raise InvalidValueError(
                f"check_range: every element must be in [{self.low}, {self.high}){also}, got {element}{place}; "
                "correct the data"
            )
        return x.copy()

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: integers have no gradient."""
        return (None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:  # noqa: ARG002
        """The element; the compiler checks the function's inputs beforehand."""
        return x

    @classmethod
    def samples(cls) -> list[Sample]:
        """Values inside, at both limits, and the allowed exception; floats are rejected."""
        return [
            Sample(cls(0, 10), (np.array([0, 9, 5], np.int64),)),
            Sample(cls(-3, 4, -100), (np.array([[-3, 3], [-100, 0]], np.int32),)),
            Sample(cls(-1, 300), (np.array([0, 255], np.uint8),)),
            refused(cls(0, 10), ((3,), "f32"), error="check_range: the dtype must be integer or unsigned"),
        ]


@dataclass(frozen=True, slots=True)
class After(Operator):
    """The first operand, ordered after the computation of the second.

    It is the identity and copies nothing. Its users also depend on the second operand, so compiled code computes them
    later. It corresponds to ``optimization_barrier`` in XLA, which JAX uses for recomputation.
    """

    name: ClassVar[str] = "after"
    flops: ClassVar[float] = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """Takes any two tensors; returns the type of the first."""
        operands(self, inputs, 2)
        return inputs[0]

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """A copy of the first operand."""
        return x.copy()

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent for the first operand. The second is not read, so it gets none."""
        return (ct, None)

    def lower(self, k: Builder, index: Index, x: Operand, y: Operand) -> Scalar:  # noqa: ARG002
        """The element of the first operand."""
        return x(index)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The first operand along the mapped axis; the second as it is."""
        return apply(self, all_mapped(mapped, inputs)[0], inputs[1])

    @classmethod
    def samples(cls) -> list[Sample]:
        """Equal and different types; a single operand is rejected."""
        good = [
            (floats(3, 7), np.arange(5)),
            (floats(2, dtype="f64"), np.array(True)),
            (np.arange(4), floats(2, 2)),
            (np.zeros((0, 3), np.float32), np.arange(2)),
        ]
        return [*(Sample(cls(), pair) for pair in good), refused(cls(), ((3,), "f32"), error="after: takes 2 operands")]


def cast(x: Value, dtype: object) -> Value:
    """`x` in another dtype; `Cast` defines rounding and saturation.

    Parameters
    ----------
    x : Value
        The operand, which is returned unchanged if it already has the dtype.
    dtype : str or numpy dtype
        For example ``"f32"``.
    """
    target = as_dtype(dtype)
    return x if x.dtype == target else apply(Cast(target), x)


def stop_gradient(x: Value) -> Value:
    """`x`, with no gradient."""
    return apply(StopGradient(), x)


def check_range(x: Value, low: int, high: int, allow: int | None = None) -> Value:
    """`x`, an integer tensor, with the check that each element is in ``[low, high)`` or equal to `allow`.

    Raises
    ------
    InvalidValueError
        At construction, if `low` is not below `high`; at run time, if an element is out of range.
    """
    return apply(CheckRange(low, high, allow), x)


def after(x: Value, y: Value) -> Value:
    """`x`, for users that must be computed after `y`."""
    return apply(After(), x, y)
