"""``x[key]`` and ``x[key] = value``, and the functions that select and write by position.

A key is split into the part that selects a view (numbers, slices, None, ...) and tensors of positions, which select
along the axes that are left. A mask that is read has a number of elements that depends on data, so its positions are
read first. A mask that is written to needs no positions: it chooses between the old and the new elements.
"""

from collections.abc import Sequence
from functools import lru_cache
from operator import index as as_integer
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import IndexRangeError, InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import DTYPES, Value, is_integer
from adjoint.tensor.aliases import viewed
from adjoint.tensor.making import from_array
from adjoint.tensor.record import entry_of, operation, record_in_place
from adjoint.tensor.shapes import common_shape, reshape
from adjoint.tensor.trace import Recorded, state
from adjoint.tensor.views import SELECT

__all__ = ["copy_", "getitem", "nonzero", "positions_in", "put", "setitem"]

_BOOL, _I64 = np.dtype(np.bool_), DTYPES["i64"]
_ALLOWED = "use integers, slices, ..., None, integer tensors, or bool tensors"


def getitem(x: Any, key: Any) -> Any:
    """``x[key]`` with PyTorch's meaning."""
    plain = _plain(key)
    if plain is not None:
        plan = _planned(x.shape, plain)
        if plan is not None:
            view = viewed(SELECT, x, plan[0])
            return view if plan[1] is None else reshape(view, plan[1])
    part, axes, indices = _split(x, key)
    if not indices:
        return part
    if len(indices) == 1 and isinstance(indices[0], _Mask):
        axes, indices = axes, list(indices[0].positions())
        axes = tuple(range(axes[0], axes[0] + len(indices)))
    elif any(isinstance(one, _Mask) for one in indices):
        axes, indices = _without_masks(axes, indices)
    prepared = [positions_in("indexing", one, part.shape[axis]) for one, axis in zip(indices, axes, strict=True)]
    return _taken(part, axes, *prepared)


def setitem(x: Any, key: Any, value: Any) -> None:
    """``x[key] = value`` with PyTorch's meaning; views of `x`, and what it is a view of, change too."""
    if isinstance(value, np.generic):
        value = value.item()
    elif isinstance(value, np.ndarray):
        value = from_array(value)
    part, axes, indices = _split(x, key, always_view=True)
    if not indices:
        record_in_place(_COPY, part, value)
        return
    if len(indices) == 1 and isinstance(indices[0], _Mask):
        mask = indices[0].mask
        if _fits_rows(value, part.shape[axes[0] + len(mask.shape) :]):
            record_in_place(_MASKED, part, mask, value, axes[0])
            return
    axes, indices = _without_masks(axes, indices)
    prepared = [positions_in("indexing", one, part.shape[axis]) for one, axis in zip(indices, axes, strict=True)]
    record_in_place(_PUT, part, value, axes, *prepared)


def put(x: Any, key: Any, value: Any, accumulate: bool = False) -> Any:
    """`x` with ``x[key] = value``, or with ``+=`` where positions may repeat, as a new tensor."""
    part, axes, indices = _split(x, key, always_view=True)
    axes, indices = _without_masks(axes, indices)
    if not indices:
        raise InvalidValueError("index_put: at least one tensor of positions is required, got none; pass one")
    prepared = [positions_in("index_put", one, part.shape[axis]) for one, axis in zip(indices, axes, strict=True)]
    return _written(part, value, axes, *prepared, accumulate=accumulate)


def _fits_rows(value: Any, shape: Sequence[int]) -> bool:
    """Whether a value is the same for all elements of a mask: it broadcasts to what one of them selects."""
    given = getattr(value, "shape", ())
    return len(given) <= len(shape) and all(
        a in (1, b) for a, b in zip(given, shape[len(shape) - len(given) :], strict=True)
    )


def _plain(key: Any) -> tuple[Any, ...] | None:
    """A key of numbers, slices of numbers, None and ``...`` as a tuple that can be hashed; None for others."""
    plain = []
    for item in key if key.__class__ is tuple else (key,):
        if item.__class__ is slice:
            item = (item.start, item.stop, item.step)
            for bound in item:
                if bound is not None and bound.__class__ is not int:
                    return None
        elif item.__class__ is not int and item is not None and item is not Ellipsis:
            return None
        plain.append(item)
    return tuple(plain)


@lru_cache(4096)
def _planned(shape: tuple[int, ...], plain: tuple[Any, ...]) -> tuple[Any, tuple[int, ...] | None] | None:
    """The parts that a plain key selects, and the shape with new axes if there are any; None if there is an error."""
    used = sum(item is not None and item is not Ellipsis for item in plain)
    at = plain.index(Ellipsis) if Ellipsis in plain else len(plain)
    if used > len(shape) or plain.count(Ellipsis) > 1:
        return None
    whole = [(None, None, None)] * (len(shape) - used)
    parts: list[Any] = []
    sizes: list[int] = []
    for item in (*plain[:at], *whole, *plain[at + 1 :]):
        if item is None:
            sizes.append(1)
            continue
        size = shape[len(parts)]
        if isinstance(item, int):
            if not -size <= item < size:
                return None
            parts.append(item % size)
            continue
        if item[2] is not None and item[2] <= 0:
            return None
        start, stop, step = slice(*item).indices(size)
        parts.append((start, stop, step) if start < stop else (0, 0, 1))
        sizes.append(len(range(*parts[-1])))
    return tuple(parts), tuple(sizes) if None in plain else None


class _Mask:
    """A bool tensor among the indices; it stands for as many axes as it has."""

    def __init__(self, mask: Any) -> None:
        self.mask = mask

    def positions(self) -> tuple[Any, ...]:
        """The positions of the true elements, one tensor per axis: reads the mask."""
        return nonzero(self.mask)


def _without_masks(axes: Sequence[int], indices: Sequence[Any]) -> tuple[tuple[int, ...], list[Any]]:
    """Masks replaced by their positions."""
    places: list[int] = []
    found: list[Any] = []
    for axis, index in zip(axes, indices, strict=True):
        new = index.positions() if isinstance(index, _Mask) else (index,)
        places += range(axis, axis + len(new))
        found += new
    return tuple(places), found


def nonzero(x: Any) -> tuple[Any, ...]:
    """The positions of the elements that are not zero, one i64 tensor per axis: reads the tensor."""
    if isinstance(x, Recorded) and x._storage is None and state.trace.outer is not None:
        raise TypeRuleError(
            f"a mask selects a number of elements that depends on data, which a traced function cannot have, got "
            f"{x._spec.type}; use where(mask, x, other)"
        )
    elements = np.asarray(x.elements().array)
    return tuple(from_array(one) for one in np.nonzero(np.atleast_1d(elements)))


def _split(x: Any, key: Any, always_view: bool = False) -> tuple[Any, tuple[int, ...], list[Any]]:
    """The view that the key selects, and the axes of it to which tensors of positions apply."""
    items = [_normal(x, item) for item in (key if isinstance(key, tuple) else (key,))]
    items = _expanded(x, items)
    parts: list[Any] = []
    shape: list[int] = []
    axes: list[int] = []
    indices: list[Any] = []
    axis = 0
    for item in items:
        if item is None:
            shape.append(1)
            continue
        count = len(item.mask.shape) if isinstance(item, _Mask) else 1
        size = x.shape[axis] if count else 1
        if isinstance(item, int):
            if not -size <= item < size:
                raise IndexRangeError(
                    f"indexing: index {item} is out of range for axis {axis} of {_type(x)}; use {-size} to {size - 1}"
                )
            parts.append(item % size)
        elif isinstance(item, slice):
            start, stop, step = _bounds(x, item, size)
            parts.append((start, stop, step))
            shape.append(len(range(start, stop, step)))
        else:
            if isinstance(item, _Mask):
                _require_mask_fits(x, item.mask, axis)
            axes.append(len(shape))
            indices.append(item)
            parts += [(0, n, 1) for n in x.shape[axis : axis + count]]
            shape += x.shape[axis : axis + count]
        axis += count
    whole = all(isinstance(part, tuple) and part == (0, n, 1) for part, n in zip(parts, x.shape, strict=True))
    view = x if whole and (indices or always_view) else viewed(SELECT, x, tuple(parts))
    return reshape(view, shape) if tuple(shape) != tuple(view.shape) else view, tuple(axes), indices


def _type(x: Any) -> Any:
    return x._spec.type if isinstance(x, Recorded) else x.type


def _normal(x: Any, item: Any) -> Any:
    """One part of a key: an int, slice, None, ``...``, `_Mask` or tensor of integers."""
    if item is None or item is Ellipsis or isinstance(item, slice):
        return item
    if isinstance(item, bool | np.bool_):
        raise TypeRuleError(
            f"indexing: a single bool is not an index, got {item} for {_type(x)}; use None for a new axis"
        )
    if isinstance(item, int | np.integer):
        return int(item)
    if isinstance(item, range):
        item = list(item)
    if isinstance(item, list | np.ndarray):
        array = np.asarray(item) if len(item) or isinstance(item, np.ndarray) else np.zeros(0, np.int64)
        if array.dtype == object:
            raise TypeRuleError(f"indexing: a list must contain numbers, got {item!r} for {_type(x)}; {_ALLOWED}")
        item = from_array(array) if isinstance(x, Recorded) else ops.constant(array)
    if not is_operand(item):
        raise TypeRuleError(f"indexing: {kind_of(item)} is not an index, got it for {_type(x)}; {_ALLOWED}")
    dtype = _type(item).dtype
    if dtype == _BOOL and not item.shape:
        raise TypeRuleError(
            f"indexing: a mask must have at least one axis, got {_type(item)} for {_type(x)}; use where(mask, x, other)"
        )
    if dtype == _BOOL:
        return _Mask(item)
    if not is_integer(dtype):
        raise TypeRuleError(
            f"indexing: a tensor of positions must have an integer dtype, got {_type(item)} for {_type(x)}; {_ALLOWED}"
        )
    return item


def is_operand(item: object) -> bool:
    """Whether an argument is a tensor or a graph value."""
    return isinstance(item, Recorded | Value)


def _expanded(x: Any, items: list[Any]) -> list[Any]:
    """The items with ``...``, at the end if there is none, replaced by slices."""
    gaps = [n for n, item in enumerate(items) if item is Ellipsis]
    used = sum(
        len(item.mask.shape) if isinstance(item, _Mask) else item is not None and item is not Ellipsis for item in items
    )
    rank = len(x.shape)
    if len(gaps) > 1:
        raise TypeRuleError(f"indexing: a key may contain one ..., got {len(gaps)} for {_type(x)}; remove the others")
    if used > rank:
        raise TypeRuleError(
            f"indexing: there must be at most one index per axis, got {used} for {_type(x)}; remove some"
        )
    at = gaps[0] if gaps else len(items)
    return [*items[:at], *[slice(None)] * (rank - used), *items[at + 1 :]]


def _bounds(x: Any, item: slice, size: int) -> tuple[int, int, int]:
    parts = [_whole(part) for part in (item.start, item.stop, item.step)]
    if parts[2] is not None and parts[2] <= 0:
        raise InvalidValueError(
            f"indexing: the step of a slice must be positive, got {parts[2]} for {_type(x)}; use flip"
        )
    start, stop, step = slice(*parts).indices(size)
    return (start, max(start, stop), step) if start < stop else (0, 0, 1)


def _whole(part: Any) -> int | None:
    """A bound of a slice; the element of a tensor is read."""
    return None if part is None else as_integer(part)


def _require_mask_fits(x: Any, mask: Any, axis: int) -> None:
    covered = tuple(x.shape[axis : axis + len(mask.shape)])
    if tuple(mask.shape) != covered:
        raise TypeRuleError(
            f"indexing: a mask must have the shape of the axes that it selects from, got {_type(mask)} at axis {axis} "
            f"of {_type(x)}; reshape one of them"
        )


def positions_in(name: str, index: Any, size: int) -> Any:
    """Positions along an axis, as numbers from 0: negative ones count from the end.

    Elements that are there are checked. Computed ones are not: those out of range select the first or last element.
    """
    if isinstance(index, Recorded) and index._storage is not None:
        array = index._storage.array
        if not array.size:
            return index
        low, high = int(array.min()), int(array.max())
        if low < -size or high >= size:
            wrong = low if low < -size else high
            raise IndexRangeError(f"{name}: positions must be from {-size} to {size - 1}, got {wrong}; correct them")
        return from_array(array % size) if low < 0 else index
    return _wrapped(index, size) if index.dtype.kind == "i" else index


@operation
def _wrapped(index: Value, size: int) -> Value:
    return ops.where(ops.less(index, 0), ops.add(index, size), index)


@operation
def _taken(x: Value, axes: Sequence[int], *indices: Value) -> Value:
    """Elements at positions along some axes, which the axes of the positions replace."""
    rank, count = len(x.shape), len(axes)
    shape = common_shape("indexing", [one.shape for one in indices])
    rest = [n for n in range(rank) if n not in axes]
    flat = _flattened(x, axes, rest)
    found = ops.take(flat, _flat_positions(x, axes, indices, shape))
    # The new axes come first; they belong where the old ones were if these were next to each other.
    at = axes[0] if list(axes) == list(range(axes[0], axes[0] + count)) else 0
    new = len(shape)
    order = [*range(new, new + at), *range(new), *range(new + at, len(found.shape))]
    return ops.permute(found, order)


def _flattened(x: Value, axes: Sequence[int], rest: Sequence[int]) -> Value:
    """`x` with the indexed axes first, and merged."""
    first = ops.permute(x, [*axes, *rest])
    return ops.reshape(first, (int(np.prod([x.shape[n] for n in axes])), *(x.shape[n] for n in rest)))


def _flat_positions(x: Value, axes: Sequence[int], indices: Sequence[Value], shape: Sequence[int]) -> Value:
    if len(indices) == 1:
        return indices[0]
    flat = None
    for axis, index in zip(axes, indices, strict=True):
        one = ops.broadcast_to(ops.cast(index, _I64), shape)
        flat = one if flat is None else ops.add(ops.multiply(flat, x.shape[axis]), one)
    return flat  # type: ignore[return-value]


@operation
def _written(x: Value, value: Any, axes: Sequence[int], *indices: Value, accumulate: bool = False) -> Value:
    """`x` with elements at positions replaced, or increased; of several values for one element the last one counts."""
    rest = [n for n in range(len(x.shape)) if n not in axes]
    shape = common_shape("indexing", [one.shape for one in indices])
    flat = _flattened(x, axes, rest)
    ids = ops.reshape(_flat_positions(x, axes, indices, shape), (-1,)) if 0 not in shape else None
    if ids is None:
        return x
    count, at = len(shape), axes[0] if list(axes) == list(range(axes[0], axes[0] + len(axes))) else 0
    kept = [x.shape[n] for n in rest]
    target = [*kept[:at], *shape, *kept[at:]]
    given = value if isinstance(value, Value) else ops.full(value, (), _dtype_for(x, value))
    wide = ops.broadcast_to(ops.cast(_trimmed(given, target), x.dtype), target)
    rows = ops.permute(wide, [*range(at, at + count), *range(at), *range(at + count, len(target))])
    rows = ops.reshape(rows, (ids.shape[0], *kept))
    new = add_rows(flat, ids, rows) if accumulate else put_rows(flat, ids, rows)
    order = [*axes, *rest]
    back = ops.reshape(new, [x.shape[n] for n in order])
    return ops.permute(back, [order.index(n) for n in range(len(order))])


def _trimmed(x: Value, shape: Sequence[int]) -> Value:
    """Without leading axes of size 1 that the target does not have."""
    extra = len(x.shape) - len(shape)
    return ops.reshape(x, x.shape[extra:]) if extra > 0 and set(x.shape[:extra]) == {1} else x


def _dtype_for(x: Value, number: Any) -> Any:
    """The dtype in which a number is written to a tensor, before it is cast to the tensor's."""
    if isinstance(number, bool):
        return _BOOL
    return _I64 if isinstance(number, int) else DTYPES["f64"] if x.dtype == DTYPES["f64"] else DTYPES["f32"]


def add_rows(x: Value, ids: Value, rows: Value) -> Value:
    """`x` with rows added to those with these numbers; bools are true where any of them is."""
    if x.dtype.kind == "b":
        count = ops.scatter_add(ids, ops.cast(rows, _I64), x.shape[0])
        return ops.logical_or(x, ops.greater(count, 0))
    return ops.add(x, ops.scatter_add(ids, rows, x.shape[0]))


def put_rows(x: Value, ids: Value, rows: Value) -> Value:
    """`x` with the rows of these numbers replaced; of several rows with one number the last one counts."""
    last = ops.scatter(ops.full(-1, x.shape[:1], _I64), ids, ops.iota(ids.shape, 0))
    wide = ops.broadcast_to(ops.reshape(last, (*last.shape, *(1 for _ in x.shape[1:]))), x.shape)
    return ops.where(ops.greater_equal(wide, 0), ops.take(rows, ops.maximum(last, 0)), x)


@operation
def _masked(x: Value, mask: Value, value: Any, at: int) -> Value:
    """`x` with a value, the same for all, where a mask of the axes from `at` on is true."""
    places = ops.reshape(mask, (*mask.shape, *(1 for _ in x.shape[at + len(mask.shape) :])))
    given = value if isinstance(value, Value) else ops.full(value, (), _dtype_for(x, value))
    return ops.where(ops.broadcast_to(places, x.shape), ops.broadcast_to(ops.cast(given, x.dtype), x.shape), x)


@operation
def copy_(x: Value, source: Any) -> Value:
    """The elements of another tensor, broadcast and converted to the type of `x`."""
    given = source if isinstance(source, Value) else ops.full(source, (), _dtype_for(x, source))
    return ops.broadcast_to(ops.cast(_trimmed(given, x.shape), x.dtype), x.shape)


_COPY, _MASKED, _PUT = entry_of(copy_), entry_of(_masked), entry_of(_written)
