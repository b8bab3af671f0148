"""Sorting and selection by rank, as in PyTorch: sort, top k, medians, quantiles, search, counting, unique elements.

Sorts are stable, and NaN is greater than any number. Functions whose results have a shape that depends on elements,
such as `unique`, read them at once.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Value, is_float
from adjoint.tensor.autocasting import full_precision
from adjoint.tensor.gathering import gather
from adjoint.tensor.making import from_array
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation
from adjoint.tensor.shapes import ravel
from adjoint.tensor.trace import Recorded, state

__all__ = [
    "argsort",
    "bucketize",
    "histc",
    "isin",
    "kthvalue",
    "median",
    "mode",
    "msort",
    "nanmedian",
    "nanquantile",
    "quantile",
    "searchsorted",
    "sort",
    "topk",
    "unique",
    "unique_consecutive",
]

_I64 = DTYPES["i64"]


class Ranked(NamedTuple):
    """Elements that were selected by their rank along an axis, and where they are."""

    values: Any
    indices: Any


_sorted = operation(ops.sort)
_top = operation(ops.topk)
_kth = operation(ops.kthvalue)
_mode = operation(ops.mode)
_median = operation(ops.median)
_nanmedian = operation(ops.nanmedian)


@operation
def argsort(input: Value, dim: int = -1, descending: bool = False, stable: bool = False) -> Value:  # noqa: ARG001
    """The positions along an axis of the elements in ascending or descending order; parameters as in `sort`."""
    return ops.argsort(input, dim, descending)


def sort(input: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Ranked:  # noqa: ARG001
    """The elements along an axis in ascending or descending order, and their positions.

    Parameters
    ----------
    input : Tensor
        Of any dtype. NaN is greater than any number.
    dim : int, default -1
        The axis.
    descending : bool, default False
        The greatest element first.
    stable : bool, default False
        The sort is always stable: equal elements stay in their order.
    """
    return Ranked(*_sorted(input, dim, descending))


def msort(input: Any) -> Any:
    """The elements along the first axis in ascending order."""
    return sort(input, 0).values


def topk(input: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Ranked:  # noqa: ARG001
    """The k largest elements along an axis, and their positions.

    Parameters
    ----------
    input : Tensor
        Of any dtype. NaN is greater than any number, and of equal elements the first ones are chosen.
    k : int
        How many.
    dim : int, default -1
        The axis.
    largest : bool, default True
        The largest ones; otherwise the smallest.
    sorted : bool, default True
        They are always in order, from the largest or from the smallest one on.
    """
    return Ranked(*_top(input, k, dim, largest))


def kthvalue(input: Any, k: int, dim: int = -1, keepdim: bool = False) -> Ranked:
    """The kth smallest element along an axis, counted from 1, and its position; the first of equal ones first."""
    return Ranked(*_kth(input, k, dim, keepdim))


def mode(input: Any, dim: int = -1, keepdim: bool = False) -> Ranked:
    """The most frequent element along an axis, the smallest if there are several, and its last position."""
    return Ranked(*_mode(input, dim, keepdim))


def median(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """The median of all elements, or along an axis with its position; of an even number of elements the lower one.

    It is NaN if an element is. Of equal elements, the position is one in the order of a stable sort, and the gradient
    goes there.
    """
    return _median(ravel(input))[0] if dim is None else Ranked(*_median(input, dim, keepdim))


def nanmedian(input: Any, dim: int | None = None, keepdim: bool = False) -> Any:
    """`median` of the elements that are not NaN; NaN if all are."""
    return _nanmedian(ravel(input))[0] if dim is None else Ranked(*_nanmedian(input, dim, keepdim))


def _quantiles(name: str, input: Value, q: Any, dim: int | None, keepdim: bool, interpolation: str) -> Value:
    if not isinstance(q, Value):
        given = np.asarray(q, np.float64)
        if given.ndim > 1 or not np.all((given >= 0) & (given <= 1)):
            raise InvalidValueError(f"{name}: q must be a number from 0 to 1, or a vector of them, got {q!r}")
        q = ops.constant(given, input.dtype) if is_float(input.dtype) else ops.constant(given, "f32")
    function = ops.quantile if name == "quantile" else ops.nanquantile
    return function(input, q, dim, keepdim, interpolation)


@full_precision
@partial(operation, numbers=False)
def quantile(
    input: Value, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Value:
    """Quantiles of all elements or along an axis: the elements at rank ``q * (n - 1)``, interpolated.

    Parameters
    ----------
    input : Tensor
        Floats. Rows with a NaN have NaN quantiles.
    q : float, sequence of float or Tensor
        From 0 to 1; a vector of them makes the first axis of the result. A tensor is not checked.
    dim : int, optional
        The axis; default: all elements.
    keepdim : bool, default False
        Keep the axis, with size 1.
    interpolation : {"linear", "lower", "higher", "midpoint", "nearest"}, default "linear"
        What is made of the two elements next to the rank.
    """
    return _quantiles("quantile", input, q, dim, keepdim, interpolation)


@full_precision
@partial(operation, numbers=False)
def nanquantile(
    input: Value, q: Any, dim: int | None = None, keepdim: bool = False, *, interpolation: str = "linear"
) -> Value:
    """`quantile` of the elements that are not NaN; NaN if all are."""
    return _quantiles("nanquantile", input, q, dim, keepdim, interpolation)


@operation
def _searched(rows: Value, values: Any, right: bool, narrow: bool) -> Value:
    if not isinstance(values, Value):
        values = ops.full(values, (), DTYPES["f32"] if isinstance(values, float) else _I64)
    first, second = promoted(rows, values)
    found = ops.searchsorted(first, second, right)
    return ops.cast(found, DTYPES["i32"]) if narrow else found


def searchsorted(
    sorted_sequence: Any,
    input: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Any:
    """Where values belong in ascending rows: before the first element that is not smaller.

    Parameters
    ----------
    sorted_sequence : Tensor
        One row ``[n]`` for all values, or rows ``[..., n]`` for values ``[..., m]``, in ascending order.
    input : Tensor or float
        The values; a NaN belongs behind all elements.
    out_int32 : bool, default False
        Return i32 instead of i64.
    right : bool, default False
        Behind equal elements, instead of before them.
    side : {"left", "right"}, optional
        The same in words.
    sorter : Tensor, optional
        The positions that sort each row, as `argsort` returns them, for rows that are not in order.
    """
    if side not in (None, "left", "right") or (side == "left" and right):
        raise InvalidValueError(f"searchsorted: side must be 'left' or 'right', as right says, got {side!r}")
    if sorter is not None:
        if sorter.shape != sorted_sequence.shape:
            raise TypeRuleError(
                f"searchsorted: the sorter must have one position per element, got shapes {tuple(sorter.shape)} and "
                f"{tuple(sorted_sequence.shape)}; pass argsort(sorted_sequence)"
            )
        sorted_sequence = gather(sorted_sequence, -1, sorter)
    return _searched(sorted_sequence, input, right or side == "right", out_int32)


def bucketize(input: Any, boundaries: Any, *, out_int32: bool = False, right: bool = False) -> Any:
    """`searchsorted` with the operands exchanged: the number of boundaries that are smaller than each value."""
    return searchsorted(boundaries, input, out_int32=out_int32, right=right)


@partial(operation, numbers=False)
def histc(input: Value, bins: int = 100, min: float = 0, max: float = 0) -> Value:
    """How many elements are in each of `bins` bins of equal width, as floats; the last bin includes `max`.

    Elements outside of the range, and NaN, are not counted. If `min` equals `max`, the range is that of the elements,
    and from 1 below to 1 above where all are equal.

    Raises
    ------
    InvalidValueError, TypeRuleError
        If there is no bin, `min` is greater than `max`, or elements are not floats.
    """
    if bins < 1 or min > max:
        raise InvalidValueError(f"histc: bins must be positive and min at most max, got {bins}, {min} and {max}")
    if not is_float(input.dtype):
        raise TypeRuleError(f"histc: the dtype must be float, got {input.type}; convert it with float()")
    x = ops.stop_gradient(ops.reshape(input, (input.type.size,)))
    if not x.shape[0]:
        return ops.full(0.0, (bins,), x.dtype)
    low, high = ops.full(float(min), (), x.dtype), ops.full(float(max), (), x.dtype)
    if min == max:
        low, high = ops.min(x), ops.max(x)
        same = ops.equal(low, high)
        low, high = ops.where(same, low - 1.0, low), ops.where(same, high + 1.0, high)
    inside = ops.logical_and(ops.greater_equal(x, low), ops.less_equal(x, high))
    place = ops.cast(ops.floor((x - low) / (high - low) * float(bins)), _I64)
    place = ops.where(inside, ops.minimum(place, bins - 1), -1)
    return ops.scatter_add(place, ops.full_like(x, 1.0), bins)


@operation
def _is_in(elements: Value, tests: Value, invert: bool) -> Value:
    x, other = promoted(elements, ops.reshape(tests, (tests.type.size,)))
    wide = (*x.shape, other.shape[0])
    same = ops.equal(ops.broadcast_to(ops.expand_dims(x, -1), wide), ops.broadcast_to(other, wide))
    found = ops.greater(ops.sum(ops.cast(same, DTYPES["i32"]), -1), 0)
    return ops.logical_not(found) if invert else found


def isin(elements: Any, test_elements: Any, *, assume_unique: bool = False, invert: bool = False) -> Any:  # noqa: ARG001
    """Whether each element is among others.

    Parameters
    ----------
    elements, test_elements : Tensor or number
        What is looked for, and where; one of them is a tensor.
    assume_unique : bool, default False
        Makes no difference.
    invert : bool, default False
        Whether it is not among them, instead.
    """
    made: list[Any] = [
        one if isinstance(one, Recorded | Value) else from_array(np.asarray(one)) for one in (elements, test_elements)
    ]
    return _is_in(made[0], made[1], invert)


def _read(name: str, x: Any) -> np.ndarray:
    """The elements of a tensor, for functions whose results have a shape that depends on them."""
    if isinstance(x, Value) or (isinstance(x, Recorded) and x._storage is None and state.trace.outer is not None):
        given = x.type if isinstance(x, Value) else x._spec.type
        raise TypeRuleError(
            f"{name}: the shape of the result depends on the elements, which a traced function cannot have, got "
            f"{given}; call it outside of the function"
        )
    found: np.ndarray = np.asarray(x.elements().array)
    return found


def unique(
    input: Any,
    sorted: bool = True,  # noqa: ARG001
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order, or the distinct parts along an axis: reads the tensor.

    Parameters
    ----------
    input : Tensor
        Any tensor.
    sorted : bool, default True
        They are always sorted.
    return_inverse : bool, default False
        Return also which of them each element is.
    return_counts : bool, default False
        Return also how often each occurs.
    dim : int, optional
        Compare parts along this axis; default: elements.
    """
    array: Any = _read("unique", input)
    found = np.unique(  # type: ignore[call-overload]
        array, return_inverse=return_inverse, return_counts=return_counts, axis=dim, equal_nan=False
    )
    return _tensors(found, return_inverse, array.shape if dim is None else None)


def unique_consecutive(
    input: Any, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The elements, or parts along an axis, without those equal to the one before: reads the tensor.

    Parameters as in `unique`.
    """
    array = _read("unique_consecutive", input)
    parts = array.reshape(-1) if dim is None else np.moveaxis(array, dim, 0)
    flat = parts.reshape(len(parts), math.prod(parts.shape[1:]))
    new = np.ones(len(parts), bool)
    new[1:] = (flat[1:] != flat[:-1]).any(1)
    starts = np.flatnonzero(new)
    kept = parts[starts] if dim is None else np.moveaxis(parts[starts], 0, dim)
    found = [kept]
    if return_inverse:
        found.append(np.cumsum(new) - 1)
    if return_counts:
        found.append(np.diff(np.append(starts, len(parts))))
    return _tensors(tuple(found) if len(found) > 1 else kept, return_inverse, array.shape if dim is None else None)


def _tensors(found: Any, has_inverse: bool, shape: Sequence[int] | None) -> Any:
    """Arrays as tensors, the positions among the results in the shape of the operand."""
    if not isinstance(found, tuple):
        return from_array(np.ascontiguousarray(found))
    arrays = [np.ascontiguousarray(one) for one in found]
    if has_inverse:
        arrays[1] = arrays[1].reshape(shape if shape is not None else (-1,))
    return tuple(from_array(one) for one in arrays)
