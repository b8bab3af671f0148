"""Operators of each element on its own."""

from math import log, pi, sqrt
from typing import Any

import numpy as np

from adjoint.importers.onnx.export.emitter import Emitter, Rule
from adjoint.ir import Value, is_float

__all__ = ["ELEMENTWISE"]


def _broadcasting(op: str) -> Rule:
    """The rule of an operator of ONNX that broadcasts."""

    def emit(e: Emitter, value: Value) -> str:
        return e.node(op, *e.broadcast(value.inputs, value.shape))

    return emit


def _unary(op: str) -> Rule:
    return lambda e, value: e.node(op, e.of(value.inputs[0]))


def _negated(op: str) -> Rule:
    inner = _broadcasting(op)
    return lambda e, value: e.node("Not", inner(e, value))


def _same(e: Emitter, value: Value) -> str:
    """The first operand: what the operator does concerns compiled programs and gradients only."""
    return e.of(value.inputs[0])


def _divide(e: Emitter, value: Value) -> str:
    """ONNX rounds quotients of integers towards 0, adjoint down: what is left is subtracted first."""
    x, y = e.broadcast(value.inputs, value.shape)
    if value.dtype.kind == "i":
        x = e.node("Sub", x, e.node("Mod", x, y))
    return e.node("Div", x, y)


def _square(e: Emitter, value: Value) -> str:
    x = e.of(value.inputs[0])
    return e.node("Mul", x, x)


def _rsqrt(e: Emitter, value: Value) -> str:
    return e.node("Reciprocal", e.node("Sqrt", e.of(value.inputs[0])))


def _expm1(e: Emitter, value: Value) -> str:
    """``tanh(x / 2) * (exp(x) + 1)``, which loses no digits near 0."""
    x = e.of(value.inputs[0])
    half = e.node("Tanh", e.node("Mul", x, e.scalar(0.5, value.dtype)))
    return e.node("Mul", half, e.node("Add", e.node("Exp", x), e.scalar(1, value.dtype)))


def _log1p(e: Emitter, value: Value) -> str:
    """Near 0, ``2 * atanh(x / (x + 2))``, which loses no digits there."""
    x, dtype = e.of(value.inputs[0]), value.dtype
    small = e.node("Atanh", e.node("Div", x, e.node("Add", x, e.scalar(2, dtype))))
    large = e.node("Log", e.node("Add", x, e.scalar(1, dtype)))
    near = e.node("Less", e.node("Abs", x), e.scalar(0.5, dtype))
    return e.node("Where", near, e.node("Mul", small, e.scalar(2, dtype)), large)


def _exp2(e: Emitter, value: Value) -> str:
    return e.node("Pow", e.scalar(2, value.dtype), e.of(value.inputs[0]))


def _log2(e: Emitter, value: Value) -> str:
    return e.node("Mul", e.node("Log", e.of(value.inputs[0])), e.scalar(1 / log(2), value.dtype))


def _erfc(e: Emitter, value: Value) -> str:
    return e.node("Sub", e.scalar(1, value.dtype), e.node("Erf", e.of(value.inputs[0])))


def _gelu(e: Emitter, value: Value) -> str:
    """The formulas of D. Hendrycks, K. Gimpel, "Gaussian error linear units", 2016."""
    x, dtype, op = e.of(value.inputs[0]), value.dtype, value.op
    half = e.node("Mul", x, e.scalar(0.5, dtype))
    if op.approximate == "none":  # type: ignore[attr-defined]
        inner = e.node("Erf", e.node("Mul", x, e.scalar(1 / sqrt(2), dtype)))
    else:
        cube = e.node("Mul", e.node("Mul", x, e.node("Mul", x, x)), e.scalar(0.044715, dtype))
        inner = e.node("Tanh", e.node("Mul", e.node("Add", x, cube), e.scalar(sqrt(2 / pi), dtype)))
    return e.node("Mul", half, e.node("Add", inner, e.scalar(1, dtype)))


def _clip(e: Emitter, value: Value) -> str:
    op: Any = value.op
    limits = [e.scalar(limit, value.dtype) for limit in (op.low, op.high)]
    return e.node("Clip", e.of(value.inputs[0]), *limits)


def _cast(e: Emitter, value: Value) -> str:
    return e.cast(e.of(value.inputs[0]), value.dtype)


def _shift(direction: str) -> Rule:
    def emit(e: Emitter, value: Value) -> str:
        return e.node("BitShift", *e.broadcast(value.inputs, value.shape), direction=direction)

    return emit


def _relu(e: Emitter, value: Value) -> str:
    if is_float(value.dtype):
        return e.node("Relu", e.of(value.inputs[0]))
    return e.node("Max", e.of(value.inputs[0]), e.scalar(0, value.dtype))


def _extreme(op: str, other: str) -> Rule:
    """The rule of a maximum or minimum, which of bools is another operator."""

    def emit(e: Emitter, value: Value) -> str:
        return e.node(other if value.dtype == np.bool_ else op, *e.broadcast(value.inputs, value.shape))

    return emit


ELEMENTWISE: dict[str, Rule] = {
    "abs": _unary("Abs"),
    "acos": _unary("Acos"),
    "acosh": _unary("Acosh"),
    "add": _broadcasting("Add"),
    "after": _same,
    "asin": _unary("Asin"),
    "asinh": _unary("Asinh"),
    "atan": _unary("Atan"),
    "atanh": _unary("Atanh"),
    "bitwise_and": _broadcasting("BitwiseAnd"),
    "bitwise_left_shift": _shift("LEFT"),
    "bitwise_not": _unary("BitwiseNot"),
    "bitwise_or": _broadcasting("BitwiseOr"),
    "bitwise_right_shift": _shift("RIGHT"),
    "bitwise_xor": _broadcasting("BitwiseXor"),
    "cast": _cast,
    "check_range": _same,
    "clip": _clip,
    "cos": _unary("Cos"),
    "cosh": _unary("Cosh"),
    "divide": _divide,
    "equal": _broadcasting("Equal"),
    "erf": _unary("Erf"),
    "erfc": _erfc,
    "exp": _unary("Exp"),
    "exp2": _exp2,
    "expm1": _expm1,
    "floor": _unary("Floor"),
    "gelu": _gelu,
    "greater": _broadcasting("Greater"),
    "greater_equal": _broadcasting("GreaterOrEqual"),
    "less": _broadcasting("Less"),
    "less_equal": _broadcasting("LessOrEqual"),
    "log": _unary("Log"),
    "log1p": _log1p,
    "log2": _log2,
    "logical_and": _broadcasting("And"),
    "logical_not": _unary("Not"),
    "logical_or": _broadcasting("Or"),
    "logical_xor": _broadcasting("Xor"),
    "maximum": _extreme("Max", "Or"),
    "minimum": _extreme("Min", "And"),
    "multiply": _broadcasting("Mul"),
    "negative": _unary("Neg"),
    "not_equal": _negated("Equal"),
    "power": _broadcasting("Pow"),
    "reciprocal": _unary("Reciprocal"),
    "relu": _relu,
    "round": _unary("Round"),
    "rsqrt": _rsqrt,
    "sigmoid": _unary("Sigmoid"),
    "sign": _unary("Sign"),
    "sin": _unary("Sin"),
    "sinh": _unary("Sinh"),
    "sqrt": _unary("Sqrt"),
    "square": _square,
    "stop_gradient": _same,
    "subtract": _broadcasting("Sub"),
    "tan": _unary("Tan"),
    "tanh": _unary("Tanh"),
    "where": _broadcasting("Where"),
}
