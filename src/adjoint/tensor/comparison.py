"""Comparisons and logic, element by element. The results are bool and have no gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.promotion import promoted, result_dtype
from adjoint.tensor.record import operation

__all__ = [
    "allclose",
    "bitwise_and",
    "bitwise_left_shift",
    "bitwise_not",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "eq",
    "equal",
    "ge",
    "greater",
    "greater_equal",
    "gt",
    "isclose",
    "isfinite",
    "isinf",
    "isnan",
    "isneginf",
    "isposinf",
    "le",
    "less",
    "less_equal",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "lt",
    "ne",
    "not_equal",
    "where",
]

_U8 = DTYPES["u8"]


def _compared(name: str, function: Callable[[Any, Any], Value], text: str) -> Callable[[Value, Any], Value]:
    def apply(input: Value, other: Any) -> Value:
        x, y = promoted(input, other)
        if name not in ("eq", "ne") and np.bool_ in (getattr(x, "dtype", None), getattr(y, "dtype", None)):
            x, y = (ops.cast(one, _U8) if isinstance(one, Value) else int(one) for one in (x, y))
        return function(x, y)

    apply.__name__, apply.__qualname__, apply.__doc__ = name, name, text
    return operation(apply)


eq = _compared("eq", ops.equal, "``input == other``, element by element.")
ne = _compared("ne", ops.not_equal, "``input != other``, element by element.")
lt = _compared("lt", ops.less, "``input < other``, element by element.")
le = _compared("le", ops.less_equal, "``input <= other``, element by element.")
gt = _compared("gt", ops.greater, "``input > other``, element by element.")
ge = _compared("ge", ops.greater_equal, "``input >= other``, element by element.")
not_equal, less, less_equal, greater, greater_equal = ne, lt, le, gt, ge


def truth(x: Any) -> Any:
    """Whether elements are not zero; Python numbers too."""
    if not isinstance(x, Value):
        return bool(x)
    return x if x.dtype == np.bool_ else ops.not_equal(x, 0)


@operation
def logical_and(input: Value, other: Any) -> Value:
    """Whether both are true, that is not zero."""
    return ops.logical_and(truth(input), truth(other))


@operation
def logical_or(input: Value, other: Any) -> Value:
    """Whether at least one is true, that is not zero."""
    return ops.logical_or(truth(input), truth(other))


@operation
def logical_xor(input: Value, other: Any) -> Value:
    """Whether exactly one is true, that is not zero."""
    return ops.logical_xor(truth(input), truth(other))


@operation
def logical_not(input: Value) -> Value:
    """Whether the element is zero or False."""
    return ops.logical_not(truth(input))


def _of_bits(name: str, function: Callable[..., Value], text: str) -> Callable[..., Value]:
    """The operation on integers and bools that one of Python's ``&``, ``|``, ``^``, ``~``, ``<<`` and ``>>`` is."""

    def apply(input: Any, *other: Any) -> Value:
        given = (input, *other)
        dtype = result_dtype(given)
        if is_float(dtype):
            shown = next(one.type if isinstance(one, Value) else repr(one) for one in given if _is_float(one))
            raise TypeRuleError(f"{name}: operands must be integers or bools, got {shown}; convert it with long()")
        return function(*promoted(*given, dtype=dtype))

    apply.__name__, apply.__qualname__, apply.__doc__ = name, name, text
    return operation(apply)


def _is_float(operand: Any) -> bool:
    return is_float(operand.dtype) if isinstance(operand, Value) else isinstance(operand, float | np.floating)


bitwise_and = _of_bits("bitwise_and", ops.bitwise_and, "``input & other``, for integers and bools.")
bitwise_or = _of_bits("bitwise_or", ops.bitwise_or, "``input | other``, for integers and bools.")
bitwise_xor = _of_bits("bitwise_xor", ops.bitwise_xor, "``input ^ other``, for integers and bools.")
bitwise_not = _of_bits("bitwise_not", ops.bitwise_not, "``~input``, for integers and bools.")
bitwise_left_shift = _of_bits(
    "bitwise_left_shift",
    ops.bitwise_left_shift,
    "``input << other``, for integers; 0 if `other` is negative or not less than the number of bits.",
)
bitwise_right_shift = _of_bits(
    "bitwise_right_shift",
    ops.bitwise_right_shift,
    "``input >> other``, for integers, rounded down; 0, or -1 for negative elements, if `other` is out of range.",
)


@operation
def isnan(input: Value) -> Value:
    """Whether the element is not a number."""
    return ops.isnan(input)


@operation
def isinf(input: Value) -> Value:
    """Whether the element is an infinity."""
    return ops.isinf(input)


@operation
def isfinite(input: Value) -> Value:
    """Whether the element is neither an infinity nor NaN."""
    return ops.isfinite(input)


@operation
def isposinf(input: Value) -> Value:
    """Whether the element is infinity."""
    return ops.isposinf(input)


@operation
def isneginf(input: Value) -> Value:
    """Whether the element is minus infinity."""
    return ops.isneginf(input)


@partial(operation, numbers=False)
def isclose(input: Value, other: Value, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Value:
    """Whether ``|input - other| <= atol + rtol * |other|``, or both are equal.

    Parameters
    ----------
    input, other : Tensor
        Broadcast to a common shape.
    rtol, atol : float, default 1e-05 and 1e-08
        The relative and the absolute tolerance.
    equal_nan : bool, default False
        Whether NaN is close to NaN.
    """
    x, y = promoted(input, other)
    same = ops.equal(x, y)
    if x.dtype != np.bool_:
        if not is_float(x.dtype):
            x, y = (ops.cast(one, DTYPES["f64"]) for one in (x, y))
        near = ops.less_equal(ops.abs(ops.subtract(x, y)), ops.add(ops.multiply(ops.abs(y), rtol), atol))
        finite = ops.equal(ops.subtract(y, y), 0.0)
        same = ops.logical_or(same, ops.logical_and(near, finite))
        if equal_nan:
            same = ops.logical_or(same, ops.logical_and(ops.not_equal(x, x), ops.not_equal(y, y)))
    return same


@operation
def _select(condition: Value, input: Any, other: Any) -> Value:
    x, y = promoted(input, other) if _has_value(input, other) else _numbers(input, other)
    return ops.where(truth(condition), x, y)


def _has_value(*operands: Any) -> bool:
    return any(isinstance(operand, Value) for operand in operands)


def _numbers(x: Any, y: Any) -> tuple[Value, Any]:
    """Two numbers: the first as a scalar of the dtype that a tensor of such numbers has."""
    both = [type(x), type(y)]
    dtype = DTYPES["f32"] if float in both else DTYPES["bool"] if both == [bool, bool] else DTYPES["i64"]
    return ops.full(x, (), dtype), y


def where(condition: Any, input: Any = None, other: Any = None) -> Any:
    """`input` where the condition holds, otherwise `other`; without these, the positions of the true elements.

    Parameters
    ----------
    condition : Tensor
        Bool.
    input, other : Tensor or number, optional
        Broadcast with the condition. What is not selected gets no gradient, and has no effect if it is NaN.
    """
    if input is None and other is None:
        return condition.nonzero(as_tuple=True)
    return _select(condition, input, other)


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and equal elements, as a Python bool: reads them."""
    if input.shape != other.shape:
        return False
    same: Any = eq(input, other)
    return bool(same.elements().array.all())


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether all elements are close, as a Python bool: reads them. Parameters as in `isclose`."""
    close: Any = isclose(input, other, rtol, atol, equal_nan)
    return bool(close.elements().array.all())
