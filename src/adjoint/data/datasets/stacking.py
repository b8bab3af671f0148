"""Make batches of rows: arrays with a new first axis, of rows that have one shape or are padded to one."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.data.checking import require_columns
from adjoint.data.datasets.node import Row
from adjoint.errors import DataError, InvalidValueError, TypeRuleError, kind_of

__all__ = ["Collate", "PadInfo", "Padding", "as_array", "checked_padding", "pad_rows", "stack_rows"]

#: Makes a batch of rows, of which the first one has a given index.
Collate = Callable[[Sequence[Row], int], Row]

#: By name of a column: the shape that rows are padded to, in which None is the longest row, and the element.
PadInfo = Mapping[str, tuple[Sequence[int | None] | None, Any]]

#: The same by place of a column.
Padding = dict[int, tuple[tuple[int | None, ...] | None, Any]]


def as_array(value: object) -> Any:
    """A value as an array; objects that are none, such as dicts, remain as they are."""
    if isinstance(value, np.ndarray):
        return value
    try:
        made = np.asarray(value)
    except ValueError:  # lists of different lengths
        return value
    return value if made.dtype == object else made


def stack_rows(name: str, columns: Sequence[str], rows: Sequence[Row], first: int) -> Row:
    """One array [B, ...] per column.

    Parameters
    ----------
    name : str
        The operation, for errors.
    columns : sequence of str
        Names of the columns, for errors.
    rows : sequence of tuple
        The rows of the batch.
    first : int
        The index of the first row, for errors.
    """
    return tuple(_stacked(name, columns[n], values, first) for n, values in enumerate(zip(*rows, strict=True)))


def _stacked(name: str, column: str, values: Sequence[Any], first: int) -> np.ndarray:
    if isinstance(values[0], np.ndarray | np.generic):
        try:
            # Faster than `numpy.stack`. It raises an exception, or makes an array of objects, if shapes differ.
            made = np.array(values)
        except ValueError:
            made = np.empty((), object)
        if made.dtype != object and made.shape[1:] == values[0].shape:
            return made
    arrays = [as_array(value) for value in values]
    for number, array in enumerate(arrays):
        if not isinstance(array, np.ndarray):
            raise DataError(
                f"{name}: a batch has arrays, numbers and strings, column {column!r} has {kind_of(array)} in item "
                f"{first + number}; convert it with map"
            )
        if array.shape != arrays[0].shape:
            raise DataError(
                f"{name}: the rows of a batch must have one shape, column {column!r} has {arrays[0].shape} in item "
                f"{first} and {array.shape} in item {first + number}; use padded_batch, or map them to one shape"
            )
    return np.stack(arrays)


def checked_padding(name: str, columns: Sequence[str], pad_info: object) -> Padding:
    """The shapes and elements that columns are padded to and with; of all columns if no information is given."""
    if pad_info is None:
        return dict.fromkeys(range(len(columns)), (None, 0))
    if not isinstance(pad_info, Mapping):
        raise TypeRuleError(
            f"{name}: pad_info must be a dict from columns to (shape, element), got {kind_of(pad_info)}; pass one such "
            'as {"x": ([None], 0)}'
        )
    found: Padding = {}
    for place, given in zip(require_columns(name, list(pad_info), columns), pad_info.items(), strict=True):
        column, info = given
        if not isinstance(info, tuple) or len(info) != 2 or not isinstance(info[0], Sequence | None):
            raise TypeRuleError(
                f"{name}: pad_info of {column!r} must be (shape, element), got {info!r}; pass one such as ([None], 0)"
            )
        shape = None if info[0] is None else tuple(info[0])
        for size in shape or ():
            if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
                raise InvalidValueError(
                    f"{name}: sizes in pad_info must be positive integers or None, got {size!r} for {column!r}; "
                    "change it"
                )
        found[place] = shape, info[1]
    return found


def pad_rows(name: str, columns: Sequence[str], rows: Sequence[Row], first: int, padding: Padding) -> Row:
    """One array [B, ...] per column; rows of some columns are padded at their ends to one shape."""
    made = []
    for place, values in enumerate(zip(*rows, strict=True)):
        if place in padding:
            made.append(_padded(name, columns[place], values, first, *padding[place]))
        else:
            made.append(_stacked(name, columns[place], values, first))
    return tuple(made)


def _padded(
    name: str, column: str, values: Sequence[Any], first: int, shape: tuple[int | None, ...] | None, element: object
) -> np.ndarray:
    arrays = [np.asarray(value) for value in values]
    axes = arrays[0].ndim if shape is None else len(shape)
    for number, array in enumerate(arrays):
        if array.ndim != axes:
            raise DataError(
                f"{name}: rows are padded along {axes} axes, column {column!r} has the shape {array.shape} in item "
                f"{first + number}; give another shape in pad_info"
            )
    longest = [max(array.shape[axis] for array in arrays) for axis in range(axes)]
    sizes = tuple(
        longest[axis] if shape is None or shape[axis] is None else int(shape[axis] or 0) for axis in range(axes)
    )
    if any(size < most for size, most in zip(sizes, longest, strict=True)):
        raise DataError(
            f"{name}: rows are padded to {sizes}, column {column!r} has one of {tuple(longest)} among items {first} to "
            f"{first + len(arrays) - 1}; give a larger shape in pad_info, or shorten rows with map"
        )
    dtype = np.result_type(*arrays)
    whole = np.full((len(arrays), *sizes), element if dtype.kind not in "US" or element else "", dtype)
    for target, array in zip(whole, arrays, strict=True):
        if axes:
            target[tuple(slice(size) for size in array.shape)] = array
    return whole if axes else np.stack(arrays)
