"""Functions of two tensors, element by element. Those of floats convert integers and bools to f32, as in PyTorch."""

from collections.abc import Callable
from typing import Any

from adjoint import ops
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.promotion import promoted, result_dtype
from adjoint.tensor.record import operation

__all__ = [
    "arctan2",
    "atan2",
    "copysign",
    "fmax",
    "fmin",
    "heaviside",
    "hypot",
    "ldexp",
    "logaddexp",
    "logaddexp2",
    "xlogy",
]


def _floats(*operands: Any) -> list[Any]:
    dtype = result_dtype(operands)
    return promoted(*operands, dtype=dtype if is_float(dtype) else DTYPES["f32"])


def _of_floats(name: str, function: Callable[..., Value], text: str) -> Callable[..., Value]:
    """The operation on tensors of a function of floats, with the name and first line of the docstring."""

    def apply(input: Value, other: Any) -> Value:
        return function(*_floats(input, other))

    apply.__name__, apply.__qualname__, apply.__doc__ = name, name, text
    return operation(apply)


atan2 = _of_floats(
    "atan2",
    ops.atan2,
    "The angle of the point (other, input), between -pi and pi; its gradient at the origin is 0 (PyTorch: NaN).",
)
copysign = _of_floats("copysign", ops.copysign, "The magnitude of `input` with the sign of `other`.")
hypot = _of_floats(
    "hypot",
    ops.hypot,
    "``sqrt(input**2 + other**2)`` without overflow; its gradient at the origin is 0 (PyTorch: NaN).",
)
logaddexp = _of_floats("logaddexp", ops.logaddexp, "``log(exp(input) + exp(other))`` without overflow.")
logaddexp2 = _of_floats("logaddexp2", ops.logaddexp2, "``log2(2**input + 2**other)`` without overflow.")
xlogy = _of_floats("xlogy", ops.xlogy, "``input * log(other)``, 0 where `input` is 0 and `other` is not NaN.")
ldexp = _of_floats("ldexp", ops.ldexp, "``input * 2**other``.")


@operation
def fmax(input: Value, other: Value) -> Value:
    """The greater of two, element by element; the other where one is NaN. Of equal ones, `input` gets the gradient."""
    x, y = promoted(input, other)
    return ops.logical_or(x, y) if x.dtype.kind == "b" else ops.fmax(x, y)


@operation
def fmin(input: Value, other: Value) -> Value:
    """The smaller of two, element by element; the other where one is NaN. Of equal ones, `input` gets the gradient."""
    x, y = promoted(input, other)
    return ops.logical_and(x, y) if x.dtype.kind == "b" else ops.fmin(x, y)


@operation
def heaviside(input: Value, values: Value) -> Value:
    """0 for negative elements, 1 for positive ones, `values` for 0; without a gradient."""
    x, y = promoted(input, values)
    return ops.logical_or(x, y) if x.dtype.kind == "b" else ops.heaviside(x, y)


arctan2 = atan2
