"""Functions that write at positions along an axis, or where a mask is true: reduced, filled, copied, put."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Value
from adjoint.ops.axes import axis_of
from adjoint.tensor.comparison import truth
from adjoint.tensor.gathering import checked_index, in_front
from adjoint.tensor.indexing import positions_in, put
from adjoint.tensor.promotion import promoted
from adjoint.tensor.record import operation
from adjoint.tensor.scalar_axes import accepts_scalars, as_vector

__all__ = [
    "index_copy",
    "index_fill",
    "index_put",
    "index_reduce",
    "masked_scatter",
    "scatter_reduce",
    "select_scatter",
    "slice_scatter",
]


def _require(name: str, condition: bool, rule: str, given: object, fix: str) -> None:
    if not condition:
        raise TypeRuleError(f"{name}: {rule}, got {given}; {fix}")


@operation
def _reduced(input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool) -> Value:
    _require(
        "scatter_reduce",
        src.dtype == input.dtype,
        "src must have the dtype of the tensor",
        f"{src.type} for {input.type}",
        "convert it with to()",
    )
    if input.dtype.kind == "b":
        if reduce == "mean":
            raise TypeRuleError(f"scatter_reduce: a mean takes numbers, got {input.type}; convert it with float()")
        wide = (ops.cast(x, DTYPES["u8"]) for x in (input, src))
        way = {"sum": "amax", "prod": "amin"}.get(reduce, reduce)
        return ops.cast(_reduced_numbers(next(wide), dim, index, next(wide), way, include_self), input.dtype)
    return _reduced_numbers(input, dim, index, src, reduce, include_self)


def _reduced_numbers(input: Value, dim: int, index: Value, src: Value, reduce: str, include_self: bool) -> Value:
    part = ops.slice(src, (0,) * len(src.shape), index.shape)
    stops = [n if axis == dim else m for axis, (n, m) in enumerate(zip(input.shape, index.shape, strict=True))]
    found = ops.scatter_reduce(ops.slice(input, (0,) * len(stops), stops), index, part, dim, reduce, include_self)
    return in_front(input, found)


@accepts_scalars("index", "src")
def scatter_reduce(input: Any, dim: int, index: Any, src: Any, reduce: str, *, include_self: bool = True) -> Any:
    """`input` with elements combined with all those of `src` at their positions along an axis.

    Parameters
    ----------
    input : Tensor
        Numbers.
    dim : int
        The axis.
    index : Tensor
        Integers, with as many axes as `input`, and no larger except along `dim`.
    src : Tensor
        Of the dtype of `input`, and at least as large as `index`.
    reduce : {"sum", "prod", "mean", "amax", "amin"}
        How they are combined. Elements that are the maximum or minimum share its gradient equally.
    include_self : bool, default True
        Whether the elements of `input` are among those combined; those without any of `src` stay in any case.
    """
    at, ids = checked_index("scatter_reduce", input, dim, index)
    return _reduced(input, at, ids, src, reduce, include_self)


def _along(x: Value, dim: int, index: Value, wide: Sequence[int]) -> Value:
    """A vector of positions, as the positions of whole parts along an axis."""
    return ops.broadcast_to(ops.reshape(index, [-1 if n == dim else 1 for n in range(len(x.shape))]), wide)


@operation
def _index_reduced(input: Value, dim: int, index: Value, source: Value, reduce: str, include_self: bool) -> Value:
    ids = _along(input, dim, index, source.shape)
    return ops.scatter_reduce(input, ids, source, dim, reduce, include_self)


@accepts_scalars("source")
def index_reduce(input: Any, dim: int, index: Any, source: Any, reduce: str, *, include_self: bool = True) -> Any:
    """`input` with the parts at positions along an axis combined with those of `source`; `index` is a vector.

    `reduce` is one of ``prod``, ``mean``, ``amax`` and ``amin``; other parameters as in `scatter_reduce`.
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise InvalidValueError(
            f"index_reduce: reduce must be prod, mean, amax or amin, got {reduce!r}; use index_add for sums"
        )
    at, ids = _vector("index_reduce", input, dim, index)
    return _index_reduced(input, at, ids, source, reduce, include_self)


def _vector(name: str, input: Any, dim: int, index: Any) -> tuple[int, Any]:
    """The axis, and a vector of positions along it."""
    at, index = axis_of(name, dim, len(input.shape)), as_vector(index)
    if len(index.shape) > 1 or index.dtype.kind not in "iu":
        raise TypeRuleError(f"{name}: the index must be a vector of integers, got shape {tuple(index.shape)}; ravel it")
    return at, positions_in(name, index, input.shape[at])


@operation
def _filled(input: Value, dim: int, index: Value, value: Any) -> Value:
    size = input.shape[dim]
    ids = ops.reshape(index, (index.type.size,))
    hits = ops.greater(ops.scatter_add(ids, ops.full(1, ids.shape, DTYPES["i32"]), size), 0)
    wide = ops.broadcast_to(ops.reshape(hits, [-1 if n == dim else 1 for n in range(len(input.shape))]), input.shape)
    x, new = promoted(input, value, dtype=input.dtype)
    return ops.where(wide, new, x)


@accepts_scalars()
def index_fill(input: Any, dim: int, index: Any, value: Any) -> Any:
    """`input` with the parts at positions along an axis set to a number, or to a tensor without axes."""
    at, ids = _vector("index_fill", input, dim, index)
    if getattr(value, "shape", ()):
        raise TypeRuleError(f"index_fill: the value must be a number, got shape {tuple(value.shape)}; use index_copy")
    return _filled(input, at, ids, value)


@operation
def _copied(input: Value, dim: int, index: Value, source: Value) -> Value:
    count = index.type.size
    wanted = tuple(count if n == dim else size for n, size in enumerate(input.shape))
    _require(
        "index_copy",
        source.shape == wanted and source.dtype == input.dtype,
        "the source must have one part per position, and the dtype of the tensor",
        f"{source.type} for {input.type}",
        "reshape or convert it",
    )
    return ops.scatter(input, _along(input, dim, index, wanted), source, dim)


@accepts_scalars("source")
def index_copy(input: Any, dim: int, index: Any, source: Any) -> Any:
    """`input` with the parts at positions along an axis replaced by those of `source`; `index` is a vector.

    Of several parts for one position, the last one counts.
    """
    at, ids = _vector("index_copy", input, dim, index)
    return _copied(input, at, ids, source)


def index_put(input: Any, indices: Sequence[Any], values: Any, accumulate: bool = False) -> Any:
    """`input` with the elements that ``input[indices]`` selects replaced by values, which broadcast, or increased.

    Parameters
    ----------
    input : Tensor
        Any tensor.
    indices : sequence of Tensor or None
        Positions along the first axes, which broadcast, or masks; None takes a whole axis.
    values : Tensor
        Of the dtype of `input`.
    accumulate : bool, default False
        Add the values, all of them where positions repeat; otherwise the last one counts.
    """
    return put(input, tuple(slice(None) if one is None else one for one in indices), values, accumulate)


@operation
def masked_scatter(input: Value, mask: Value, source: Value) -> Value:
    """`input` with the elements where a mask is true replaced by those of `source`, one after another.

    `source` has at least as many elements as the mask is true, which is not checked: what it lacks is its last element.
    """
    shape = np.broadcast_shapes(input.shape, mask.shape)
    on = ops.broadcast_to(truth(mask), shape)
    x, flat = ops.broadcast_to(input, shape), ops.reshape(source, (source.type.size,))
    _require(
        "masked_scatter",
        source.dtype == input.dtype and bool(source.type.size),
        "the source must have elements, of the dtype of the tensor",
        f"{source.type} for {input.type}",
        "convert it with to()",
    )
    if not x.type.size:
        return x
    # The number of true elements up to each one, counted by rank: false ones are sorted behind true ones.
    order = ops.argsort(ops.reshape(on, (x.type.size,)), 0, True)
    rank = ops.scatter(ops.full(0, order.shape, DTYPES["i64"]), order, ops.iota(order.shape, 0))
    return ops.where(on, ops.take(flat, ops.reshape(rank, shape)), x)


@operation
def slice_scatter(
    input: Value, src: Value, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Value:
    """`input` with the slice ``start:end:step`` along an axis replaced by `src`."""
    at = axis_of("slice_scatter", dim, len(input.shape))
    places = range(input.shape[at])[slice(start, end, step)]
    wanted = tuple(len(places) if n == at else size for n, size in enumerate(input.shape))
    _require(
        "slice_scatter",
        src.shape == wanted and src.dtype == input.dtype,
        "src must have the type of the slice",
        f"{src.type} for {wanted} of {input.type}",
        "reshape or convert it",
    )
    if not len(places):
        return input
    ids = ops.constant(np.array(places, np.int64), DTYPES["i64"])
    return ops.scatter(input, _along(input, at, ids, wanted), src, at)


@operation
def select_scatter(input: Value, src: Value, dim: int, index: int) -> Value:
    """`input` with the part at one position along an axis replaced by `src`, which lacks the axis."""
    at = axis_of("select_scatter", dim, len(input.shape))
    size = input.shape[at]
    if not -size <= index < size:
        raise InvalidValueError(
            f"select_scatter: the index must be from {-size} to {size - 1} on axis {dim}, got {index}; correct it"
        )
    chosen = ops.equal(ops.iota(input.shape, at), index % size)
    return ops.where(chosen, ops.broadcast_to(ops.expand_dims(ops.cast(src, input.dtype), at), input.shape), input)
