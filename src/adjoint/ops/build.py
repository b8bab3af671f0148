"""Helpers of constructor functions: turn scalars into tensors of the other operand's dtype, and broadcast shapes."""

from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType
from adjoint.ir.value import Value
from adjoint.ops.create import full, plain_scalar, scalar_misfit
from adjoint.ops.shape import broadcast_to

__all__ = ["Argument", "broadcast", "broadcast_operands", "full_like"]

#: An argument of a binary operator's constructor: a graph value, or a scalar that takes the other operand's dtype.
Argument = Value | float | int | bool


def full_like(x: Value, value: float | int | bool) -> Value:
    """A tensor of `value` with the type of `x`."""
    return full(value, x.shape, x.dtype)


def broadcast(x: Argument, y: Argument) -> tuple[Value, Value]:
    """Two operands broadcast to a common shape by NumPy's rules.

    Raises
    ------
    TypeRuleError
        If the shapes do not broadcast, neither is a graph value, or the other's dtype cannot hold a scalar.
    """
    first, second = broadcast_operands("broadcast", x, y)
    return first, second


def broadcast_operands(name: str, *arguments: Argument, typed: int = 0) -> tuple[Value, ...]:
    """Operands broadcast to a common shape.

    A scalar becomes ``full`` of that shape with the dtype of the first graph value. A value of another shape is passed
    through ``broadcast_to``, whose vjp sums the cotangent.

    Parameters
    ----------
    name : str
        The operator, for error messages.
    *arguments : Value, float, int or bool
        The operands; at least one is a graph value. Comparing their dtypes is up to the operator.
    typed : int, default 0
        Position of the first operand that determines the dtype of scalars, if the operands before it are conditions.
    """
    values = [argument for argument in arguments if isinstance(argument, Value)]
    models = [argument for argument in arguments[typed:] if isinstance(argument, Value)]
    if not models:
        given = " and ".join(repr(argument) for argument in arguments[typed:])
        raise TypeRuleError(f"{name}: at least one operand must be a graph value, got {given}; create one with full")
    for value in values:
        if not isinstance(value.type, TensorType):
            raise TypeRuleError(f"{name}: operands must be tensors, got {value.type}; extract one with tuple_get")
    shape = _common_shape(name, values)
    dtype = models[0].dtype
    return tuple(
        _spread(argument, shape) if isinstance(argument, Value) else _scalar(name, argument, shape, dtype)
        for argument in arguments
    )


def _common_shape(name: str, values: list[Value]) -> tuple[int, ...]:
    try:
        return np.broadcast_shapes(*(value.shape for value in values))
    except ValueError:
        given = " and ".join(str(value.type) for value in values)
        raise TypeRuleError(
            f"{name}: shapes must broadcast, with sizes aligned at the last axis equal or 1, got {given}; "
            "reshape one of them"
        ) from None


def _spread(value: Value, shape: tuple[int, ...]) -> Value:
    return value if value.shape == shape else broadcast_to(value, shape)


def _scalar(name: str, value: Any, shape: tuple[int, ...], dtype: np.dtype) -> Value:
    if isinstance(value, np.ndarray) and value.ndim:
        raise TypeRuleError(
            f"{name}: operands must be graph values or Python scalars, got an array; make it a parameter or wrap it "
            "in constant"
        )
    plain = plain_scalar(value, dtype)
    misfit = scalar_misfit(plain, dtype)
    if misfit:
        raise TypeRuleError(f"{name}: the scalar must fit the other operand's dtype: {misfit}")
    return full(plain, shape, dtype)
