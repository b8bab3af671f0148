"""Norms of single tensors, as optimizers measure them."""

from adjoint import ops
from adjoint.ir import DTYPES, Value

__all__ = ["norm", "rms", "wide"]


def wide(x: Value) -> Value:
    """The tensor in f32, or in f64 if it is f64: the squares of f16 overflow from 256."""
    return x if x.dtype == DTYPES["f64"] else ops.cast(x, "f32")


def norm(x: Value) -> Value:
    """The 2-norm of all elements, an f64 or f32 scalar."""
    return wide(x).square().sum().sqrt()


def rms(x: Value) -> Value:
    """The root of the mean square of all elements, an f64 or f32 scalar."""
    return wide(x).square().mean().sqrt()
