"""Elementwise arithmetic: sums, differences, products and quotients.

Integers are supported, but have no gradient. Powers and roots are in `adjoint.ops.powers`; extrema, absolute values and
other functions with discontinuous derivatives in `adjoint.ops.piecewise`.
"""

from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType, is_float, is_integer
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
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

__all__ = [
    "Add",
    "Divide",
    "Multiply",
    "Negative",
    "Subtract",
    "add",
    "divide",
    "floor_divide",
    "multiply",
    "negative",
    "subtract",
    "true_divide",
]


@dataclass(frozen=True, slots=True)
class Add(NumberOp):
    """``x + y``. Integers wrap around."""

    name: ClassVar[str] = "add"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.add`."""
        return rounded(np.add, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent, for both; none for integers."""
        return (ct, ct) if is_float(x.dtype) else (None, None)

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The sum of two elements."""
        return k.call("add", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, and integers including the limits of their range."""
        return [*binary_samples(cls()), *integer_samples(cls())]


@dataclass(frozen=True, slots=True)
class Subtract(NumberOp):
    """``x - y``. Integers wrap around."""

    name: ClassVar[str] = "subtract"

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.subtract`."""
        return rounded(np.subtract, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent and its negative; none for integers."""
        return (ct, negative(ct)) if is_float(x.dtype) else (None, None)

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The difference of two elements."""
        return k.call("sub", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, and integers including the limits of their range."""
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
        """The product of two elements."""
        return k.call("mul", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, and integers including the limits of their range."""
        return [*binary_samples(cls()), *integer_samples(cls())]


@dataclass(frozen=True, slots=True)
class Divide(NumberOp):
    """``x / y``; for integers, the quotient rounded down, like NumPy's ``//``.

    Division never traps: a float divided by 0 is an infinity or NaN, an integer divided by 0 is 0, and the most
    negative integer divided by -1 wraps around to itself.
    """

    name: ClassVar[str] = "divide"
    flops: ClassVar[float] = 4.0

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.divide`, or `numpy.floor_divide` for integers."""
        return rounded(np.divide if is_float(x.dtype) else np.floor_divide, x, y)

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:
        """``ct / y`` and ``-(ct / y) * out``, avoiding ``y * y``, which overflows early; none for integers."""
        if not is_float(x.dtype):
            return (None, None)
        share = divide(ct, y)
        return (share, negative(multiply(share, out)))

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The quotient of two elements."""
        return k.call("div", x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, floats divided by 0, and integers with every combination of signs and a divisor of 0."""
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
    """``-x`` for floats and signed integers."""

    name: ClassVar[str] = "negative"
    arity: ClassVar[int] = 1

    def infer(self, *inputs: TensorType) -> TensorType:
        """A signed number type, unchanged."""
        operands(self, inputs, 1)
        require(self, inputs, "float integer", "cast to a type with a sign, or use logical_not for bool")
        return inputs[0]

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.negative`."""
        return rounded(np.negative, x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The negative cotangent; none for integers."""
        return (negative(ct) if is_float(x.dtype) else None,)

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """The negative of an element."""
        return k.call("neg", x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats and signed integers."""
        good = [sample for sample in unary_samples(cls()) if not sample.error]
        unsigned = refused(cls(), ((3,), "u8"), error="negative: the dtype must be float or integer, got u8[3]")
        return [*good, *integer_samples(cls(), unsigned=False), unsigned]


def add(x: Argument, y: Argument) -> Value:
    """``x + y``, broadcast; scalars and arrays are promoted."""
    return apply(Add(), *broadcast_operands("add", x, y))


def subtract(x: Argument, y: Argument) -> Value:
    """``x - y``, broadcast; scalars and arrays are promoted."""
    return apply(Subtract(), *broadcast_operands("subtract", x, y))


def multiply(x: Argument, y: Argument) -> Value:
    """``x * y``, broadcast; scalars and arrays are promoted."""
    return apply(Multiply(), *broadcast_operands("multiply", x, y))


def divide(x: Argument, y: Argument) -> Value:
    """``x / y``, broadcast, or ``x // y`` for integers, as in `Divide`; scalars and arrays are promoted."""
    return apply(Divide(), *broadcast_operands("divide", x, y))


def true_divide(x: Argument, y: Argument) -> Value:
    """``x / y`` for floats, as Python writes it: the same as `divide`, except that integers are refused.

    Raises
    ------
    TypeRuleError
        If both are integers: NumPy's ``/`` gives floats there and `divide` rounds down.
    """
    left, right = broadcast_operands("true_divide", x, y)
    if is_integer(left.dtype) and is_integer(right.dtype):
        raise TypeRuleError(
            f"true_divide: the operands of / must be float, got {left.type} / {right.type}; use // for the quotient "
            "rounded down, or cast to f32 first"
        )
    return apply(Divide(), left, right)


def floor_divide(x: Argument, y: Argument) -> Value:
    """``x // y`` for integers: the same as `divide`, except that floats are refused.

    Raises
    ------
    TypeRuleError
        If an operand is not an integer.
    """
    left, right = broadcast_operands("floor_divide", x, y)
    if not (is_integer(left.dtype) and is_integer(right.dtype)):
        raise TypeRuleError(
            f"floor_divide: the operands of // must be integers, got {left.type} // {right.type}; use ops.floor(x / y) "
            "for floats"
        )
    return apply(Divide(), left, right)


def negative(x: Value) -> Value:
    """``-x`` for floats and signed integers."""
    return apply(Negative(), x)
