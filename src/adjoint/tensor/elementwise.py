"""Functions of one tensor, element by element. Those of floats convert integers and bools to f32, as in PyTorch."""

from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Value, as_dtype, is_float
from adjoint.tensor.record import operation
from adjoint.tensor.scalar_axes import accepts_scalars

__all__ = [
    "abs",
    "absolute",
    "acos",
    "acosh",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "cast",
    "ceil",
    "clone",
    "cos",
    "cosh",
    "deg2rad",
    "digamma",
    "erf",
    "erfc",
    "erfinv",
    "exp",
    "exp2",
    "expm1",
    "fix",
    "floor",
    "frac",
    "lgamma",
    "log",
    "log1p",
    "log2",
    "log10",
    "log_softmax",
    "logit",
    "nan_to_num",
    "polygamma",
    "positive",
    "rad2deg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sgn",
    "sigmoid",
    "sign",
    "signbit",
    "sin",
    "sinc",
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


exp = _of_floats("exp", ops.exp, "``e ** input``.")
exp2 = _of_floats("exp2", ops.exp2, "``2 ** input``.")
expm1 = _of_floats("expm1", ops.expm1, "``e ** input - 1``, accurate near 0.")
log = _of_floats("log", ops.log, "The natural logarithm.")
log2 = _of_floats("log2", ops.log2, "The logarithm to base 2.")
log10 = _of_floats("log10", ops.log10, "The logarithm to base 10.")
log1p = _of_floats("log1p", ops.log1p, "``log(1 + input)``, accurate near 0.")
sqrt = _of_floats("sqrt", ops.sqrt, "The square root.")
rsqrt = _of_floats("rsqrt", ops.rsqrt, "``1 / sqrt(input)``.")
reciprocal = _of_floats("reciprocal", ops.reciprocal, "``1 / input``.")
sin = _of_floats("sin", ops.sin, "The sine, in radians.")
cos = _of_floats("cos", ops.cos, "The cosine, in radians.")
tan = _of_floats("tan", ops.tan, "The tangent, in radians.")
sinh = _of_floats("sinh", ops.sinh, "The hyperbolic sine.")
cosh = _of_floats("cosh", ops.cosh, "The hyperbolic cosine.")
tanh = _of_floats("tanh", ops.tanh, "The hyperbolic tangent.")
sigmoid = _of_floats("sigmoid", ops.sigmoid, "``1 / (1 + e ** -input)``.")
erf = _of_floats("erf", ops.erf, "The error function.")
erfc = _of_floats("erfc", ops.erfc, "``1 - erf(input)``, relative also where it tends to 0.")
erfinv = _of_floats("erfinv", ops.erfinv, "The inverse of the error function.")
lgamma = _of_floats("lgamma", ops.lgamma, "The logarithm of the absolute value of the gamma function.")
digamma = _of_floats("digamma", ops.digamma, "The derivative of `lgamma`.")
sinc = _of_floats("sinc", ops.sinc, "``sin(pi * input) / (pi * input)``, 1 at 0.")
asin = _of_floats("asin", ops.asin, "The inverse sine.")
acos = _of_floats("acos", ops.acos, "The inverse cosine.")
atan = _of_floats("atan", ops.atan, "The inverse tangent.")
asinh = _of_floats("asinh", ops.asinh, "The inverse hyperbolic sine.")
acosh = _of_floats("acosh", ops.acosh, "The inverse hyperbolic cosine.")
atanh = _of_floats("atanh", ops.atanh, "The inverse hyperbolic tangent.")
deg2rad = _of_floats("deg2rad", ops.deg2rad, "Degrees as radians.")
rad2deg = _of_floats("rad2deg", ops.rad2deg, "Radians as degrees.")
floor = _rounding("floor", ops.floor, "`input` rounded down.")
ceil = _rounding("ceil", ops.ceil, "`input` rounded up.")
trunc = _rounding("trunc", ops.trunc, "`input` rounded towards zero.")
frac = _rounding("frac", ops.frac, "What `trunc` removes from `input`.")


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
    """``input * input``; of bools as i64."""
    return ops.square(ops.cast(input, DTYPES["i64"]) if input.dtype.kind == "b" else input)


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
    return ops.round(input, decimals) if is_float(input.dtype) else input


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
    return ops.nan_to_num(input, nan, posinf, neginf)


@partial(operation, numbers=False)
def logit(input: Value, eps: float | None = None) -> Value:
    """``log(input / (1 - input))``, with `input` first limited to ``[eps, 1 - eps]`` if there is an `eps`."""
    return ops.logit(floating(input), eps)


@partial(operation, numbers=False)
def polygamma(n: int, input: Value) -> Value:
    """Derivative n of `digamma`."""
    return ops.polygamma(n, floating(input))


@partial(operation, numbers=False)
def signbit(input: Value) -> Value:
    """Whether the element is negative, also -0.0; False for NaN."""
    return ops.signbit(ops.cast(input, DTYPES["u8"]) if input.dtype.kind == "b" else input)


@operation
@accepts_scalars()
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
@accepts_scalars()
def log_softmax(input: Value, dim: int | None = None, *, dtype: Any = None) -> Value:
    """The logarithm of `softmax`, computed without overflow; parameters as there."""
    return ops.log_softmax(*_along("log_softmax", input, dim, dtype))


def _along(name: str, x: Value, dim: int | None, dtype: Any) -> tuple[Value, int]:
    if dim is None:
        raise InvalidValueError(f"{name}: the axis must be given, got none for {x.type}; pass dim=-1 for the last one")
    return floating(x) if dtype is None else ops.cast(x, as_dtype(dtype)), dim


@operation
def positive(input: Value) -> Value:
    """`input` itself."""
    return input


absolute = abs
arcsin, arccos, arctan, arcsinh, arccosh, arctanh = asin, acos, atan, asinh, acosh, atanh
fix, sgn = trunc, sign
