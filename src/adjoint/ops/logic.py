"""Elementwise comparisons, logical operators and selection. Only the selected values have a gradient."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Elementwise, Sample, Scalar, same_types
from adjoint.ops.build import Argument, broadcast_operands, full_like
from adjoint.ops.create import constant
from adjoint.ops.rules import floats, operands, refused, require

__all__ = [
    "Equal",
    "Greater",
    "GreaterEqual",
    "Less",
    "LessEqual",
    "LogicalAnd",
    "LogicalNot",
    "LogicalOr",
    "LogicalXor",
    "NotEqual",
    "Where",
    "equal",
    "greater",
    "greater_equal",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "not_equal",
    "where",
]

_BOOL = DTYPES["bool"]
_TRUTH = np.array([True, True, False, False])
_OTHER = np.array([True, False, True, False])


@dataclass(frozen=True, slots=True)
class Comparison(Elementwise):
    """Compare two tensors of one type. Every comparison with NaN is False, except ``not_equal``."""

    #: The name of the scalar function.
    function: ClassVar[str]
    #: The NumPy function.
    numpy: ClassVar[Callable[..., Any]]
    #: The kinds of dtypes that it accepts.
    kinds: ClassVar[str] = "float integer unsigned"

    def infer(self, *inputs: TensorType) -> TensorType:
        """Takes operands of one type; returns bool of their shape."""
        operands(self, inputs, 2)
        require(self, inputs, self.kinds, "cast it to u8, or use a logical operator")
        return same_types(self, *inputs).with_dtype(_BOOL)

    def reference(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """NumPy's comparison."""
        return np.asarray(type(self).numpy(x, y))

    def vjp(self, ct: Value, out: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: a bool is not differentiable."""
        return (None, None)

    def scalar(self, k: Builder, x: Scalar, y: Scalar) -> Scalar:
        """The comparison of two elements."""
        return k.call(self.function, x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Less, equal and greater in many dtypes, NaN and infinities; mixed types are rejected."""
        op = cls()
        x = np.array([1, 2, 3, -1, 0], np.int32)
        y = np.array([2, 2, 1, -2, 0], np.int32)
        dtypes = ("f32", "f64", "f16", "bf16", "i8", "i32", "i64")
        good = [Sample(op, (x.astype(DTYPES[d]), y.astype(DTYPES[d]))) for d in dtypes]
        special = np.array([np.nan, np.inf, -np.inf, 0.0, np.nan], np.float32)
        against = np.array([np.nan, np.inf, np.inf, -0.0, 1.0], np.float32)
        wide = np.array([0, 2**64 - 1, 2**63, 5], np.uint64)
        unordered = refused(op, ((2,), "bool"), ((2,), "bool"), error=f"{cls.name}: the dtype must be float or")
        return [
            Sample(op, (_TRUTH, _OTHER)) if "bool" in cls.kinds else unordered,
            *good,
            Sample(op, (special, against)),
            Sample(op, (wide, wide[::-1].copy())),
            Sample(op, (floats(3, 7), floats(3, 7, seed=1))),
            refused(op, ((3,), "f32"), ((3,), "i32"), error="operands must have the same dtype, got f32[3] and i32[3]"),
            refused(op, ((3,), "f32"), ((2,), "f32"), error="operands must have the same shape, got f32[3] and f32[2]"),
        ]


@dataclass(frozen=True, slots=True)
class Equal(Comparison):
    """``x == y``, also for bool."""

    name: ClassVar[str] = "equal"
    function: ClassVar[str] = "eq"
    numpy: ClassVar[Callable[..., Any]] = np.equal
    kinds: ClassVar[str] = "float integer unsigned bool"


@dataclass(frozen=True, slots=True)
class NotEqual(Comparison):
    """``x != y``, also for bool."""

    name: ClassVar[str] = "not_equal"
    function: ClassVar[str] = "ne"
    numpy: ClassVar[Callable[..., Any]] = np.not_equal
    kinds: ClassVar[str] = "float integer unsigned bool"


@dataclass(frozen=True, slots=True)
class Less(Comparison):
    """``x < y``."""

    name: ClassVar[str] = "less"
    function: ClassVar[str] = "lt"
    numpy: ClassVar[Callable[..., Any]] = np.less


@dataclass(frozen=True, slots=True)
class LessEqual(Comparison):
    """``x <= y``."""

    name: ClassVar[str] = "less_equal"
    function: ClassVar[str] = "le"
    numpy: ClassVar[Callable[..., Any]] = np.less_equal


@dataclass(frozen=True, slots=True)
class Greater(Comparison):
    """``x > y``."""

    name: ClassVar[str] = "greater"
    function: ClassVar[str] = "gt"
    numpy: ClassVar[Callable[..., Any]] = np.greater


@dataclass(frozen=True, slots=True)
class GreaterEqual(Comparison):
    """``x >= y``."""

    name: ClassVar[str] = "greater_equal"
    function: ClassVar[str] = "ge"
    numpy: ClassVar[Callable[..., Any]] = np.greater_equal


@dataclass(frozen=True, slots=True)
class _Logical(Elementwise):
    """A logical function of bools."""

    arity: ClassVar[int] = 2
    function: ClassVar[str]
    numpy: ClassVar[Callable[..., Any]]

    def infer(self, *inputs: TensorType) -> TensorType:
        """Takes bools of one shape; returns the same type."""
        operands(self, inputs, self.arity)
        require(self, inputs, "bool", "compare it, for example not_equal(x, 0)")
        return same_types(self, *inputs)

    def reference(self, *inputs: np.ndarray) -> np.ndarray:
        """NumPy's logical function."""
        return np.asarray(type(self).numpy(*inputs))

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: a bool is not differentiable."""
        return (None,) * len(inputs)

    def scalar(self, k: Builder, *inputs: Scalar) -> Scalar:
        """The logical function of one element of each operand."""
        return k.call(self.function, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """The truth table, a scalar; numbers are rejected."""
        both = (_TRUTH, _OTHER)
        ones = (np.array(True), np.array(True))
        bad = refused(cls(), *[((3,), "f32")] * cls.arity, error=f"{cls.name}: the dtype must be bool, got f32[3]")
        return [Sample(cls(), both[: cls.arity]), Sample(cls(), ones[: cls.arity]), bad]


@dataclass(frozen=True, slots=True)
class LogicalAnd(_Logical):
    """Whether both operands are True."""

    name: ClassVar[str] = "logical_and"
    function: ClassVar[str] = "and"
    numpy: ClassVar[Callable[..., Any]] = np.logical_and


@dataclass(frozen=True, slots=True)
class LogicalOr(_Logical):
    """Whether at least one operand is True."""

    name: ClassVar[str] = "logical_or"
    function: ClassVar[str] = "or"
    numpy: ClassVar[Callable[..., Any]] = np.logical_or


@dataclass(frozen=True, slots=True)
class LogicalXor(_Logical):
    """Whether exactly one operand is True."""

    name: ClassVar[str] = "logical_xor"
    function: ClassVar[str] = "xor"
    numpy: ClassVar[Callable[..., Any]] = np.logical_xor


@dataclass(frozen=True, slots=True)
class LogicalNot(_Logical):
    """Whether the operand is False."""

    name: ClassVar[str] = "logical_not"
    arity: ClassVar[int] = 1
    function: ClassVar[str] = "not"
    numpy: ClassVar[Callable[..., Any]] = np.logical_not


@dataclass(frozen=True, slots=True)
class Where(Elementwise):
    """``x`` where the bool condition holds, otherwise ``y``. Values not selected have no effect, even if they are NaN.

    The gradient goes to the selected operand and is 0, not NaN, for the other.
    """

    name: ClassVar[str] = "where"

    def infer(self, *inputs: TensorType) -> TensorType:
        """A bool condition and two operands of one type, all of one shape; returns the operands' type."""
        operands(self, inputs, 3)
        condition, x, y = inputs
        require(self, (condition,), "bool", "the condition comes first: compare it, for example greater(x, 0)")
        if condition.shape != x.shape:
            raise TypeRuleError(
                f"where: the condition must have the shape of the operands, got {condition} and {x}; apply "
                "broadcast_to to one of them"
            )
        return same_types(self, x, y)

    def reference(self, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """`numpy.where`."""
        return np.where(condition, x, y)

    def vjp(self, ct: Value, out: Value, condition: Value, x: Value, y: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent where selected, otherwise 0; none for integers, bool and the condition."""
        if not is_float(x.dtype):
            return (None, None, None)
        zero = full_like(ct, 0.0)
        return (None, where(condition, ct, zero), where(condition, zero, ct))

    def scalar(self, k: Builder, condition: Scalar, x: Scalar, y: Scalar) -> Scalar:
        """The selection of one element."""
        return k.select(condition, x, y)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Floats, integers, bool, a NaN that is not selected; rejected: a number as condition, different types."""
        op = cls()
        mask = np.array([[True, False, True], [False, False, True]])
        hidden = np.array([np.nan, 2.0, np.inf, 4.0], np.float32)
        bools = (_TRUTH, _OTHER, ~_OTHER)
        x = ((2,), "f32")
        return [
            Sample(op, (mask, floats(2, 3), floats(2, 3, seed=1))),
            Sample(op, (np.array(False), floats(dtype="f64"), floats(dtype="f64", seed=1))),
            Sample(op, (mask, np.arange(6).reshape(2, 3), -np.arange(6).reshape(2, 3))),
            Sample(op, (mask, floats(2, 3, dtype="bf16"), floats(2, 3, dtype="bf16", seed=1)), gradient=False),
            Sample(op, bools),
            Sample(op, (_OTHER, np.ones(4, np.float32), hidden), gradient=False),
            refused(op, x, x, x, error="where: the dtype must be bool, got f32[2]"),
            refused(op, ((3,), "bool"), x, x, error="the condition must have the shape of the operands, got bool[3]"),
            refused(
                op, ((2,), "bool"), x, ((2,), "f64"), error="operands must have the same dtype, got f32[2] and f64[2]"
            ),
        ]


def equal(x: Argument, y: Argument) -> Value:
    """``x == y`` as bool, broadcast; scalars and arrays are promoted."""
    return apply(Equal(), *broadcast_operands("equal", x, y))


def not_equal(x: Argument, y: Argument) -> Value:
    """``x != y`` as bool, broadcast; scalars and arrays are promoted."""
    return apply(NotEqual(), *broadcast_operands("not_equal", x, y))


def less(x: Argument, y: Argument) -> Value:
    """``x < y`` as bool, broadcast; scalars and arrays are promoted."""
    return apply(Less(), *broadcast_operands("less", x, y))


def less_equal(x: Argument, y: Argument) -> Value:
    """``x <= y`` as bool, broadcast; scalars and arrays are promoted."""
    return apply(LessEqual(), *broadcast_operands("less_equal", x, y))


def greater(x: Argument, y: Argument) -> Value:
    """``x > y`` as bool, broadcast; scalars and arrays are promoted."""
    return apply(Greater(), *broadcast_operands("greater", x, y))


def greater_equal(x: Argument, y: Argument) -> Value:
    """``x >= y`` as bool, broadcast; scalars and arrays are promoted."""
    return apply(GreaterEqual(), *broadcast_operands("greater_equal", x, y))


def logical_and(x: Argument, y: Argument) -> Value:
    """Whether both are True, broadcast."""
    return apply(LogicalAnd(), *broadcast_operands("logical_and", x, y))


def logical_or(x: Argument, y: Argument) -> Value:
    """Whether at least one is True, broadcast."""
    return apply(LogicalOr(), *broadcast_operands("logical_or", x, y))


def logical_xor(x: Argument, y: Argument) -> Value:
    """Whether exactly one is True, broadcast."""
    return apply(LogicalXor(), *broadcast_operands("logical_xor", x, y))


def logical_not(x: Value) -> Value:
    """Whether the operand is False."""
    return apply(LogicalNot(), x)


def where(condition: Value | np.ndarray, x: Argument, y: Argument) -> Value:
    """``x`` where the bool `condition` holds, otherwise ``y``, broadcast.

    Parameters
    ----------
    condition : Value or numpy.ndarray
        Bool, of any shape that broadcasts with the other operands. An array, such as a mask, becomes a constant.
    x, y : Value, float, int, bool or numpy.ndarray
        The values to select; at least one is a graph value, beside which the other is promoted by the table of
        `adjoint.ops.promotion`.
    """
    if isinstance(condition, np.ndarray):
        condition = constant(condition)
    if not isinstance(condition, Value):
        raise TypeRuleError(
            f"where: the condition must be a graph value or a NumPy array, got {condition!r}; compare with ops.equal "
            "or ops.not_equal, because == and != between graph values compare Python objects"
        )
    return apply(Where(), *broadcast_operands("where", condition, x, y, typed=1))
