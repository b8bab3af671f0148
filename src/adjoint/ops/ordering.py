"""Functions that sort along an axis, or select by rank: sort, top k, median, quantiles, binary search.

Positions come from `ArgSort`, and elements are gathered there, so that the gradient of an element returns to where it
came from. NaN is greater than any number, and equal elements stay in their order.
"""

from collections.abc import Callable

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, floor_divide, multiply, subtract
from adjoint.ops.axes import axis_of
from adjoint.ops.build import full_like
from adjoint.ops.convert import cast, stop_gradient
from adjoint.ops.create import full
from adjoint.ops.gathering import last_axis, restored_axis
from adjoint.ops.logic import equal, not_equal, where
from adjoint.ops.piecewise import floor, maximum, minimum
from adjoint.ops.reduce import argmax, max, sum
from adjoint.ops.rules import require_float
from adjoint.ops.scattering import Gather
from adjoint.ops.shape import broadcast_to, expand_dims, permute, reshape, slice_axis, squeeze
from adjoint.ops.sorting import ArgSort, SearchSorted

__all__ = [
    "argsort",
    "kthvalue",
    "median",
    "mode",
    "nanmedian",
    "nanquantile",
    "quantile",
    "searchsorted",
    "sort",
    "topk",
]

#: How `quantile` chooses between the two elements next to a rank.
INTERPOLATIONS = ("linear", "lower", "higher", "midpoint", "nearest")


def argsort(x: Value, axis: int = -1, descending: bool = False) -> Value:
    """The i64 positions along an axis of the elements in ascending or descending order; a stable sort.

    NaN is greater than any number.

    Parameters
    ----------
    x : Value
        Any tensor; a scalar has position 0.
    axis : int, default -1
        The axis.
    descending : bool, default False
        The greatest element first.
    """
    if not x.shape:
        axis_of("argsort", axis, 1)
        return full(0, (), "i64")
    at = axis_of("argsort", axis, len(x.shape))
    return restored_axis(apply(ArgSort(descending), last_axis(x, at)), at)


def sort(x: Value, axis: int = -1, descending: bool = False) -> tuple[Value, Value]:
    """The elements along an axis in ascending or descending order, and their positions; parameters as in `argsort`."""
    return _first(x, axis, descending, None)


def _first(x: Value, axis: int, descending: bool, count: int | None) -> tuple[Value, Value]:
    """The first elements in the order of a sort, and their positions; all of them by default."""
    if not x.shape:
        return x, argsort(x, axis)
    at = axis_of("sort", axis, len(x.shape))
    rows = last_axis(x, at)
    places = apply(ArgSort(descending), rows)
    if count is not None and count != rows.shape[-1]:
        places = slice_axis(places, -1, 0, count)
    return restored_axis(apply(Gather(), rows, places), at), restored_axis(places, at)


def topk(x: Value, k: int, axis: int = -1, largest: bool = True) -> tuple[Value, Value]:
    """The k largest or smallest elements along an axis, in order, and their positions.

    Of equal elements, the first ones are chosen; NaN is greater than any number.

    Parameters
    ----------
    x : Value
        Any tensor.
    k : int
        How many, at most the size of the axis.
    axis : int, default -1
        The axis.
    largest : bool, default True
        The largest ones, in descending order; otherwise the smallest, in ascending order.
    """
    size = x.shape[axis_of("topk", axis, len(x.shape))] if x.shape else 1
    if not 0 <= k <= size:
        raise InvalidValueError(f"topk: k must be from 0 to {size}, the size of axis {axis}, got {k}; choose fewer")
    return _first(x, axis, largest, k if x.shape else None)


def kthvalue(x: Value, k: int, axis: int = -1, keepdims: bool = False) -> tuple[Value, Value]:
    """The element that is the kth smallest along an axis, counted from 1, and its position.

    Of equal elements, the first ones come first; NaN is greater than any number.
    """
    size = x.shape[axis_of("kthvalue", axis, len(x.shape))] if x.shape else 1
    if not 1 <= k <= size:
        raise InvalidValueError(f"kthvalue: k must be from 1 to {size}, the size of axis {axis}, got {k}; correct it")
    return _picked(x, axis, keepdims, lambda _, places: slice_axis(places, -1, k - 1, k))


def _picked(x: Value, axis: int, keepdims: bool, choose: Callable[[Value, Value], Value]) -> tuple[Value, Value]:
    """The element of each row at the position that `choose` makes of the rows and their sorted positions."""
    if not x.shape:
        return x, argsort(x, axis)
    at = axis_of("sort", axis, len(x.shape))
    rows = last_axis(x, at)
    if not rows.shape[-1]:
        raise TypeRuleError(f"an axis must not be empty to select an element, got axis {axis} of {x.type}")
    place = choose(rows, apply(ArgSort(), rows))
    made = apply(Gather(), rows, place), place
    back = tuple(restored_axis(one, at) for one in made)
    return (back[0], back[1]) if keepdims else (squeeze(back[0], at), squeeze(back[1], at))


def _is_nan(x: Value) -> Value:
    return not_equal(x, x)


def median(x: Value, axis: int = -1, keepdims: bool = False) -> tuple[Value, Value]:
    """The median along an axis, and its position; of an even number of elements the lower one, as in PyTorch.

    It is NaN, and the position that of the first one, if an element is. Of equal elements, a position in the order of
    a stable sort is chosen, to which the gradient goes.
    """

    def choose(rows: Value, places: Value) -> Value:
        middle = (rows.shape[-1] - 1) // 2
        found = slice_axis(places, -1, middle, middle + 1)
        if not is_float(rows.dtype):
            return found
        nan = cast(_is_nan(rows), "i64")
        return where(expand_dims(equal(max(nan, -1), 1), -1), argmax(nan, -1, True), found)

    return _picked(x, axis, keepdims, choose)


def nanmedian(x: Value, axis: int = -1, keepdims: bool = False) -> tuple[Value, Value]:
    """The median along an axis of the elements that are not NaN, and its position; NaN if all are. See `median`."""

    def choose(rows: Value, places: Value) -> Value:
        numbers = _numbers(rows)
        return apply(Gather(), places, expand_dims(maximum(floor_divide(add(numbers, -1), 2), 0), -1))

    return _picked(x, axis, keepdims, choose)


def _numbers(rows: Value) -> Value:
    """How many elements of each row are not NaN."""
    if not is_float(rows.dtype):
        return full(rows.shape[-1], rows.shape[:-1], "i64")
    return sum(cast(equal(rows, rows), "i64"), -1)


def mode(x: Value, axis: int = -1, keepdims: bool = False) -> tuple[Value, Value]:
    """The most frequent element along an axis, the smallest if there are several, and its last position."""

    def choose(rows: Value, places: Value) -> Value:
        ordered = stop_gradient(apply(Gather(), rows, places))
        ends = apply(SearchSorted(True), ordered, ordered)
        counts = subtract(ends, apply(SearchSorted(), ordered, ordered))
        last = add(apply(Gather(), ends, argmax(counts, -1, True)), -1)
        return apply(Gather(), places, maximum(last, 0))

    if x.dtype.kind == "b":
        values, position = mode(cast(x, "u8"), axis, keepdims)
        return cast(values, "bool"), position
    return _picked(x, axis, keepdims, choose)


def quantile(
    x: Value, q: Value, axis: int | None = None, keepdims: bool = False, interpolation: str = "linear"
) -> Value:
    """Quantiles along an axis: the elements at rank ``q * (n - 1)`` in ascending order, interpolated.

    A row with a NaN has NaN quantiles.

    Parameters
    ----------
    x : Value
        Float.
    q : Value
        From 0 to 1, of the dtype of `x`: a scalar, or a row, whose axis then is the first one of the result.
    axis : int, optional
        The axis; default: all elements.
    keepdims : bool, default False
        Keep the axis, with size 1.
    interpolation : {"linear", "lower", "higher", "midpoint", "nearest"}, default "linear"
        What is made of the two elements next to the rank; ``nearest`` rounds ranks halfway to the even one.
    """
    return _quantile("quantile", x, q, axis, keepdims, interpolation)


def nanquantile(
    x: Value, q: Value, axis: int | None = None, keepdims: bool = False, interpolation: str = "linear"
) -> Value:
    """Quantiles along an axis of the elements that are not NaN; NaN if all are. See `quantile`."""
    return _quantile("nanquantile", x, q, axis, keepdims, interpolation)


def _quantile(name: str, x: Value, q: Value, axis: int | None, keepdims: bool, interpolation: str) -> Value:
    require_float(name, x)
    if interpolation not in INTERPOLATIONS:
        raise InvalidValueError(f"{name}: interpolation must be {', '.join(INTERPOLATIONS)}, got {interpolation!r}")
    if len(q.shape) > 1 or q.dtype != x.dtype:
        raise TypeRuleError(
            f"{name}: q must be a scalar or a row of the dtype of the tensor, got {q.type} for {x.type}"
        )
    rank = len(x.shape)
    if axis is None:
        rows = reshape(x, (x.type.size,))
    else:
        rows = last_axis(x, axis_of(name, axis, rank)) if rank else reshape(x, (1,))
    size = rows.shape[-1]
    if not size:
        raise TypeRuleError(f"{name}: the tensor must not be empty, got {x.type}; pass at least one element")
    places = apply(ArgSort(), rows)
    ordered, lead, many = apply(Gather(), rows, places), rows.shape[:-1], q.shape or (1,)
    each = (*lead, *many)
    fractions = broadcast_to(reshape(q, many), each)
    if name == "quantile":
        nan = stop_gradient(expand_dims(max(cast(_is_nan(rows), x.dtype), -1), -1))
        ranks = where(equal(broadcast_to(nan, each), 1.0), float(size - 1), multiply(fractions, float(size - 1)))
    else:
        numbers = cast(maximum(add(_numbers(rows), -1), 0), x.dtype)
        ranks = multiply(fractions, broadcast_to(expand_dims(numbers, -1), each))
    found = _at_ranks(ordered, ranks, size, interpolation)
    return _with_axes(permute(found, [len(lead), *range(len(lead))]), x, q, axis, keepdims)


def _at_ranks(ordered: Value, ranks: Value, size: int, interpolation: str) -> Value:
    """Elements of sorted rows at ranks that may lie between two."""
    below = floor(ranks)
    weight = subtract(ranks, stop_gradient(below))

    def element(rank: Value) -> Value:
        return apply(Gather(), ordered, minimum(cast(stop_gradient(rank), "i64"), size - 1))

    above = where(equal(weight, 0.0), below, add(below, 1.0))
    if interpolation == "lower":
        return element(below)
    if interpolation == "higher":
        return element(above)
    if interpolation == "nearest":
        odd = subtract(below, multiply(floor(multiply(below, 0.5)), 2.0))
        up = where(equal(weight, 0.5), odd, cast(weight > 0.5, weight.dtype))
        return element(add(below, up))
    share = full_like(weight, 0.5) if interpolation == "midpoint" else weight
    low, high = element(below), element(above)
    # Where the rank is whole, both are the same element; infinities have no difference.
    return where(equal(low, high), low, add(low, multiply(subtract(high, low), share)))


def _with_axes(found: Value, x: Value, q: Value, axis: int | None, keepdims: bool) -> Value:
    """A result whose first axis is that of the quantiles, with the axes that the caller wants."""
    rank = len(x.shape)
    if keepdims:
        at = None if axis is None or not rank else axis_of("quantile", axis, rank)
        kept = (1,) * rank if at is None else tuple(1 if n == at else size for n, size in enumerate(x.shape))
        found = reshape(found, (found.shape[0], *kept))
    return found if q.shape else squeeze(found, 0)


def searchsorted(rows: Value, values: Value, right: bool = False) -> Value:
    """Where values belong in ascending rows: the i64 number of elements that are smaller, by binary search.

    Parameters
    ----------
    rows : Value
        Numbers: one row ``[n]`` for all values, or rows ``[..., n]`` for values ``[..., m]``.
    values : Value
        Numbers of the same dtype. A NaN belongs behind all elements.
    right : bool, default False
        Count equal elements too.
    """
    return apply(SearchSorted(right), rows, values)
