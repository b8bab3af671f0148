"""Random floats of the two distributions that all others are made of. `adjoint.ops.random` exports them."""

from math import isfinite, pi

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import DTYPES, as_dtype, dtype_name, is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, multiply, subtract
from adjoint.ops.convert import cast
from adjoint.ops.create import constant, full
from adjoint.ops.logic import less, where
from adjoint.ops.powers import sqrt
from adjoint.ops.random_keys import Shape, as_key, is_number, sizes, split, words_of
from adjoint.ops.shape import broadcast_to, slice_axis, squeeze
from adjoint.ops.threefry import RandomBits
from adjoint.ops.transcendental import cos, log

__all__ = ["Bound", "draw", "float_dtype", "normal", "spread_to", "uniform", "unit_floats"]

#: A parameter of a distribution: a number for all elements, or a tensor.
Bound = float | Value | np.ndarray

#: Bits of the significand of each float dtype: so many random bits are a multiple of ``2**-bits`` in ``[0, 1)``.
_DIGITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


def uniform(key: Value, shape: Shape = (), dtype: object = "f32", low: Bound = 0.0, high: Bound = 1.0) -> Value:
    """Random floats, evenly distributed in ``[low, high)``.

    ``low + u * (high - low)``, where u is a multiple of ``2**-24`` (f64: ``2**-53``, f16: ``2**-11``, bf16: ``2**-8``)
    of as many random bits; what is rounded to `high` is replaced by `low`.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    shape : int or sequence of int, default ()
        Shape of what a key draws.
    dtype : str or numpy dtype, default "f32"
        A float dtype. 16-bit floats are computed in f32 and rounded once.
    low, high : float, Value or numpy.ndarray, default 0.0 and 1.0
        The bounds: numbers, or tensors of the dtype that broadcast to the result. The gradient is that of the formula.
    """
    to = float_dtype("uniform", dtype)
    unit = unit_floats("uniform", key, shape, to)
    if not isinstance(low, Value | np.ndarray) and not isinstance(high, Value | np.ndarray):
        _require_range(low, high, unit.dtype)
        if (low, high) == (0, 1):
            return cast(unit, to)
    lowest, highest = (_bound("uniform", x, to, unit) for x in (low, high))
    start = cast(lowest, unit.dtype)
    drawn = cast(add(start, multiply(unit, subtract(cast(highest, unit.dtype), start))), to)
    return where(less(drawn, highest), drawn, lowest)


def normal(key: Value, shape: Shape = (), dtype: object = "f32") -> Value:
    """Random floats of the standard normal distribution.

    The transform of G. Box and M. Muller ("A note on the generation of random normal deviates", 1958), ``sqrt(-2 *
    log(u)) * cos(a)``. The number u in ``(0, 1]`` and the angle a are made of 32 random bits each and rounded to f32,
    or of 53 bits in f64. The result is that of the exact formula within 2e-6, or 4e-15 in f64, and reaches 6.66, or
    8.57, standard deviations.

    Parameters
    ----------
    key : Value
        A key, u32[2], or several along the last axis.
    shape : int or sequence of int, default ()
        Shape of what a key draws.
    dtype : str or numpy dtype, default "f32"
        A float dtype. 16-bit floats are computed in f32 and rounded once.
    """
    to = float_dtype("normal", dtype)
    if to == DTYPES["f64"]:
        keys = split(key)
        first, second = (
            cast(cast(draw("normal", squeeze(slice_axis(keys, -2, n, n + 1), -2), shape, 53), "i64"), to)
            for n in range(2)
        )
        u = multiply(add(first, 1.0), 2.0**-53)
        angle = multiply(subtract(second, 2.0**52), pi * 2.0**-52)
    else:
        high, low = words_of(draw("normal", key, shape, 64))
        u = multiply(add(cast(high, "f32"), 1.0), 2.0**-32)
        angle = multiply(cast(cast(low, "i32"), "f32"), pi * 2.0**-31)
    return cast(multiply(sqrt(multiply(log(u), -2.0)), cos(angle)), to)


def draw(name: str, key: object, shape: Shape, width: int) -> Value:
    """Random bits for each key, of 32 or 64 bits, of which an integer has the upper `width` ones."""
    return apply(RandomBits(sizes(shape), width), as_key(name, key))


def float_dtype(name: str, dtype: object) -> np.dtype:
    """The dtype of what a distribution draws; raises unless it is a float."""
    to = as_dtype(dtype)
    if not is_float(to):
        raise TypeRuleError(f"{name}: the dtype must be float, got {dtype_name(to)}; use f32, or randint")
    return to


def unit_floats(name: str, key: object, shape: Shape, dtype: np.dtype, least: int = 0) -> Value:
    """Uniform numbers in ``[0, 1)``, exact in f32 or f64, with the digits of a dtype but not less than `least`."""
    width = max(_DIGITS[dtype_name(dtype)], least)
    signed, wide = ("i64", "f64") if width > 32 else ("i32", "f32")
    # Through signed integers, which every target converts in one instruction.
    return multiply(cast(cast(draw(name, key, shape, width), signed), wide), 2.0**-width)


def _require_range(low: float, high: float, dtype: np.dtype) -> None:
    """Raise unless numbers are the bounds of a range that is not empty and whose size the dtype holds."""
    if not (is_number(low) and is_number(high) and isfinite(low) and isfinite(high) and low < high):
        raise InvalidValueError(
            f"uniform: low must be below high, and both finite numbers, got {low!r} and {high!r}; exchange them?"
        )
    if float(high) - float(low) > float(np.finfo(dtype).max):
        raise InvalidValueError(
            f"uniform: high - low must be finite in {dtype_name(dtype)}, got {low!r} and {high!r}; draw from a smaller "
            "range and multiply"
        )


def _bound(name: str, x: Bound, dtype: np.dtype, like: Value) -> Value:
    """A bound of a distribution, as a value of a dtype and the shape of another value."""
    if isinstance(x, np.ndarray):
        x = constant(x, dtype)
    if isinstance(x, Value):
        if x.dtype != dtype:
            raise TypeRuleError(f"{name}: a bound must be {dtype_name(dtype)}, got {x.type}; cast it")
        return spread_to(name, x, like)
    return full(float(x), like.shape, dtype)


def spread_to(name: str, x: Value, like: Value) -> Value:
    """A parameter of a distribution, broadcast to what is drawn."""
    try:
        return broadcast_to(x, like.shape)
    except TypeRuleError:
        raise TypeRuleError(
            f"{name}: a parameter must broadcast to what is drawn, got {x.type} for the shape {list(like.shape)}; "
            "pass the shape of the result"
        ) from None
