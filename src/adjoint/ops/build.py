"""Helpers of constructor functions: make scalars and arrays tensors beside a graph value, and broadcast shapes."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType
from adjoint.ir.value import Value
from adjoint.ops.convert import cast
from adjoint.ops.create import constant, full
from adjoint.ops.promotion import promote
from adjoint.ops.shape import broadcast_to

__all__ = ["Argument", "as_operand", "broadcast", "broadcast_operands", "full_like"]

#: An argument of a binary operator's constructor: a graph value, or a scalar or array that is promoted beside one.
Argument = Value | float | int | bool | np.generic | np.ndarray


class _Scalar(NamedTuple):
    """A promoted scalar, whose shape is not known yet."""

    value: Any
    dtype: np.dtype


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

    Scalars and arrays are promoted by the table of `adjoint.ops.promotion`: a scalar becomes ``full`` of the common
    shape, an array ``constant``. A value of another shape is passed through ``broadcast_to``, whose vjp sums the
    cotangent.

    Parameters
    ----------
    name : str
        The operator, for error messages.
    *arguments : Value, float, int, bool or numpy.ndarray
        The operands; at least one is a graph value. Comparing their dtypes is up to the operator.
    typed : int, default 0
        Position of the first operand that determines the dtype of scalars; those before it are
        conditions, which are graph values.
    """
    operands = [*arguments[:typed], *_promoted(name, arguments[typed:])]
    values = [operand for operand in operands if isinstance(operand, Value)]
    for value in values:
        _require_tensor(name, value)
    shape = _common_shape(name, values)
    return tuple(
        full(operand.value, shape, operand.dtype) if isinstance(operand, _Scalar) else _spread(operand, shape)
        for operand in operands
    )


def as_operand(name: str, given: object, other: object) -> Value:
    """`given`, with an array turned into a constant beside the graph value `other`; raises for anything else."""
    if isinstance(given, Value):
        return given
    if not isinstance(other, Value) or not isinstance(given, np.ndarray):
        word = f"a {type(given).__name__}" if isinstance(given, list | tuple) else repr(given)
        raise TypeRuleError(
            f"{name}: operands must be graph values, or one of them a NumPy array, got {word}; "
            "use multiply for scalars, constant for lists"
        )
    _require_tensor(name, other)
    array, dtype = promote(name, given, other.dtype)
    return constant(array, dtype)


def _require_tensor(name: str, value: Value) -> None:
    if not isinstance(value.type, TensorType):
        raise TypeRuleError(f"{name}: operands must be tensors, got {value.type}; extract one with tuple_get")


def _promoted(name: str, arguments: Sequence[Argument]) -> Sequence[Any]:
    """The operands with arrays as constants, scalars as `_Scalar`, and graph values in the common dtype."""
    values = [argument for argument in arguments if isinstance(argument, Value)]
    if len(values) == len(arguments):
        return arguments
    if not values:
        given = " and ".join(repr(argument) for argument in arguments)
        raise TypeRuleError(f"{name}: at least one operand must be a graph value, got {given}; create one with full")
    _require_tensor(name, values[0])
    made: list[Any] = []
    dtype = own = values[0].dtype
    for argument in arguments:
        if isinstance(argument, Value):
            made.append(argument)
            continue
        plain, dtype = promote(name, argument, own)
        made.append(constant(plain, dtype) if isinstance(plain, np.ndarray) else _Scalar(plain, dtype))
    if dtype == own:
        return made
    return [cast(item, dtype) if isinstance(item, Value) else item for item in made]


def _common_shape(name: str, values: Sequence[Value]) -> tuple[int, ...]:
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
