"""Bitwise operators on integers and bools, elementwise. They have no gradient."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from adjoint.ir.types import TensorType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Elementwise, Sample, Scalar, same_types
from adjoint.ops.build import Argument, broadcast_operands
from adjoint.ops.rules import operands, refused, require

__all__ = [
    "BitwiseAnd",
    "BitwiseNot",
    "BitwiseOr",
    "BitwiseXor",
    "LeftShift",
    "RightShift",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
]


@dataclass(frozen=True, slots=True)
class _Bitwise(Elementwise):
    """A function of the bits of integers of one type."""

    arity: ClassVar[int] = 2
    kinds: ClassVar[str] = "integer unsigned bool"
    numpy: ClassVar[Callable[..., Any]]

    def infer(self, *inputs: TensorType) -> TensorType:
        """Operands of one type, which is also the result's."""
        operands(self, inputs, self.arity)
        require(self, inputs, self.kinds, "cast it to i32 first")
        return same_types(self, *inputs)

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """NumPy's function."""
        return np.asarray(type(self).numpy(*inputs))

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: integers have no gradient."""
        return (None,) * len(inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Signed and unsigned integers, bools where they are accepted; floats are refused."""
        pair = (np.array([12, -7, 0, 100, -1, 5]), np.array([10, 3, 9, 40, 1, -2]))
        dtypes = (np.int8, np.int32, np.int64, np.uint8, np.uint64)
        good = [tuple(x.astype(dtype) for x in pair) for dtype in dtypes]
        if "bool" in cls.kinds:
            good.append((np.array([True, True, False, False]), np.array([True, False, True, False])))
        return [
            *(Sample(cls(), inputs[: cls.arity]) for inputs in good),
            refused(cls(), *(((3,), "f32"),) * cls.arity, error=f"{cls.name}: the dtype must be integer or unsigned"),
        ]


@dataclass(frozen=True, slots=True)
class BitwiseAnd(_Bitwise):
    """The bits that are set in both."""

    name: ClassVar[str] = "bitwise_and"
    numpy: ClassVar[Callable[..., Any]] = np.bitwise_and

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The conjunction of two elements."""
        return k.call("and", x, y)


@dataclass(frozen=True, slots=True)
class BitwiseOr(_Bitwise):
    """The bits that are set in at least one."""

    name: ClassVar[str] = "bitwise_or"
    numpy: ClassVar[Callable[..., Any]] = np.bitwise_or

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The disjunction of two elements."""
        return k.call("or", x, y)


@dataclass(frozen=True, slots=True)
class BitwiseXor(_Bitwise):
    """The bits that are set in exactly one."""

    name: ClassVar[str] = "bitwise_xor"
    numpy: ClassVar[Callable[..., Any]] = np.bitwise_xor

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The exclusive disjunction of two elements."""
        return k.call("xor", x, y)


@dataclass(frozen=True, slots=True)
class BitwiseNot(_Bitwise):
    """All bits inverted: ``-x - 1`` for signed integers, the negation for bools."""

    name: ClassVar[str] = "bitwise_not"
    numpy: ClassVar[Callable[..., Any]] = np.bitwise_not
    arity: ClassVar[int] = 1

    def scalar(self, k: Builder, x: Scalar) -> Scalar:
        """An element with its bits inverted."""
        dtype = k.dtype(x)
        if dtype.kind == "b":
            return k.call("not", x)
        return k.call("xor", x, k.const(int(np.iinfo(dtype).max) if dtype.kind == "u" else -1, dtype))


@dataclass(frozen=True, slots=True)
class _Shift(_Bitwise):
    """A shift. By as many bits as there are, or more, or by a negative number, all bits are shifted out."""

    kinds: ClassVar[str] = "integer unsigned"

    @staticmethod
    def _guarded(k: Builder, x: Scalar, by: Scalar, function: str) -> tuple[Scalar, Scalar]:
        """Whether the shift is by fewer bits than there are, and the shift by that many, or by 0."""
        dtype = k.dtype(x)
        zero, width = k.const(0, dtype), k.const(dtype.itemsize * 8, dtype)
        few = k.call("and", k.call("ge", by, zero), k.call("lt", by, width))
        return few, k.call(function, x, k.select(few, by, zero))


@dataclass(frozen=True, slots=True)
class LeftShift(_Shift):
    """``x << y``; 0 if y is negative or not less than the number of bits."""

    name: ClassVar[str] = "bitwise_left_shift"
    numpy: ClassVar[Callable[..., Any]] = np.left_shift

    def scalar(self, k: Builder, x: Scalar, by: Scalar) -> Scalar:
        """An element shifted to the left."""
        few, moved = self._guarded(k, x, by, "shl")
        return k.select(few, moved, k.const(0, k.dtype(x)))


@dataclass(frozen=True, slots=True)
class RightShift(_Shift):
    """``x >> y``, which rounds down; 0, or -1 for negative x, if y is negative or not less than the number of bits."""

    name: ClassVar[str] = "bitwise_right_shift"
    numpy: ClassVar[Callable[..., Any]] = np.right_shift

    def scalar(self, k: Builder, x: Scalar, by: Scalar) -> Scalar:
        """An element shifted to the right."""
        few, moved = self._guarded(k, x, by, "shr")
        dtype = k.dtype(x)
        zero = k.const(0, dtype)
        if dtype.kind == "u":
            return k.select(few, moved, zero)
        return k.select(few, moved, k.select(k.call("lt", x, zero), k.const(-1, dtype), zero))


def bitwise_and(x: Argument, y: Argument) -> Value:
    """The bits that are set in both, of integers or bools, broadcast."""
    return apply(BitwiseAnd(), *broadcast_operands("bitwise_and", x, y))


def bitwise_or(x: Argument, y: Argument) -> Value:
    """The bits that are set in at least one, of integers or bools, broadcast."""
    return apply(BitwiseOr(), *broadcast_operands("bitwise_or", x, y))


def bitwise_xor(x: Argument, y: Argument) -> Value:
    """The bits that are set in exactly one, of integers or bools, broadcast."""
    return apply(BitwiseXor(), *broadcast_operands("bitwise_xor", x, y))


def bitwise_not(x: Value) -> Value:
    """All bits inverted, of integers or bools."""
    return apply(BitwiseNot(), x)


def bitwise_left_shift(x: Argument, y: Argument) -> Value:
    """``x << y`` of integers, broadcast; 0 if y is negative or not less than the number of bits."""
    return apply(LeftShift(), *broadcast_operands("bitwise_left_shift", x, y))


def bitwise_right_shift(x: Argument, y: Argument) -> Value:
    """``x >> y`` of integers, broadcast, rounded down; 0, or -1 for negative x, if y is out of range."""
    return apply(RightShift(), *broadcast_operands("bitwise_right_shift", x, y))
