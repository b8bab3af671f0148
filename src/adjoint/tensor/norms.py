"""Norms, distances, and sums that leave out NaN."""

from collections.abc import Sequence
from functools import partial
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Value, as_dtype, is_float
from adjoint.ops.axes import axis_of
from adjoint.tensor.autocasting import full_precision
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation
from adjoint.tensor.scalar_axes import accepts_scalars

__all__ = ["cdist", "dist", "nanmean", "nansum", "norm", "pdist", "renorm", "vector_norm"]

Dims = int | Sequence[int] | None


def _float(name: str, x: Value, dtype: Any = None) -> Value:
    x = x if dtype is None else ops.cast(x, as_dtype(dtype))
    if not is_float(x.dtype):
        raise TypeRuleError(f"{name}: the dtype must be float, got {x.type}; convert it with float()")
    return x


@partial(operation, numbers=False)
@accepts_scalars()
def norm(input: Value, p: Any = "fro", dim: Dims = None, keepdim: bool = False, dtype: Any = None) -> Value:
    """The p-norm over axes; its gradient is 0 where it is 0.

    Parameters
    ----------
    input : Tensor
        Floats.
    p : float or "fro", default "fro"
        The exponent, which may be infinite or 0 (the number of elements that are not zero); "fro" means 2.
    dim : int or sequence of int, optional
        The axes; default: all.
    keepdim : bool, default False
        Keep the axes, with size 1.
    dtype : dtype, optional
        Converted to before the computation.
    """
    x = _float("norm", input, dtype)
    if isinstance(p, str) and p != "fro":
        raise InvalidValueError(f"norm: p must be a number or 'fro', got {p!r}; pass p=2 or another number")
    return ops.norm(x, 2.0 if p == "fro" else float(p), dim, keepdim)


@partial(operation, numbers=False)
@accepts_scalars()
def vector_norm(x: Value, ord: float = 2, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The norm of the elements along axes, as ``torch.linalg.vector_norm``; parameters as in `norm`, with ``ord``."""
    return ops.norm(_float("vector_norm", x, dtype), ord, dim, keepdim)


@partial(operation, numbers=False)
def dist(input: Value, other: Value, p: float = 2) -> Value:
    """The p-norm of the difference of two tensors, over all elements; its gradient is 0 where it is 0."""
    return ops.norm(ops.subtract(*promoted(_float("dist", input), _float("dist", other))), p)


@full_precision
@partial(operation, numbers=False)
def _cdist(x1: Value, x2: Value, p: float) -> Value:
    first, second = promoted(_float("cdist", x1), _float("cdist", x2))
    return ops.cdist(first, second, p)


def cdist(x1: Any, x2: Any, p: float = 2.0, compute_mode: str | None = None) -> Any:  # noqa: ARG001
    """The p-norms of the differences of all rows of two (batches of) matrices.

    Parameters
    ----------
    x1, x2 : Tensor
        Floats, shapes ``[..., n, d]`` and ``[..., m, d]``.
    p : float, default 2.0
        The order, as in `norm`.
    compute_mode : str, optional
        Has no effect: differences are always taken before the squares.

    Returns
    -------
    Tensor
        Shape ``[..., n, m]``.
    """
    return _cdist(x1, x2, p)


@partial(operation, numbers=False)
def pdist(input: Value, p: float = 2.0) -> Value:
    """The p-norms of the differences of all pairs of different rows of a matrix ``[n, d]``: shape ``[n*(n-1)/2]``."""
    x = _float("pdist", input)
    if len(x.shape) != 2:
        raise TypeRuleError(f"pdist: the operand must be a matrix, got {x.type}; use cdist for batches of them")
    rows = x.shape[0]
    pairs = [ops.subtract(ops.slice_axis(x, 0, n, n + 1), ops.slice_axis(x, 0, n + 1, rows)) for n in range(rows - 1)]
    if not pairs:
        return ops.full(0.0, (0,), x.dtype)
    return ops.norm(ops.concat(*pairs, axis=0) if len(pairs) > 1 else pairs[0], p, -1)


@partial(operation, numbers=False)
def renorm(input: Value, p: float, dim: int, maxnorm: float) -> Value:
    """`input` with the parts along an axis whose p-norm exceeds a limit scaled down to it.

    Parameters
    ----------
    input : Tensor
        Floats, with two axes or more.
    p : float
        The order of the norm.
    dim : int
        The axis: each position along it has one norm, over all other axes.
    maxnorm : float
        The limit.
    """
    x = _float("renorm", input)
    at = axis_of("renorm", dim, len(x.shape))
    size = ops.norm(x, p, [n for n in range(len(x.shape)) if n != at], keepdims=True)
    # PyTorch's constant, by which norms that were just scaled stay within the limit.
    scale = ops.where(ops.greater(size, maxnorm), ops.divide(maxnorm, ops.add(size, 1e-7)), 1.0)
    return ops.multiply(x, scale)


@operation
@accepts_scalars()
def nansum(input: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The sum over axes of the elements that are not NaN; integers and bools are added up as i64."""
    x = input if dtype is None else ops.cast(input, as_dtype(dtype))
    x = x if is_float(x.dtype) or dtype is not None else ops.cast(x, DTYPES["i64"])
    return ops.nansum(x, dim, keepdim)


@operation
@accepts_scalars()
def nanmean(input: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None) -> Value:
    """The mean over axes of the elements that are not NaN; NaN if there are none."""
    return ops.nanmean(_float("nanmean", input, dtype), dim, keepdim)
