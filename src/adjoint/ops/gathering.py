"""Functions that read and write elements at computed positions: along an axis, by coordinates, by segments of rows.

They are composed of `Gather` and `Scatter` for positions of their own in each row, and of `take` and `scatter_add` for
whole rows. Positions count from 0. Those that are an argument of the compiled function, or views or casts of one, are
checked before it runs; of those computed inside it that are out of range, reads are clipped and get no gradient, and
writes are dropped.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, divide, floor_divide, multiply
from adjoint.ops.axes import axis_of
from adjoint.ops.build import full_like
from adjoint.ops.convert import cast, check_range, stop_gradient
from adjoint.ops.create import full, iota
from adjoint.ops.index import scatter_add, take
from adjoint.ops.logic import greater, greater_equal, less, logical_and, where
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.scattering import Gather, Scatter
from adjoint.ops.shape import broadcast_to, permute, reshape, slice_axis, squeeze
from adjoint.ops.sorting import SearchSorted

__all__ = [
    "coo_matmul",
    "csr_matmul",
    "gather",
    "gather_nd",
    "last_axis",
    "restored_axis",
    "scatter",
    "scatter_nd",
    "scatter_reduce",
    "segment_max",
    "segment_mean",
    "segment_min",
    "segment_sum",
]

#: What `scatter_reduce` calls the ways of `Scatter` to combine.
_REDUCE = {"sum": "add", "prod": "prod", "mean": "add", "amax": "amax", "amin": "amin"}


def last_axis(x: Value, axis: int) -> Value:
    """`x` with an axis moved to the end."""
    return permute(x, [*(n for n in range(len(x.shape)) if n != axis), axis])


def restored_axis(x: Value, axis: int) -> Value:
    """The inverse of `last_axis`."""
    rest = list(range(len(x.shape) - 1))
    return permute(x, [*rest[:axis], len(rest), *rest[axis:]])


def gather(x: Value, ids: Value, axis: int = -1) -> Value:
    """Elements at positions along an axis: for ``axis=1``, ``result[i, j] = x[i, ids[i, j]]``.

    Parameters
    ----------
    x : Value
        Any tensor with axes.
    ids : Value
        Integers, 0 to ``x.shape[axis] - 1``, of the shape of `x` except along the axis. The result has its shape.
    axis : int, default -1
        The axis.
    """
    at = axis_of("gather", axis, len(x.shape))
    return restored_axis(apply(Gather(), last_axis(x, at), _aligned("gather", x, ids, at)), at)


def _aligned(name: str, x: Value, ids: Value, axis: int) -> Value:
    if len(ids.shape) != len(x.shape):
        raise TypeRuleError(
            f"{name}: ids must have as many axes as the tensor, got {ids.type} for {x.type}; reshape it"
        )
    return last_axis(ids, axis)


def scatter(x: Value, ids: Value, updates: Value, axis: int = -1, reduce: str = "set") -> Value:
    """`x` with elements replaced by updates, or combined with them, at positions along an axis.

    For ``axis=1``, ``result[i, ids[i, j]] = updates[i, j]``, in the order of j: of several updates of an element, the
    last one replaces it, and alone has a gradient. Elements and updates that are the maximum or minimum share its
    gradient equally.

    Parameters
    ----------
    x : Value
        Any tensor with axes.
    ids : Value
        Integers, 0 to ``x.shape[axis] - 1``, of the shape of `x` except along the axis.
    updates : Value
        Of the shape of `ids` and the dtype of `x`.
    axis : int, default -1
        The axis.
    reduce : {"set", "add", "prod", "amax", "amin"}, default "set"
        How an element is combined with an update.
    """
    at = axis_of("scatter", axis, len(x.shape))
    rows = _aligned("scatter", x, ids, at), _aligned("scatter", x, updates, at)
    return restored_axis(apply(Scatter(reduce), last_axis(x, at), *rows), at)


def _neutral(reduce: str, dtype: np.dtype) -> float | int:
    """The element that leaves others as they are."""
    if reduce in ("amax", "amin"):
        if is_float(dtype):
            return float("-inf") if reduce == "amax" else float("inf")
        return int(np.iinfo(dtype).min if reduce == "amax" else np.iinfo(dtype).max)
    return 1 if reduce == "prod" else 0


def scatter_reduce(
    x: Value, ids: Value, updates: Value, axis: int = -1, reduce: str = "sum", include_self: bool = True
) -> Value:
    """`x` with elements combined with all updates at their positions along an axis, as in PyTorch.

    Parameters
    ----------
    x, ids, updates, axis
        As in `scatter`.
    reduce : {"sum", "prod", "mean", "amax", "amin"}, default "sum"
        How they are combined; a mean of integers is rounded down.
    include_self : bool, default True
        Whether the element of `x` is one of those combined. Elements without updates stay as they are in any case.
        False: an element of `x` that happens to equal the maximum has no share of its gradient, while PyTorch counts
        it and loses the share.
    """
    if reduce not in _REDUCE:
        raise InvalidValueError(f"scatter_reduce: reduce must be one of {', '.join(_REDUCE)}, got {reduce!r}")
    base, counts = x, None
    if reduce == "mean" or not include_self:
        ones = full(1, ids.shape, "i64")
        counts = scatter(full(0, x.shape, "i64"), ids, ones, axis, "add")
    if not include_self:
        base = where(greater(counts, 0), full_like(x, _neutral(reduce, x.dtype)), x)  # type: ignore[arg-type]
    found = scatter(base, ids, updates, axis, _REDUCE[reduce])
    if reduce != "mean" or counts is None:
        return found
    number = add(counts, 1) if include_self else maximum(counts, 1)
    number = cast(number, x.dtype)
    return divide(found, number) if is_float(x.dtype) else floor_divide(found, number)


def _flat_positions(name: str, shape: Sequence[int], ids: Value) -> tuple[Value, Value]:
    """The row-major positions of coordinates, which are along the last axis of `ids`, and whether all are in range."""
    if not ids.shape or ids.shape[-1] > len(shape):
        raise TypeRuleError(
            f"{name}: the last axis of the ids must hold a coordinate for some of the first axes, got {ids.type} for "
            f"shape {tuple(shape)}; reshape it"
        )
    flat = full(0, ids.shape[:-1], "i64")
    inside = full(True, ids.shape[:-1], "bool")
    for n, size in enumerate(shape[: ids.shape[-1]]):
        one = squeeze(slice_axis(ids, -1, n, n + 1), -1)
        wide = cast(check_range(one, 0, max(size, 1)), "i64")
        inside = logical_and(inside, logical_and(greater_equal(wide, 0), less(wide, size)))
        flat = add(multiply(flat, size), maximum(minimum(wide, size - 1), 0))
    return flat, inside


def gather_nd(x: Value, ids: Value) -> Value:
    """Elements, or parts, at coordinates: ``result[i] = x[ids[i, 0], ids[i, 1], ...]``.

    Parameters
    ----------
    x : Value
        Any tensor with axes.
    ids : Value
        Integers ``[..., k]``: coordinates along the first k axes of `x`. The result has the shape
        ``ids.shape[:-1] + x.shape[k:]``.
    """
    flat, inside = _flat_positions("gather_nd", x.shape, ids)
    count = ids.shape[-1]
    found = take(reshape(x, (prod(x.shape[:count]), *x.shape[count:])), flat)
    if not is_float(x.dtype):
        return found
    inside = reshape(inside, (*inside.shape, *(1 for _ in x.shape[count:])))
    return where(inside, found, stop_gradient(found))


def scatter_nd(ids: Value, updates: Value, shape: Sequence[int]) -> Value:
    """Zeros with updates added at coordinates: ``result[ids[i, 0], ids[i, 1], ...] += updates[i]``.

    Parameters
    ----------
    ids : Value
        Integers ``[..., k]``: coordinates along the first k axes of the result, which may repeat.
    updates : Value
        Numbers, of shape ``ids.shape[:-1] + shape[k:]``.
    shape : sequence of int
        The shape of the result.
    """
    flat, inside = _flat_positions("scatter_nd", shape, ids)
    count = ids.shape[-1]
    added = scatter_add(where(inside, flat, -1), updates, prod(shape[:count]))
    return reshape(added, tuple(shape))


def segment_sum(x: Value, ids: Value, segments: int) -> Value:
    """The sums of the rows with the same id: ``result[n] = sum of x[i] where ids[i] == n``; 0 without rows.

    Parameters
    ----------
    x : Value
        Numbers ``[n, ...]``.
    ids : Value
        Integers ``[n]``, 0 to ``segments - 1``, in any order.
    segments : int
        Size of the first axis of the result.
    """
    return scatter_add(_segment_ids("segment_sum", x, ids), x, segments)


def segment_mean(x: Value, ids: Value, segments: int) -> Value:
    """The means of the rows with the same id, of floats; 0 without rows. Parameters as in `segment_sum`."""
    ids = _segment_ids("segment_mean", x, ids)
    counts = scatter_add(ids, full(1, ids.shape, x.dtype), segments)
    counts = reshape(maximum(counts, 1), (segments, *(1 for _ in x.shape[1:])))
    return divide(scatter_add(ids, x, segments), counts)


def segment_max(x: Value, ids: Value, segments: int) -> Value:
    """The maxima of the rows with the same id; the least number of the dtype without rows.

    Rows that are the maximum share its gradient equally. Parameters as in `segment_sum`.
    """
    return _segment_extreme("segment_max", x, ids, segments, "amax")


def segment_min(x: Value, ids: Value, segments: int) -> Value:
    """The minima of the rows with the same id; the greatest number of the dtype without rows.

    Rows that are the minimum share its gradient equally. Parameters as in `segment_sum`.
    """
    return _segment_extreme("segment_min", x, ids, segments, "amin")


def _segment_ids(name: str, x: Value, ids: Value) -> Value:
    if len(ids.shape) != 1 or ids.shape != x.shape[:1]:
        raise TypeRuleError(f"{name}: there must be one id for each row, got ids {ids.type} for {x.type}; reshape one")
    return ids


def _segment_extreme(name: str, x: Value, ids: Value, segments: int, reduce: str) -> Value:
    ids = _segment_ids(name, x, ids)
    start = full(_neutral(reduce, x.dtype), (segments, *x.shape[1:]), x.dtype)
    wide = broadcast_to(reshape(ids, (*ids.shape, *(1 for _ in x.shape[1:]))), x.shape)
    return scatter(start, wide, x, 0, reduce)


def coo_matmul(rows: Value, columns: Value, values: Value, dense: Value, size: int) -> Value:
    """A sparse matrix, given by the coordinates of its values, times a dense matrix or vector.

    Both have gradients: those of the values are inner products of rows, computed at the given coordinates only.

    Parameters
    ----------
    rows, columns : Value
        Integers ``[n]``: the coordinates of the values, in any order; values at the same place add up.
    values : Value
        ``[n]``, of the dtype of `dense`.
    dense : Value
        ``[columns of the sparse matrix, k]``, or without k.
    size : int
        The number of rows of the sparse matrix, and of the result.
    """
    if not (rows.shape == columns.shape == values.shape) or len(values.shape) != 1 or len(dense.shape) not in (1, 2):
        raise TypeRuleError(
            f"coo_matmul: rows, columns and values must be vectors of one length beside a matrix or vector, got "
            f"{rows.type}, {columns.type}, {values.type} and {dense.type}; reshape them"
        )
    picked = take(dense, columns)
    factor = values if len(dense.shape) == 1 else reshape(values, (*values.shape, 1))
    return scatter_add(rows, multiply(factor, picked), size)


def csr_matmul(starts: Value, columns: Value, values: Value, dense: Value) -> Value:
    """A sparse matrix in compressed rows (CSR) times a dense matrix or vector; both have gradients.

    Parameters
    ----------
    starts : Value
        Integers ``[rows + 1]``: where the values of each row begin, and their number at the end.
    columns, values : Value
        ``[n]``: the values row by row, of the dtype of `dense`, and their columns.
    dense : Value
        ``[columns of the sparse matrix, k]``, or without k.
    """
    if len(starts.shape) != 1 or not starts.shape[0]:
        raise TypeRuleError(
            f"csr_matmul: the starts must be a vector with one number more than there are rows, got {starts.type}"
        )
    own = iota(values.shape, 0) if values.shape else full(0, (), "i64")
    rows = add(apply(SearchSorted(True), cast(starts, "i64"), own), -1)
    return coo_matmul(rows, columns, values, dense, starts.shape[0] - 1)
