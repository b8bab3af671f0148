"""Elementwise functions composed of operators: rounding, questions about floats, and functions of two tensors.

What rounds or compares has no gradient, or 0. A maximum that is subtracted to avoid overflow passes through
`stop_gradient`, as in `adjoint.ops.composites`.
"""

import math

from adjoint.ir.types import DTYPES, is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, divide, multiply, negative, subtract
from adjoint.ops.build import Argument, broadcast_operands
from adjoint.ops.convert import cast, stop_gradient
from adjoint.ops.logic import equal, greater, greater_equal, less, less_equal, logical_and, logical_or, not_equal, where
from adjoint.ops.piecewise import Round, abs, clip, floor, maximum, sign
from adjoint.ops.powers import reciprocal, sqrt, square
from adjoint.ops.rules import require_float
from adjoint.ops.special import exp2
from adjoint.ops.transcendental import exp, expm1, log, log1p, sin

__all__ = [
    "ceil",
    "copysign",
    "deg2rad",
    "fmax",
    "fmin",
    "fmod",
    "frac",
    "heaviside",
    "hypot",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "ldexp",
    "logaddexp",
    "logaddexp2",
    "logit",
    "nan_to_num",
    "rad2deg",
    "remainder",
    "round",
    "signbit",
    "sinc",
    "trunc",
    "xlogy",
]

_INF = math.inf


def ceil(x: Value) -> Value:
    """Floats rounded up, without a gradient."""
    return negative(floor(negative(x)))


def trunc(x: Value) -> Value:
    """Floats rounded towards zero, without a gradient."""
    return where(less(x, 0.0), ceil(x), floor(x))


def frac(x: Value) -> Value:
    """What `trunc` removes from a float, with its sign; the gradient is 1."""
    return subtract(x, trunc(x))


def round(x: Value, decimals: int = 0) -> Value:
    """Floats rounded to a number of decimals, halves to the even neighbour; without a gradient.

    Negative `decimals` round to tens, hundreds and so on. As in PyTorch, ``x * 10**decimals`` is what is rounded.
    """
    if not decimals:
        return apply(Round(), x)
    scale = 10.0 ** (decimals if decimals > 0 else -decimals)
    if decimals > 0:
        return divide(apply(Round(), multiply(x, scale)), scale)
    return multiply(apply(Round(), divide(x, scale)), scale)


def isnan(x: Value) -> Value:
    """Whether a number is not a number, as a bool; False for integers."""
    return not_equal(x, x)


def isinf(x: Value) -> Value:
    """Whether a number is an infinity, as a bool; False for integers."""
    return equal(abs(x), _INF) if is_float(x.dtype) else not_equal(x, x)


def isfinite(x: Value) -> Value:
    """Whether a number is neither an infinity nor NaN, as a bool; True for integers."""
    return less(abs(x), _INF) if is_float(x.dtype) else equal(x, x)


def isposinf(x: Value) -> Value:
    """Whether a number is infinity, as a bool; False for integers."""
    return equal(x, _INF) if is_float(x.dtype) else not_equal(x, x)


def isneginf(x: Value) -> Value:
    """Whether a number is minus infinity, as a bool; False for integers."""
    return equal(x, -_INF) if is_float(x.dtype) else not_equal(x, x)


def signbit(x: Value) -> Value:
    """Whether a number is negative, as a bool; True for -0.0 too, and False for NaN, whatever its sign."""
    if not is_float(x.dtype):
        return less(x, 0) if x.dtype.kind == "i" else not_equal(x, x)
    return less(where(equal(x, 0.0), reciprocal(x), x), 0.0)


def copysign(x: Argument, y: Argument) -> Value:
    """The magnitude of x with the sign of y, of floats, broadcast; the gradient in x is 0 where x is 0, none in y."""
    magnitude, of = broadcast_operands("copysign", x, y)
    magnitude = abs(magnitude)
    return where(signbit(of), negative(magnitude), magnitude)


def deg2rad(x: Value) -> Value:
    """Degrees as radians, for floats."""
    return multiply(x, math.pi / 180)


def rad2deg(x: Value) -> Value:
    """Radians as degrees, for floats."""
    return multiply(x, 180 / math.pi)


#: The greatest finite number of each float dtype.
_GREATEST = {"f16": 65504.0, "bf16": 3.3895313892515355e38, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}


def nan_to_num(x: Value, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Value:
    """Floats with NaN and infinities replaced, by constants that have no gradient.

    Parameters
    ----------
    x : Value
        Numbers; integers have nothing to replace.
    nan : float, default 0.0
        What NaN becomes.
    posinf, neginf : float, optional
        What infinities become; default: the greatest and the least finite number of the dtype.
    """
    if not is_float(x.dtype):
        return x
    greatest = next(value for name, value in _GREATEST.items() if DTYPES[name] == x.dtype)
    high = greatest if posinf is None else float(posinf)
    low = -greatest if neginf is None else float(neginf)
    return where(isnan(x), float(nan), where(equal(x, _INF), high, where(equal(x, -_INF), low, x)))


def logit(x: Value, eps: float | None = None) -> Value:
    """``log(x) - log(1 - x)`` for floats, the inverse of `sigmoid`; with `eps`, x is limited to ``[eps, 1 - eps]``."""
    require_float("logit", x)
    kept = x if eps is None else clip(x, float(eps), 1.0 - eps)
    return subtract(log(kept), log1p(negative(kept)))


def sinc(x: Value) -> Value:
    """``sin(pi * x) / (pi * x)`` for floats, 1 at 0 and 0 at all other integers; derivatives at 0 are right too."""
    require_float("sinc", x)
    near = less(abs(x), 0.25)
    whole = apply(Round(), x)
    odd = not_equal(multiply(apply(Round(), multiply(whole, 0.5)), 2.0), whole)
    sine = sin(multiply(subtract(x, whole), math.pi))
    far = divide(where(odd, negative(sine), sine), multiply(where(near, 1.0, x), math.pi))
    squared = square(multiply(where(near, x, 0.0), math.pi))
    # Of the next term, z**9 / 19!, nothing is left in float64.
    series: Value | float = 1.0
    for n in range(8, 0, -1):
        series = 1.0 - squared / float(2 * n * (2 * n + 1)) * series
    return where(near, series, far)


def ldexp(x: Argument, n: Argument) -> Value:
    """``x * 2**n``, broadcast: x is float, n is of the same dtype or any integer one. The power may overflow alone."""
    exponent = n
    if isinstance(n, Value) and isinstance(x, Value) and not is_float(n.dtype):
        exponent = cast(n, x.dtype)
    left, right = broadcast_operands("ldexp", x, exponent)
    return multiply(left, exp2(right))


def heaviside(x: Argument, value: Argument) -> Value:
    """1 for positive x, `value` for 0, otherwise 0, also for NaN, as in PyTorch; broadcast, without a gradient."""
    left, right = (stop_gradient(operand) for operand in broadcast_operands("heaviside", x, value))
    return where(equal(left, 0), right, cast(greater(left, 0), left.dtype))


def fmax(x: Argument, y: Argument) -> Value:
    """The greater of two, broadcast; the other where one is NaN. Of equal ones, x gets the gradient, as in PyTorch."""
    left, right = broadcast_operands("fmax", x, y)
    return where(logical_or(greater_equal(left, right), isnan(right)), left, right)


def fmin(x: Argument, y: Argument) -> Value:
    """The smaller of two, broadcast; the other where one is NaN. Of equal ones, x gets the gradient, as in PyTorch."""
    left, right = broadcast_operands("fmin", x, y)
    return where(logical_or(less_equal(left, right), isnan(right)), left, right)


def fmod(x: Argument, y: Argument) -> Value:
    """The remainder of division rounded towards zero, broadcast, as C's ``fmod``: it has the sign of x.

    The gradient in y is minus the quotient. Of floats, the quotient has to be exact: ``|x / y|`` below 2**24 in f32.
    """
    left, right = broadcast_operands("fmod", x, y)
    quotient = divide(left, right)
    if is_float(left.dtype):
        rest = subtract(left, multiply(trunc(quotient), right))
        return where(logical_and(isinf(right), isfinite(left)), left, rest)
    if left.dtype.kind == "i":
        inexact = not_equal(multiply(quotient, right), left)
        quotient = where(logical_and(less(quotient, 0), inexact), add(quotient, 1), quotient)
    return subtract(left, multiply(quotient, right))


def remainder(x: Argument, y: Argument) -> Value:
    """The remainder of division rounded down, broadcast, as Python's ``%``: it has the sign of y.

    The gradient in y is minus the quotient. Of floats, the quotient has to be exact: ``|x / y|`` below 2**24 in f32.
    """
    left, right = broadcast_operands("remainder", x, y)
    if not is_float(left.dtype):
        return subtract(left, multiply(divide(left, right), right))
    rest = fmod(left, right)
    return where(less(multiply(sign(rest), sign(right)), 0.0), add(rest, right), rest)


def hypot(x: Argument, y: Argument) -> Value:
    """``sqrt(x**2 + y**2)`` of floats, broadcast, without overflow; the gradient at the origin is 0 (PyTorch: NaN)."""
    left, right = broadcast_operands("hypot", x, y)
    require_float("hypot", left)
    most = stop_gradient(maximum(abs(left), abs(right)))
    zero = equal(most, 0.0)
    scale = where(logical_and(greater(most, 0.0), less(most, _INF)), most, 1.0)
    total = add(square(divide(left, scale)), square(divide(right, scale)))
    found = where(zero, 0.0, multiply(scale, sqrt(where(zero, 1.0, total))))
    return where(logical_or(isinf(left), isinf(right)), _INF, found)


def logaddexp(x: Argument, y: Argument) -> Value:
    """``log(exp(x) + exp(y))`` of floats, broadcast, without overflow; derivatives of every order are right."""
    left, right = broadcast_operands("logaddexp", x, y)
    require_float("logaddexp", left)
    top = stop_gradient(maximum(left, right))
    # Do not subtract infinities: inf - inf would be NaN.
    level = where(isfinite(top), top, 0.0)
    left, right = subtract(left, level), subtract(right, level)
    rest = where(less(left, right), add(exp(left), expm1(right)), add(expm1(left), exp(right)))
    return add(level, log1p(rest))


def logaddexp2(x: Argument, y: Argument) -> Value:
    """``log2(2**x + 2**y)`` of floats, broadcast, without overflow."""
    left, right = broadcast_operands("logaddexp2", x, y)
    scale = math.log(2)
    return divide(logaddexp(multiply(left, scale), multiply(right, scale)), scale)


def xlogy(x: Argument, y: Argument) -> Value:
    """``x * log(y)`` of floats, broadcast; 0 where x is 0, unless y is NaN, and then without a gradient."""
    left, right = broadcast_operands("xlogy", x, y)
    require_float("xlogy", left)
    nothing = logical_and(equal(left, 0.0), equal(right, right))
    product = multiply(left, log(where(nothing, 1.0, right)))
    return where(nothing, 0.0, product)
