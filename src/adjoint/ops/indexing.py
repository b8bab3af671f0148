"""Indexing as NumPy writes it: ``x[:, 1:]``, ``x[..., 0]``, ``x[:, None]``, ``x[::-1]``, ``x[ids]``."""

import builtins
from collections.abc import Sequence
from dataclasses import field
from operator import index as as_integer
from typing import Any

import numpy as np

from adjoint.errors import IndexRangeError, TypeRuleError
from adjoint.ir.types import TensorType, is_integer
from adjoint.ir.value import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.create import constant
from adjoint.ops.index import take
from adjoint.ops.slicing import slice
from adjoint.ops.views import flip, permute, reshape

__all__ = ["getitem"]

#: The fix for everything that is no index.
_ALLOWED = "use integers, slices, ..., None, or one integer tensor or array"


def getitem(x: Value, key: Any) -> Value:
    """``x[key]`` with NumPy's meaning.

    Parameters
    ----------
    x : Value
        Any tensor.
    key : int, slice, Ellipsis, None, integer Value, integer array, list of int, or a tuple of these
        An int removes an axis, a slice keeps it, None inserts an axis of size 1, and ``...`` stands for as many ``:``
        as are missing. Negative numbers count from the end, and slices may have any step but 0 and are clipped to the
        axis. A tensor or array of integers selects along its axis, which is replaced by the axes of the indices, like
        `take`; there may be one, and no int beside it. The elements of an array may be negative and are checked here;
        those of a graph value are row numbers, 0 to the size minus 1.

    Returns
    -------
    Value
        A value that is computed from `x`, or `x` itself if the key selects all of it.

    Raises
    ------
    IndexRangeError
        If an integer is out of range.
    TypeRuleError
        If there are more indices than axes, or something is not an index, such as a bool mask: the shape of its result
        would depend on data.
    """
    if not isinstance(x.type, TensorType):
        raise TypeRuleError(f"indexing: only a tensor has elements, got {x.type}; extract one with tuple_get")
    plan = _planned(x, [_normal(x, item) for item in (key if isinstance(key, tuple) else (key,))])
    part = slice(x, plan.start, plan.stop, plan.step)
    part = reshape(flip(part, plan.reversed) if plan.reversed else part, plan.shape)
    return part if plan.ids is None else _taken(part, x, plan)


@dataclass
class _Plan:
    """What to slice of each axis, which axes to reverse, and the shape after that, before `ids` select along an axis.

    `place` is the position in `shape` of the axis that they index, and `axis` its position in the operand.
    """

    start: list[int] = field(default_factory=list)
    stop: list[int] = field(default_factory=list)
    step: list[int] = field(default_factory=list)
    reversed: list[int] = field(default_factory=list)
    shape: list[int] = field(default_factory=list)
    ids: Value | np.ndarray | None = None
    place: int = 0
    axis: int = 0


def _planned(x: Value, items: list[Any]) -> _Plan:
    plan = _Plan()
    for item in _expanded(x, items):
        if item is None:
            plan.shape.append(1)
            continue
        axis = len(plan.start)
        size = x.shape[axis]
        start, stop, step = 0, size, 1
        if isinstance(item, builtins.slice):
            start, stop, step, backwards = _bounds(x, item, size)
            plan.shape.append(len(range(start, stop, step)))
            if backwards:
                plan.reversed.append(axis)
        elif isinstance(item, int):
            start = _position(x, item, axis)
            stop = start + 1
        else:
            plan.ids, plan.place, plan.axis = item, len(plan.shape), axis
            plan.shape.append(size)
        plan.start.append(start)
        plan.stop.append(stop)
        plan.step.append(step)
    return plan


def _normal(x: Value, item: Any) -> Any:
    """One part of a key: an int, slice, Ellipsis, None, graph value or integer array; raises for anything else."""
    if item is None or item is Ellipsis or isinstance(item, builtins.slice | Value):
        if isinstance(item, Value) and getattr(item.type, "dtype", None) == np.bool_:
            raise TypeRuleError(
                f"indexing: a mask is not an index, because the number of elements would depend on data, got "
                f"{item.type} for {x.type}; select with ops.where"
            )
        return item
    if isinstance(item, list | np.ndarray) and np.ndim(item):
        array = np.asarray(item)
        if not is_integer(array.dtype):
            raise TypeRuleError(
                f"indexing: an array of indices must have an integer dtype, got {array.dtype} for {x.type}; {_ALLOWED}"
            )
        return array
    if not isinstance(item, bool | np.bool_):
        try:
            return as_integer(item)
        except TypeError:
            pass
    raise TypeRuleError(f"indexing: {item!r} is not an index, got it for {x.type}; {_ALLOWED}")


def _expanded(x: Value, items: list[Any]) -> list[Any]:
    """The items with ``...``, at the end if there is none, replaced by slices; raises if there are too many."""
    gaps = [n for n, item in enumerate(items) if item is Ellipsis]
    used = sum(item is not None and item is not Ellipsis for item in items)
    rank = len(x.shape)
    if len(gaps) > 1:
        raise TypeRuleError(f"indexing: an index may contain one ..., got {len(gaps)} for {x.type}; remove the others")
    if used > rank:
        raise TypeRuleError(f"indexing: there must be at most one index per axis, got {used} for {x.type}; remove some")
    selecting = sum(isinstance(item, Value | np.ndarray) for item in items)
    if selecting > 1 or (selecting and any(isinstance(item, int) for item in items)):
        raise TypeRuleError(
            f"indexing: a tensor of indices must be the only index besides slices, got another for {x.type}; index in "
            "two steps, or use take_along_last"
        )
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *[builtins.slice(None)] * (rank - used), *items[at + 1 :]]


def _position(x: Value, item: int, axis: int) -> int:
    size = x.shape[axis]
    if not -size <= item < size:
        allowed = f"use {-size} to {size - 1}" if size else "the axis is empty, use a slice"
        raise IndexRangeError(f"indexing: index {item} is out of range for axis {axis} of {x.type}; {allowed}")
    return item % size


def _bounds(x: Value, item: builtins.slice, size: int) -> tuple[int, int, int, bool]:
    """Start, stop and positive step of the selected elements, and whether they are in reverse order."""
    text = ":".join("" if part is None else str(part) for part in (item.start, item.stop, item.step))
    try:
        start, stop, step = item.indices(size)
    except TypeError:
        raise TypeRuleError(
            f"indexing: a slice takes integers, because shapes are static, got {text} for {x.type}; select elements "
            "that depend on data with take"
        ) from None
    except ValueError:
        raise TypeRuleError(f"indexing: the step of a slice must not be 0, got {text} for {x.type}; use 1") from None
    count = len(range(start, stop, step))
    if not count:
        return (0, 0, 1, False)
    last = start + (count - 1) * step
    return (min(start, last), max(start, last) + 1, abs(step), step < 0)


def _taken(part: Value, x: Value, plan: _Plan) -> Value:
    """The elements of `part`, of the planned shape, that the indices select."""
    ids, place, size = plan.ids, plan.place, x.shape[plan.axis]
    if not isinstance(ids, Value):
        given = np.asarray(ids)
        if given.size and not -size <= given.min() <= given.max() < size:
            raise IndexRangeError(
                f"indexing: indices must be from {-size} to {size - 1} on axis {plan.axis} of {x.type}, got "
                f"{given.min()} to {given.max()}; correct them"
            )
        ids = constant(given.astype(np.int64) % max(size, 1))
    rank, new = len(part.shape), len(ids.shape)
    found = take(permute(part, _moved(range(rank), place, 1, 0)), ids)
    return permute(found, _moved(range(rank - 1 + new), 0, new, place))


def _moved(axes: Sequence[int], start: int, count: int, to: int) -> list[int]:
    """`axes` with the `count` ones from `start` moved so that `to` others precede them."""
    kept = [*axes[:start], *axes[start + count :]]
    return [*kept[:to], *axes[start : start + count], *kept[to:]]
