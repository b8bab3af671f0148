"""Arithmetic on tensors, with PyTorch's promotion of dtypes (`adjoint.tensor.promotion`)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.autocasting import low_precision
from adjoint.tensor.promotion import promoted, result_dtype
from adjoint.tensor.record import operation

__all__ = [
    "add",
    "addcdiv",
    "addcmul",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "div",
    "divide",
    "float_power",
    "floor_divide",
    "fmod",
    "lerp",
    "matmul",
    "maximum",
    "minimum",
    "mul",
    "multiply",
    "neg",
    "negative",
    "pow",
    "remainder",
    "rsub",
    "sub",
    "subtract",
    "true_divide",
]

_F64 = DTYPES["f64"]
_ROUNDINGS = (None, "floor", "trunc")


def times(x: Any, factor: Any) -> Any:
    """The product of tensors or numbers, of which bools are true where both are."""
    if not isinstance(x, Value) and not isinstance(factor, Value):
        return x * factor
    first, second = promoted(x, factor)
    is_bool = result_dtype((first, second)) == np.bool_
    product: Value = ops.logical_and(first, second) if is_bool else ops.multiply(first, second)
    return product


def plus(x: Any, y: Any) -> Any:
    """The sum of tensors or numbers, of which bools are true where either is."""
    first, second = promoted(x, y)
    is_bool = result_dtype((first, second)) == np.bool_
    return ops.logical_or(first, second) if is_bool else ops.add(first, second)


@operation
def add(input: Value, other: Value | float, *, alpha: float = 1) -> Value:
    """``input + alpha * other``, element by element."""
    return plus(input, other if alpha == 1 else times(other, alpha))  # type: ignore[no-any-return]


@operation
def sub(input: Value, other: Value | float, *, alpha: float = 1) -> Value:
    """``input - alpha * other``, element by element."""
    x, y = promoted(input, other if alpha == 1 else times(other, alpha))
    if result_dtype((x, y)) == np.bool_:
        raise TypeRuleError("sub: bools have no difference, got two bool operands; use logical_xor")
    return ops.subtract(x, y)


@operation
def rsub(input: Value, other: Value | float, *, alpha: float = 1) -> Value:
    """``other - alpha * input``, element by element."""
    return ops.subtract(*promoted(other, input if alpha == 1 else times(input, alpha)))


@operation
def mul(input: Value, other: Value | float) -> Value:
    """``input * other``, element by element."""
    return times(input, other)  # type: ignore[no-any-return]


@operation
def div(input: Value, other: Value | float, *, rounding_mode: str | None = None) -> Value:
    """``input / other``, element by element; integers are divided as f32.

    Parameters
    ----------
    input, other : Tensor or number
        Broadcast to a common shape.
    rounding_mode : {None, "floor", "trunc"}, default None
        How the quotient is rounded; with it, the quotient of integers is an integer.
    """
    if rounding_mode not in _ROUNDINGS:
        raise InvalidValueError(f"div: rounding_mode must be None, 'floor' or 'trunc', got {rounding_mode!r}")
    if rounding_mode == "floor":
        return _floor_divide(input, other)
    if rounding_mode == "trunc":
        return _truncated_quotient(*promoted(input, other))
    dtype = result_dtype((input, other))
    return ops.divide(*promoted(input, other, dtype=dtype if is_float(dtype) else DTYPES["f32"]))


@operation
def neg(input: Value) -> Value:
    """``-input``, element by element."""
    return ops.negative(input) if input.dtype.kind != "u" else ops.subtract(0, input)


@low_precision
@operation
def matmul(input: Value, other: Value) -> Value:
    """The matrix product, batched over leading axes."""
    return ops.matmul(input, other)


def _floor_divide(input: Any, other: Any) -> Value:
    x, y = promoted(input, other)
    quotient = ops.divide(x, y)
    return ops.floor(quotient) if is_float(quotient.dtype) else quotient


def _truncated_quotient(x: Any, y: Any) -> Value:
    quotient = ops.divide(x, y)
    if is_float(quotient.dtype):
        return ops.trunc(quotient)
    if quotient.dtype.kind == "u":
        return quotient
    inexact = ops.not_equal(ops.multiply(quotient, y), x)
    return ops.where(ops.logical_and(ops.less(quotient, 0), inexact), ops.add(quotient, 1), quotient)


@operation
def floor_divide(input: Value, other: Value | float) -> Value:
    """``input / other`` rounded down, element by element."""
    return _floor_divide(input, other)


@operation
def remainder(input: Value, other: Value | float) -> Value:
    """The remainder of `floor_divide`, as Python's ``%``: it has the sign of the divisor."""
    return ops.remainder(*promoted(input, other))


@operation
def fmod(input: Value, other: Value | float) -> Value:
    """The remainder of division rounded towards zero, as C's ``fmod``: it has the sign of the dividend."""
    return ops.fmod(*promoted(input, other))


def _cube(x: Value) -> Value:
    return ops.multiply(ops.square(x), x)


#: Exponents for which there is something faster and more accurate than the general power.
_POWERS: dict[float, Callable[[Value], Value]] = {
    -1.0: ops.reciprocal,
    -0.5: ops.rsqrt,
    0.5: ops.sqrt,
    2.0: ops.square,
    3.0: _cube,
}


def _power(input: Any, exponent: Any) -> Value:
    if not isinstance(exponent, Value):
        dtype = result_dtype((input, exponent))
        if is_float(dtype):
            x = ops.cast(input, dtype)
            if exponent == 1:
                return x
            known = _POWERS.get(float(exponent))
            return ops.power(x, float(exponent)) if known is None else known(x)
        return _integer_power(ops.cast(input, dtype), int(exponent))
    x, y = promoted(input, exponent)
    if is_float(y.dtype):
        return ops.power(x, y)
    wide = ops.power(ops.cast(x, _F64) if isinstance(x, Value) else float(x), ops.cast(y, _F64))
    # Rounded towards zero like other powers with negative exponents; that of 0 is 0 in PyTorch too.
    return ops.cast(ops.where(ops.logical_and(ops.equal(x, 0), ops.less(y, 0)), 0.0, wide), y.dtype)


def _integer_power(x: Value, exponent: int) -> Value:
    """By repeated squaring; wraps around like multiplication."""
    if exponent < 0:
        raise InvalidValueError(
            f"pow: an integer tensor takes exponents of at least 0, got {exponent}; convert the tensor with float()"
        )
    result, square = ops.full_like(x, 1), x
    while exponent:
        if exponent & 1:
            result = ops.multiply(result, square)
        square, exponent = ops.square(square), exponent >> 1
    return result


@partial(operation, numbers=False)
def pow(input: Any, exponent: Any) -> Value:
    """``input ** exponent``, element by element; exponents of integers are at least 0."""
    return _power(input, exponent)


@partial(operation, numbers=False)
def float_power(input: Any, exponent: Any) -> Value:
    """`pow` in f64."""
    x = ops.cast(input, _F64) if isinstance(input, Value) else input
    return _power(x, ops.cast(exponent, _F64) if isinstance(exponent, Value) else float(exponent))


@operation
def maximum(input: Value, other: Value) -> Value:
    """The greater of two, element by element; ties share the gradient equally."""
    x, y = promoted(input, other)
    return ops.logical_or(x, y) if x.dtype == np.bool_ else ops.maximum(x, y)


@operation
def minimum(input: Value, other: Value) -> Value:
    """The smaller of two, element by element; ties share the gradient equally."""
    x, y = promoted(input, other)
    return ops.logical_and(x, y) if x.dtype == np.bool_ else ops.minimum(x, y)


@operation
def clamp(input: Value, min: Any = None, max: Any = None) -> Value:
    """`input` limited to ``[min, max]``, element by element.

    Parameters
    ----------
    input : Tensor
        Numbers.
    min, max : number or Tensor, optional
        The limits; None for no limit. Where `min` exceeds `max`, the result is `max`.
    """
    if min is None and max is None:
        raise InvalidValueError("clamp: at least one of min and max must be given, got None for both; pass one")
    limits = [limit for limit in (min, max) if limit is not None]
    dtype = result_dtype((input, *limits))
    if dtype == np.bool_:
        low = input if min is None else plus(input, min)
        return low if max is None else times(low, max)
    x: Value = promoted(input, dtype=dtype)[0]
    # Select with `where`, whose gradient is that of PyTorch: it passes within the closed interval.
    if min is not None:
        low = promoted(x, min, dtype=dtype)[1]
        x = ops.where(ops.less(x, low), low, x)
    if max is not None:
        high = promoted(x, max, dtype=dtype)[1]
        x = ops.where(ops.greater(x, high), high, x)
    return x


def clamp_min(input: Any, min: Any) -> Any:
    """`clamp` with a lower limit only."""
    return clamp(input, min)


def clamp_max(input: Any, max: Any) -> Any:
    """`clamp` with an upper limit only."""
    return clamp(input, None, max)


@operation
def lerp(input: Value, end: Value, weight: Value | float) -> Value:
    """``input + weight * (end - input)``, element by element."""
    x, y = promoted(input, end)
    return ops.add(x, ops.multiply(*promoted(weight, ops.subtract(y, x), dtype=x.dtype)))


@operation
def addcmul(input: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    """``input + value * tensor1 * tensor2``, element by element."""
    x, y, z = promoted(input, tensor1, tensor2)
    product = ops.multiply(y, z)
    return ops.add(x, product if value == 1 else ops.multiply(product, value))


@operation
def addcdiv(input: Value, tensor1: Value, tensor2: Value, *, value: float = 1) -> Value:
    """``input + value * tensor1 / tensor2``, element by element; `input` is float."""
    x, y, z = promoted(input, tensor1, tensor2)
    quotient = ops.divide(y, z)
    return ops.add(x, quotient if value == 1 else ops.multiply(quotient, value))


subtract, multiply, divide, true_divide, negative, clip = sub, mul, div, div, neg, clamp
