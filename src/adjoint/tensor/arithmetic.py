"""Arithmetic on tensors, with PyTorch's promotion of dtypes (`adjoint.tensor.promotion`)."""

from functools import partial

import numpy as np

from adjoint import ops
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.promotion import promoted, result_dtype
from adjoint.tensor.record import operation

__all__ = ["add", "div", "matmul", "mul", "neg", "pow", "sub"]


@operation
def add(input: Value, other: Value | float, *, alpha: float = 1) -> Value:
    """``input + alpha * other``, element by element."""
    x, y = promoted(input, other if alpha == 1 else other * alpha)
    return ops.logical_or(x, y) if x.dtype == np.bool_ else ops.add(x, y)


@operation
def sub(input: Value, other: Value | float, *, alpha: float = 1) -> Value:
    """``input - alpha * other``, element by element."""
    return ops.subtract(*promoted(input, other if alpha == 1 else other * alpha))


@operation
def mul(input: Value, other: Value | float) -> Value:
    """``input * other``, element by element."""
    x, y = promoted(input, other)
    return ops.logical_and(x, y) if x.dtype == np.bool_ else ops.multiply(x, y)


@operation
def div(input: Value, other: Value | float) -> Value:
    """``input / other``, element by element; integers are divided as f32."""
    dtype = result_dtype((input, other))
    return ops.divide(*promoted(input, other, dtype=dtype if is_float(dtype) else DTYPES["f32"]))


@operation
def neg(input: Value) -> Value:
    """``-input``, element by element."""
    return ops.negative(input)


@operation
def matmul(input: Value, other: Value) -> Value:
    """The matrix product, batched over leading axes."""
    return ops.matmul(input, other)


@partial(operation, numbers=False)
def pow(input: Value | float, exponent: Value | float) -> Value:
    """``input ** exponent``, element by element."""
    return ops.power(*promoted(input, exponent))
