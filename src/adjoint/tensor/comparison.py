"""Comparisons and logic, element by element. The results are bool and have no gradient."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation

__all__ = [
    "allclose",
    "bitwise_and",
    "bitwise_not",
    "bitwise_or",
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


def _of_bools(name: str, function: Callable[..., Value], text: str) -> Callable[..., Value]:
    """The operation on bools that Python's ``&``, ``|``, ``^`` and ``~`` are; there are none for integers yet."""

    def apply(input: Any, *other: Any) -> Value:
        for one in (input, *other):
            if not isinstance(one, bool) and getattr(one, "dtype", None) != np.bool_:
                given = one.type if isinstance(one, Value) else repr(one)
                raise TypeRuleError(f"{name}: operands must be bool, got {given}; compare it, as in x != 0")
        return function(input, *other)

    apply.__name__, apply.__qualname__, apply.__doc__ = name, name, text
    return operation(apply)


bitwise_and = _of_bools("bitwise_and", ops.logical_and, "``input & other``, for bools.")
bitwise_or = _of_bools("bitwise_or", ops.logical_or, "``input | other``, for bools.")
bitwise_xor = _of_bools("bitwise_xor", ops.logical_xor, "``input ^ other``, for bools.")
bitwise_not = _of_bools("bitwise_not", ops.logical_not, "``~input``, for bools.")


@operation
def isnan(input: Value) -> Value:
    """Whether the element is not a number."""
    return ops.not_equal(input, input)


@operation
def isinf(input: Value) -> Value:
    """Whether the element is an infinity."""
    return ops.equal(ops.abs(input), float("inf")) if is_float(input.dtype) else ops.not_equal(input, input)


@operation
def isfinite(input: Value) -> Value:
    """Whether the element is neither an infinity nor NaN."""
    # The difference is NaN for both.
    return ops.equal(ops.subtract(input, input), 0.0) if is_float(input.dtype) else ops.equal(input, input)


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
