"""Functions of one tensor, element by element. Those of floats convert integers and bools to f32, as in PyTorch."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Value, as_dtype, is_float
from adjoint.tensor.record import operation

__all__ = [
    "abs",
    "absolute",
    "cast",
    "ceil",
    "clone",
    "cos",
    "cosh",
    "deg2rad",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "frac",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logit",
    "nan_to_num",
    "rad2deg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sign",
    "sin",
    "sinh",
    "softmax",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
]

Unary = Callable[[Value], Value]


def floating(x: Value) -> Value:
    """`x`, as f32 if it is not float."""
    return x if is_float(x.dtype) else ops.cast(x, DTYPES["f32"])


def _of_floats(name: str, function: Unary, text: str) -> Unary:
    """The operation on tensors of a function of floats, with the name and first line of the docstring."""

    def apply(input: Value) -> Value:
        return function(floating(input))

    apply.__name__, apply.__qualname__, apply.__doc__ = name, name, text
    return operation(apply)


def _rounding(name: str, function: Unary, text: str) -> Unary:
    """The operation on tensors of a function that leaves integers as they are."""

    def apply(input: Value) -> Value:
        return function(input) if is_float(input.dtype) else input

    apply.__name__, apply.__qualname__, apply.__doc__ = name, name, text
    return operation(apply)


def _tan(x: Value) -> Value:
    return ops.divide(ops.sin(x), ops.cos(x))


def _sinh(x: Value) -> Value:
    # expm1 keeps the digits of small numbers.
    grown = ops.expm1(x)
    return ops.multiply(ops.add(grown, ops.divide(grown, ops.add(grown, 1.0))), 0.5)


def _cosh(x: Value) -> Value:
    return ops.multiply(ops.add(ops.exp(x), ops.exp(ops.negative(x))), 0.5)


def _ceil(x: Value) -> Value:
    return ops.negative(ops.floor(ops.negative(x)))


def _trunc(x: Value) -> Value:
    return ops.where(ops.less(x, 0.0), _ceil(x), ops.floor(x))


exp = _of_floats("exp", ops.exp, "``e ** input``.")
exp2 = _of_floats("exp2", lambda x: ops.exp(ops.multiply(x, math.log(2))), "``2 ** input``.")
expm1 = _of_floats("expm1", ops.expm1, "``e ** input - 1``, accurate near 0.")
log = _of_floats("log", ops.log, "The natural logarithm.")
log2 = _of_floats("log2", lambda x: ops.multiply(ops.log(x), 1 / math.log(2)), "The logarithm to base 2.")
log10 = _of_floats("log10", lambda x: ops.multiply(ops.log(x), 1 / math.log(10)), "The logarithm to base 10.")
log1p = _of_floats("log1p", ops.log1p, "``log(1 + input)``, accurate near 0.")
sqrt = _of_floats("sqrt", ops.sqrt, "The square root.")
rsqrt = _of_floats("rsqrt", ops.rsqrt, "``1 / sqrt(input)``.")
reciprocal = _of_floats("reciprocal", ops.reciprocal, "``1 / input``.")
sin = _of_floats("sin", ops.sin, "The sine, in radians.")
cos = _of_floats("cos", ops.cos, "The cosine, in radians.")
tan = _of_floats("tan", _tan, "The tangent, in radians.")
sinh = _of_floats("sinh", _sinh, "The hyperbolic sine.")
cosh = _of_floats("cosh", _cosh, "The hyperbolic cosine.")
tanh = _of_floats("tanh", ops.tanh, "The hyperbolic tangent.")
sigmoid = _of_floats("sigmoid", ops.sigmoid, "``1 / (1 + e ** -input)``.")
erf = _of_floats("erf", ops.erf, "The error function.")
erfc = _of_floats("erfc", lambda x: ops.subtract(1.0, ops.erf(x)), "``1 - erf(input)``.")
deg2rad = _of_floats("deg2rad", lambda x: ops.multiply(x, math.pi / 180), "Degrees as radians.")
rad2deg = _of_floats("rad2deg", lambda x: ops.multiply(x, 180 / math.pi), "Radians as degrees.")
floor = _rounding("floor", ops.floor, "`input` rounded down.")
ceil = _rounding("ceil", _ceil, "`input` rounded up.")
trunc = _rounding("trunc", _trunc, "`input` rounded towards zero.")
frac = _rounding("frac", lambda x: ops.subtract(x, _trunc(x)), "What `trunc` removes from `input`.")


@operation
def clone(input: Value) -> Value:
    """A copy with its own memory; gradients flow through it."""
    return input


@operation
def cast(input: Value, dtype: Any) -> Value:
    """`input` in another dtype. Floats are truncated to integers; integers wrap around in smaller ones."""
    return ops.cast(input, as_dtype(dtype))


@operation
def abs(input: Value) -> Value:
    """The absolute value, with gradient 0 at 0."""
    return input if input.dtype.kind in "ub" else ops.abs(input)


@operation
def square(input: Value) -> Value:
    """``input * input``."""
    return ops.square(input)


@operation
def sign(input: Value) -> Value:
    """-1, 0 or 1; without a gradient."""
    return input if input.dtype.kind == "b" else ops.sign(input)


@operation
def relu(input: Value) -> Value:
    """``max(input, 0)``, with gradient 0 at 0."""
    return ops.relu(input)


@partial(operation, numbers=False)
def round(input: Value, *, decimals: int = 0) -> Value:
    """`input` rounded to the nearest integer, halves to the even one, or to a number of decimals."""
    if not is_float(input.dtype):
        return input
    scale = 10.0**decimals
    x = ops.multiply(input, scale) if decimals else input
    low = ops.floor(x)
    rest = ops.subtract(x, low)
    odd = ops.not_equal(ops.multiply(ops.floor(ops.multiply(low, 0.5)), 2.0), low)
    up = ops.logical_or(ops.greater(rest, 0.5), ops.logical_and(ops.equal(rest, 0.5), odd))
    found = ops.where(up, ops.add(low, 1.0), low)
    return ops.divide(found, scale) if decimals else found


@partial(operation, numbers=False)
def nan_to_num(input: Value, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Value:
    """`input` with NaN and infinities replaced.

    Parameters
    ----------
    input : Tensor
        Any tensor; integers have nothing to replace.
    nan : float, default 0.0
        What NaN becomes.
    posinf, neginf : float, optional
        What infinities become; default: the greatest and the least finite number of the dtype.
    """
    if not is_float(input.dtype):
        return input
    greatest = float({2: 65504.0, 4: 3.4028234663852886e38, 8: 1.7976931348623157e308}[input.dtype.itemsize])
    if input.dtype == DTYPES["bf16"]:
        greatest = 3.3895313892515355e38
    found = ops.where(ops.not_equal(input, input), float(nan), input)
    found = ops.where(ops.equal(found, math.inf), greatest if posinf is None else float(posinf), found)
    return ops.where(ops.equal(found, -math.inf), -greatest if neginf is None else float(neginf), found)


@partial(operation, numbers=False)
def logit(input: Value, eps: float | None = None) -> Value:
    """``log(input / (1 - input))``, with `input` first limited to ``[eps, 1 - eps]`` if there is an `eps`."""
    x = floating(input)
    if eps is not None:
        x = ops.clip(x, float(eps), 1.0 - eps)
    return ops.log(ops.divide(x, ops.subtract(1.0, x)))


@operation
def softmax(input: Value, dim: int | None = None, *, dtype: Any = None) -> Value:
    """``exp(input) / sum(exp(input))`` along an axis, computed without overflow.

    Parameters
    ----------
    input : Tensor
        Integers are converted to f32.
    dim : int
        The axis.
    dtype : dtype, optional
        Converted to before the computation.
    """
    return ops.softmax(*_along("softmax", input, dim, dtype))


@operation
def log_softmax(input: Value, dim: int | None = None, *, dtype: Any = None) -> Value:
    """The logarithm of `softmax`, computed without overflow; parameters as there."""
    return ops.log_softmax(*_along("log_softmax", input, dim, dtype))


def _along(name: str, x: Value, dim: int | None, dtype: Any) -> tuple[Value, int]:
    if dim is None:
        raise InvalidValueError(f"{name}: the axis must be given, got none for {x.type}; pass dim=-1 for the last one")
    return floating(x) if dtype is None else ops.cast(x, as_dtype(dtype)), dim


absolute = abs
