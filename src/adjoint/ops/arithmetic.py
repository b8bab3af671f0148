"""Arithmetic, elementwise: sums, differences, products and quotients.

Integers take part; they have no gradient. Powers and roots are in `adjoint.ops.powers`; extremes, absolute values
and whatever else has slopes that jump, in `adjoint.ops.piecewise`.
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.base import Builder, Sample, Scalar
from adjoint.ops.build import Argument, broadcast_operands
from adjoint.ops.rules import (
    NumberOp,
    binary_samples,
    integer_samples,
    operands,
    refused,
    require,
    rounded,
    unary_samples,
)

__all__ = ["Add", "Divide", "Multiply", "Negative", "Subtract", "add", "divide", "multiply", "negative", "subtract"]


@dataclass(frozen=True, slots=True)
class Add(NumberOp):
    """``x + y``. Integers wrap around."""

    name: ClassVar[str] = "add"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.add`."""
        return rounded(np.add, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent, to both; none for integers."""
        return (ct, ct) if is_float(x.dtype) else (None, None)

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """One sum."""
        return k.call("add", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers at the ends of their range."""
        return [*binary_samples(cls()), *integer_samples(cls())]


@dataclass(frozen=True, slots=True)
class Subtract(NumberOp):
    """``x - y``. Integers wrap around."""

    name: ClassVar[str] = "subtract"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.subtract`."""
        return rounded(np.subtract, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent, and minus it; none for integers."""
        return (ct, negative(ct)) if is_float(x.dtype) else (None, None)

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """One difference."""
        return k.call("sub", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers at the ends of their range."""
        return [*binary_samples(cls()), *integer_samples(cls())]


@dataclass(frozen=True, slots=True)
class Multiply(NumberOp):
    """``x * y``. Integers wrap around."""

    name: ClassVar[str] = "multiply"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.multiply`."""
        return rounded(np.multiply, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent times the other operand; none for integers."""
        return (multiply(ct, y), multiply(ct, x)) if is_float(x.dtype) else (None, None)

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """One product."""
        return k.call("mul", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers at the ends of their range."""
        return [*binary_samples(cls()), *integer_samples(cls())]


@dataclass(frozen=True, slots=True)
class Divide(NumberOp):
    """``x / y``; of integers, the quotient rounded down, as NumPy's ``//``.

    Division never traps: a float by 0 is an infinity or NaN, an integer by 0 is 0, and the most negative
    integer by -1 wraps around to itself.
    """

    name: ClassVar[str] = "divide"
    flops: ClassVar[float] = 4.0

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.divide`, or `numpy.floor_divide` of integers."""
        return rounded(np.divide if is_float(x.dtype) else np.floor_divide, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:
        """``ct / y`` and ``-(ct / y) * out``: no ``y * y``, which overflows early; none for integers."""
        if not is_float(x.dtype):
            return (None, None)
        share = divide(ct, y)
        return (share, negative(multiply(share, out)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """One quotient."""
        return k.call("div", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, divisors of 0, integers with every combination of signs and a divisor of 0."""
        zeros = (np.array([1, -1, 0, 2], np.float32), np.array([0, 0, 0, 4], np.float32))
        corners = (np.array([-128, 5, -7, 0], np.int8), np.array([-1, 0, 0, 0], np.int8))
        return [
            *binary_samples(cls(), 0.5, 2.0),
            Sample(cls(), zeros, gradient=False),
            Sample(cls(), corners),
            *integer_samples(cls()),
        ]


@dataclass(frozen=True, slots=True)
class Negative(NumberOp):
    """``-x`` of floats and signed integers."""

    name: ClassVar[str] = "negative"
    arity: ClassVar[int] = 1

    def infer(self, *inputs: TensorType) -> TensorType:
        """A number with a sign in, the same type out."""
        operands(self, inputs, 1)
        require(self, inputs, "float integer", "cast to a type with a sign, or use logical_not for bool")
        return inputs[0]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.negative`."""
        return rounded(np.negative, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Minus the cotangent; none for integers."""
        return (negative(ct) if is_float(x.dtype) else None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """One change of sign."""
        return k.call("neg", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and signed integers."""
        good = [sample for sample in unary_samples(cls()) if not sample.error]
        unsigned = refused(cls(), ((3,), "u8"), error="negative: the dtype must be float or integer, got u8[3]")
        return [*good, *integer_samples(cls(), unsigned=False), unsigned]


def add(x: Argument, y: Argument) -> Value:
    """``x + y``, broadcast; a scalar adopts the other's dtype."""
    return apply(Add(), *broadcast_operands("add", x, y))


def subtract(x: Argument, y: Argument) -> Value:
    """``x - y``, broadcast; a scalar adopts the other's dtype."""
    return apply(Subtract(), *broadcast_operands("subtract", x, y))


def multiply(x: Argument, y: Argument) -> Value:
    """``x * y``, broadcast; a scalar adopts the other's dtype."""
    return apply(Multiply(), *broadcast_operands("multiply", x, y))


def divide(x: Argument, y: Argument) -> Value:
    """``x / y``, broadcast, and ``x // y`` of integers; a scalar adopts the other's dtype. See `Divide`."""
    return apply(Divide(), *broadcast_operands("divide", x, y))


def negative(x: Value) -> Value:
    """``-x`` of a number with a sign."""
    return apply(Negative(), x)
