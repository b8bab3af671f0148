"""Gather batches from whole arrays, as a separate graph: select rows by index, convert and scale them."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from adjoint import ops
from adjoint.data import Rows
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Function, TensorType, Value, as_dtype, is_float, param
from adjoint.runtime.arguments import axes_fix, in_other_order, is_one_hot

__all__ = ["gather_function", "given_rows", "rows_per_step", "source_of", "tables_of"]


def given_rows(data: object) -> tuple[np.ndarray | Rows, ...] | None:
    """The arrays that the data of an epoch consist of, or None if they are batches."""
    if isinstance(data, np.ndarray | Rows):
        return (data,)
    if isinstance(data, Mapping):
        raise TypeRuleError(
            f"run_epoch takes arrays in order, got a {type(data).__name__}; pass a tuple of the inputs, then the "
            "targets, as in (x, targets)"
        )
    if isinstance(data, tuple | list) and data and all(isinstance(d, np.ndarray | Rows) for d in data):
        return tuple(data)
    if isinstance(data, tuple | list) and any(_numbers(d) for d in data):
        raise TypeRuleError(
            f"run_epoch takes arrays, got a {type(data).__name__} of {', '.join(type(d).__name__ for d in data[:4])}; "
            "convert each with numpy.asarray"
        )
    return None


def _numbers(item: object) -> bool:
    """Whether an item is data as a list of numbers, or an array of another library; tuples are batches."""
    if not isinstance(item, list):
        foreign = hasattr(item, "__array__") and not isinstance(item, np.ndarray | np.generic)
        return foreign or isinstance(item, int | float)
    try:
        return bool(item) and not isinstance(item[0], np.ndarray) and np.asarray(item).dtype.kind in "iufb"
    except ValueError:  # lists of different lengths: a batch
        return False


def rows_per_step(batch: Mapping[str, TensorType]) -> int:
    """The number of rows of a step: the size of the first axis of all its inputs.

    Raises
    ------
    TypeRuleError
        If the first axes differ, or an input has none.
    """
    sizes = {t.shape[:1] for t in batch.values()}
    if len(sizes) != 1 or sizes <= {(), (0,)}:
        types = ", ".join(f"{name}: {t}" for name, t in batch.items())
        raise TypeRuleError(
            "run_epoch splits arrays along axis 0, which must be the batch axis of all inputs of the step, got "
            f"{types}; pass batches instead"
        )
    return sizes.pop()[0]


def tables_of(batch: Mapping[str, TensorType], data: Sequence[np.ndarray | Rows]) -> list[Rows]:
    """The arrays to gather from, one per input of the step, with their conversions.

    Raises
    ------
    TypeRuleError
        If the number of arrays, their dtypes, shapes or numbers of rows do not match.
    InvalidValueError
        If there is a scale for an integer input.
    """
    rows_per_step(batch)
    if len(data) != len(batch):
        raise TypeRuleError(
            f"run_epoch takes an array for each of {', '.join(batch)}, got {len(data)}; pass one for each"
        )
    try:
        tables = [_table(name, t, given) for (name, t), given in zip(batch.items(), data, strict=True)]
    except TypeRuleError:
        _refuse_swapped(batch, data)
        raise
    counts = {name: len(t.array) for name, t in zip(batch, tables, strict=True)}
    if len(set(counts.values())) != 1:
        listed = ", ".join(f"{name} {count}" for name, count in counts.items())
        raise TypeRuleError(
            f"run_epoch: all arrays must have the same number of rows, got {listed}; shorten the longer ones"
        )
    return tables


def gather_function(batch: Mapping[str, TensorType], tables: Sequence[Rows]) -> Function:
    """``(tables..., order) -> (arrays of a step...)``: the rows selected by `order`, i64[B].

    Parameters
    ----------
    batch : mapping of str to TensorType
        The inputs of a step.
    tables : sequence of Rows
        The result of `tables_of`; only shapes, dtypes and scales are used.
    """
    params: list[Value] = []
    results: list[Value] = []
    order = param(_free("order", batch), (rows_per_step(batch),), "i64")
    for (name, type_), table in zip(batch.items(), tables, strict=True):
        source, step = source_of(table.array)
        params.append(param(name, source.shape, source.dtype))
        if step:
            places = ops.expand_dims(order * step, 1) + ops.constant(np.arange(type_.shape[1]))
            rows = ops.take(params[-1], places)
        else:
            rows = ops.take(params[-1], order)
        if rows.dtype != type_.dtype:
            rows = ops.cast(rows, type_.dtype)
        results.append(rows if table.scale == 1 else ops.multiply(rows, float(table.scale)))
    return Function("gather", (*params, order), tuple(results))


def source_of(array: np.ndarray) -> tuple[np.ndarray, int]:
    """What rows are gathered from: the array; or, for overlapping windows of a sequence, that and the step of windows.

    Windows are two-dimensional views such as those of `numpy.lib.stride_tricks.sliding_window_view`.
    """
    if array.ndim != 2 or array.strides[1] != array.itemsize or not 0 < array.strides[0] < array[0].nbytes:
        return array, 0
    step, rest = divmod(array.strides[0], array.itemsize)
    if rest:
        return array, 0
    length = (len(array) - 1) * step + array.shape[1]
    return as_strided(array, (length,), (array.itemsize,), writeable=False), step


def _conversion(name: str, dtype: np.dtype, wanted: np.dtype) -> str:
    """The fix for an array of another dtype."""
    if dtype == np.uint8 and is_float(wanted):
        return f"wrap images in Rows({name}, scale=1 / 255), which converts each batch, and others in Rows({name})"
    if _converts(dtype, wanted):
        return "wrap it in Rows, which converts each batch"
    return f"convert it with .astype({wanted.name!r})"


def _converts(dtype: np.dtype, wanted: np.dtype) -> bool:
    """Whether Rows convert a dtype: floats may be rounded, but integers that wrap around would become other labels."""
    casting: Literal["same_kind", "safe"] = "same_kind" if is_float(wanted) else "safe"
    return dtype in DTYPES.values() and np.can_cast(dtype, wanted, casting)


def _refuse_swapped(batch: Mapping[str, TensorType], data: Sequence[np.ndarray | Rows]) -> None:
    """Raise if the arrays fit the inputs of the step in another order than the given one."""
    arrays, types = [d.array if isinstance(d, Rows) else d for d in data], list(batch.values())

    def fits(n: int, i: int) -> bool:
        return bool(arrays[i].shape[1:] == types[n].shape[1:] and arrays[i].dtype == types[n].dtype)

    order = in_other_order(len(arrays), fits)
    if order is not None:
        names = list(batch)
        given = ", ".join(names[order.index(n)] for n in range(len(names)))
        raise TypeRuleError(
            f"run_epoch: arrays must be in the order ({', '.join(names)}), got arrays that fit ({given}); exchange them"
        )


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name


def _table(name: str, wanted: TensorType, given: np.ndarray | Rows) -> Rows:
    """The rows for one input of a step; raises if they do not match it."""
    rows = given if isinstance(given, Rows) else Rows(given)
    dtype, shape = rows.array.dtype, rows.array.shape
    if shape[1:] != wanted.shape[1:]:
        fix = axes_fix(name, wanted.shape, shape) or "reshape the array"
        if is_one_hot(rows.array, shape[:-1], wanted.dtype) and wanted.shape[1:] == shape[1:-1]:
            fix = (
                "for one-hot rows, take argmax over the last axis, or train on float targets (probabilities) by giving "
                "their type in loss_args"
            )
        raise TypeRuleError(f"run_epoch: rows of {name} must have shape {wanted.shape[1:]}, got {shape[1:]}; {fix}")
    if rows.dtype is not None and as_dtype(rows.dtype) != wanted.dtype:
        raise TypeRuleError(
            f"run_epoch: the step takes {name} as {wanted.dtype}, but its Rows specify {as_dtype(rows.dtype)}; "
            "omit their dtype"
        )
    if rows is not given and dtype != wanted.dtype:
        raise TypeRuleError(
            f"run_epoch: {name} must be {wanted.dtype}, got {dtype}; {_conversion(name, dtype, wanted.dtype)}"
        )
    if not _converts(dtype, wanted.dtype):
        raise TypeRuleError(
            f"run_epoch: Rows of {dtype} cannot be converted to {wanted.dtype} for {name}; "
            f"convert the array with .astype({wanted.dtype.name!r})"
        )
    if rows.scale != 1 and not is_float(wanted.dtype):
        raise InvalidValueError(
            f"run_epoch: {name} is {wanted.dtype}, which cannot be scaled, got scale {rows.scale}; use 1"
        )
    return rows
