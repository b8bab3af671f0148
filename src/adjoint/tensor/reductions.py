"""Reductions over axes: sums, means, extremes and variances.

As in PyTorch, the axes are called `dim` (NumPy's ``axis`` and ``keepdims`` are accepted too), integers and bools are
added up as i64, and variances are unbiased by default.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import DTYPES, Value, as_dtype, is_float
from adjoint.ops.axes import axis_of
from adjoint.tensor import return_types
from adjoint.tensor.arithmetic import maximum, minimum
from adjoint.tensor.autocasting import full_precision
from adjoint.tensor.elementwise import floating
from adjoint.tensor.record import operation
from adjoint.tensor.scalar_axes import accepts_scalars

__all__ = [
    "all",
    "amax",
    "amin",
    "aminmax",
    "any",
    "argmax",
    "argmin",
    "count_nonzero",
    "logsumexp",
    "max",
    "mean",
    "min",
    "prod",
    "std",
    "std_mean",
    "sum",
    "var",
    "var_mean",
]

Dims = int | Sequence[int] | None
_I64 = DTYPES["i64"]


def _axes(dim: Dims, axis: Dims, keepdim: bool, keepdims: bool | None) -> tuple[Dims, bool]:
    """The axes and whether they are kept, by PyTorch's or by NumPy's names; an empty list of axes means all."""
    found = axis if dim is None else dim
    if isinstance(found, list | tuple) and not found:
        found = None
    return found, keepdim if keepdims is None else keepdims


def _summable(x: Value, dtype: Any) -> Value:
    """The operand of a sum or product: in the wanted dtype, otherwise integers and bools as i64."""
    if dtype is not None:
        return ops.cast(x, as_dtype(dtype))
    return x if is_float(x.dtype) else ops.cast(x, _I64)


@operation
@accepts_scalars()
def sum(
    input: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, axis: Dims = None, keepdims: Any = None
) -> Value:
    """The sum over axes.

    Parameters
    ----------
    input : Tensor
        Integers and bools are added up as i64.
    dim : int or sequence of int, optional
        The axes; default: all.
    keepdim : bool, default False
        Keep them, with size 1.
    dtype : dtype, optional
        Converted to before the sum.
    """
    axes, kept = _axes(dim, axis, keepdim, keepdims)
    x = _summable(input, dtype)
    return ops.any(x, axes, kept) if x.dtype.kind == "b" else ops.sum(x, axes, kept)


@full_precision
@operation
@accepts_scalars()
def prod(input: Value, dim: int | None = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None) -> Value:
    """The product over one axis or all of them; parameters as in `sum`."""
    axes, kept = _axes(dim, axis, keepdim, None)
    x = _summable(input, dtype)
    if x.dtype.kind == "b":
        return ops.all(x, axes, kept)
    return ops.prod(x, axes, kept)


@operation
@accepts_scalars()
def mean(
    input: Value, dim: Dims = None, keepdim: bool = False, *, dtype: Any = None, axis: Dims = None, keepdims: Any = None
) -> Value:
    """The mean over axes, of floats; parameters as in `sum`."""
    axes, kept = _axes(dim, axis, keepdim, keepdims)
    x = input if dtype is None else ops.cast(input, as_dtype(dtype))
    if not is_float(x.dtype):
        raise TypeRuleError(f"mean: the dtype must be float, got {x.type}; convert it with float()")
    return ops.mean(x, axes, kept)


def _variance(
    input: Value,
    dim: Any = None,
    unbiased: bool = True,
    keepdim: bool = False,
    *,
    correction: Any = None,
    axis: Any = None,
) -> Value:
    if isinstance(dim, bool):  # var(x, unbiased)
        dim, unbiased = None, dim
    axes, kept = _axes(dim, axis, keepdim, None)
    return ops.variance(input, axes, float(unbiased) if correction is None else correction, kept)


def _deviation(input: Value, *args: Any, **keywords: Any) -> Value:
    variance = _variance(input, *args, **keywords)
    # The root has no derivative at 0, where PyTorch's is 0.
    zero = ops.equal(variance, 0.0)
    return ops.where(zero, 0.0, ops.sqrt(ops.where(zero, 1.0, variance)))


def _averaged(input: Value, dim: Any = None, keepdim: bool = False, axis: Any = None) -> Value:
    axes, kept = _axes(None if isinstance(dim, bool) else dim, axis, keepdim, None)
    return ops.mean(input, axes, kept)


def _var_mean(input: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **keywords: Any) -> Any:
    return _variance(input, dim, unbiased, keepdim, **keywords), _averaged(input, dim, keepdim)


def _std_mean(input: Value, dim: Any = None, unbiased: bool = True, keepdim: bool = False, **keywords: Any) -> Any:
    return _deviation(input, dim, unbiased, keepdim, **keywords), _averaged(input, dim, keepdim)


def _named(function: Callable[..., Any], name: str, text: str) -> Any:
    function.__name__ = function.__qualname__ = name
    function.__doc__ = text
    return operation(accepts_scalars()(function), numbers=False)


_CORRECTED = """

    Parameters
    ----------
    input : Tensor
        Floats.
    dim : int or sequence of int, optional
        The axes; default: all.
    unbiased : bool, default True
        Whether the sum of squares is divided by the number of elements minus 1.
    keepdim : bool, default False
        Keep the axes, with size 1.
    correction : float, optional
        What is subtracted from the number of elements, in place of `unbiased`.
    """
var = _named(_variance, "var", "The variance over axes." + _CORRECTED)
std = _named(_deviation, "std", "The standard deviation over axes." + _CORRECTED)
var_mean = _named(_var_mean, "var_mean", "The variance and the mean over axes." + _CORRECTED)
std_mean = _named(_std_mean, "std_mean", "The standard deviation and the mean over axes." + _CORRECTED)


def _numbers(x: Value) -> Value:
    return ops.cast(x, DTYPES["u8"]) if x.dtype == np.bool_ else x


@operation
@accepts_scalars()
def amax(input: Value, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None) -> Value:
    """The maximum over axes; ties share the gradient equally. Parameters as in `sum`."""
    return ops.cast(ops.max(_numbers(input), *_axes(dim, axis, keepdim, None)), input.dtype)


@operation
@accepts_scalars()
def amin(input: Value, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None) -> Value:
    """The minimum over axes; ties share the gradient equally. Parameters as in `sum`."""
    return ops.cast(ops.min(_numbers(input), *_axes(dim, axis, keepdim, None)), input.dtype)


def aminmax(input: Any, *, dim: int | None = None, keepdim: bool = False) -> tuple[Any, Any]:
    """The minimum and the maximum, over one axis or all of them."""
    return amin(input, dim, keepdim), amax(input, dim, keepdim)


@operation
@accepts_scalars()
def argmax(
    input: Value, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None, keepdims: Any = None
) -> Value:
    """The i64 position of the maximum along an axis, or in the flattened tensor; the first if there are several."""
    axes, kept = _axes(dim, axis, keepdim, keepdims)
    return ops.argmax(_numbers(input), axes, kept)  # type: ignore[arg-type]


@operation
@accepts_scalars()
def argmin(
    input: Value, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None, keepdims: Any = None
) -> Value:
    """The i64 position of the minimum along an axis, or in the flattened tensor; the first if there are several."""
    axes, kept = _axes(dim, axis, keepdim, keepdims)
    return ops.argmax(_reversed_order(_numbers(input)), axes, kept)  # type: ignore[arg-type]


def _reversed_order(x: Value) -> Value:
    """Elements in the opposite order; NaN, which counts as an extreme in both orders, stays NaN."""
    if is_float(x.dtype):
        return ops.negative(x)
    return ops.subtract(int(np.iinfo(x.dtype).max) if x.dtype.kind == "u" else -1, x)


def _extreme(name: str, positions: Callable[[Value], Value]) -> Any:
    def pick(x: Value, dim: int, keepdim: bool) -> tuple[Value, Value]:
        at = axis_of(name, dim, len(x.shape))
        last = ops.permute(x, [n for n in range(len(x.shape)) if n != at] + [at])
        ids = positions(_numbers(last))
        picked = ops.take_along_last(last, ids)
        return (ops.expand_dims(picked, at), ops.expand_dims(ids, at)) if keepdim else (picked, ids)

    pick.__name__ = name
    return operation(pick)


_max_along = _extreme("max", lambda x: ops.argmax(x, -1))
_min_along = _extreme("min", lambda x: ops.argmax(_reversed_order(x), -1))


def max(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, axis: int | None = None) -> Any:
    """The maximum of all elements, along an axis with its positions, or of two tensors element by element.

    Parameters
    ----------
    input : Tensor
        Numbers.
    dim : int or Tensor, optional
        An axis: the result is ``(values, indices)``. A second tensor: as in `maximum`.
    keepdim : bool, default False
        Keep the axis, with size 1.
    """
    return _either(return_types.max, _max_along, amax, maximum, input, axis if dim is None else dim, keepdim, other)


def min(input: Any, dim: Any = None, keepdim: bool = False, *, other: Any = None, axis: int | None = None) -> Any:
    """The minimum of all elements, along an axis with its positions, or of two tensors element by element.

    Parameters as in `max`.
    """
    return _either(return_types.min, _min_along, amin, minimum, input, axis if dim is None else dim, keepdim, other)


def _either(named: Any, along: Any, whole: Any, pairwise: Any, input: Any, dim: Any, keepdim: bool, other: Any) -> Any:
    second = dim if other is None else other
    if second is None:
        return whole(input)
    if not isinstance(second, int | np.integer):
        return pairwise(input, second)
    if not input.shape:
        return named(input, argmax(input))
    return named(*along(input, int(second), keepdim))


@operation
@accepts_scalars()
def any(input: Value, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None) -> Value:
    """Whether any element along axes is true, that is not zero; parameters as in `sum`."""
    return ops.any(input, *_axes(dim, axis, keepdim, None))


@operation
@accepts_scalars()
def all(input: Value, dim: Dims = None, keepdim: bool = False, *, axis: Dims = None) -> Value:
    """Whether all elements along axes are true, that is not zero; parameters as in `sum`."""
    return ops.all(input, *_axes(dim, axis, keepdim, None))


@operation
@accepts_scalars()
def count_nonzero(input: Value, dim: Dims = None) -> Value:
    """The number of elements that are not zero, as i64."""
    return ops.count_nonzero(input, dim)


@operation
@accepts_scalars()
def logsumexp(input: Value, dim: Dims, keepdim: bool = False) -> Value:
    """``log(sum(exp(input)))`` over axes, computed without overflow; parameters as in `sum`."""
    return ops.logsumexp(floating(input), dim, keepdim)
