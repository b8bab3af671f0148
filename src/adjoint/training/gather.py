"""Gather batches from whole arrays, as a separate graph: select rows by index, convert and scale them."""

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np

from adjoint import ops
from adjoint.data import Rows
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Function, TensorType, Value, as_dtype, is_float, param

__all__ = ["gather_function", "given_rows", "rows_per_step", "tables_of"]


def given_rows(data: object) -> tuple[np.ndarray | Rows, ...] | None:
    """The arrays that the data of an epoch consist of, or None if they are batches."""
    if isinstance(data, np.ndarray | Rows):
        return (data,)
    if isinstance(data, tuple | list) and data and all(isinstance(d, np.ndarray | Rows) for d in data):
        return tuple(data)
    return None


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
    tables = [_table(name, t, given) for (name, t), given in zip(batch.items(), data, strict=True)]
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
        params.append(param(name, table.array.shape, table.array.dtype))
        rows = ops.take(params[-1], order)
        if rows.dtype != type_.dtype:
            rows = ops.cast(rows, type_.dtype)
        results.append(rows if table.scale == 1 else ops.multiply(rows, float(table.scale)))
    return Function("gather", (*params, order), tuple(results))


def _free(name: str, taken: Mapping[str, object]) -> str:
    while name in taken:
        name += "_"
    return name


def _table(name: str, wanted: TensorType, given: np.ndarray | Rows) -> Rows:
    """The rows for one input of a step; raises if they do not match it."""
    rows = given if isinstance(given, Rows) else Rows(given)
    dtype, shape = rows.array.dtype, rows.array.shape
    if shape[1:] != wanted.shape[1:]:
        raise TypeRuleError(
            f"run_epoch: rows of {name} must have shape {wanted.shape[1:]}, got {shape[1:]}; reshape the array"
        )
    if rows.dtype is not None and as_dtype(rows.dtype) != wanted.dtype:
        raise TypeRuleError(
            f"run_epoch: the step takes {name} as {wanted.dtype}, but its Rows specify {as_dtype(rows.dtype)}; "
            "omit their dtype"
        )
    if rows is not given and dtype != wanted.dtype:
        raise TypeRuleError(
            f"run_epoch: {name} must be {wanted.dtype}, got {dtype}; wrap it in Rows, which converts each batch"
        )
    # Floats may be rounded, but integers that wrap around would become other labels.
    casting: Literal["same_kind", "safe"] = "same_kind" if is_float(wanted.dtype) else "safe"
    if dtype not in DTYPES.values() or not np.can_cast(dtype, wanted.dtype, casting):
        raise TypeRuleError(
            f"run_epoch: Rows of {dtype} cannot be converted to {wanted.dtype} for {name}; "
            f"convert the array with .astype({wanted.dtype.name!r})"
        )
    if rows.scale != 1 and not is_float(wanted.dtype):
        raise InvalidValueError(
            f"run_epoch: {name} is {wanted.dtype}, which cannot be scaled, got scale {rows.scale}; use 1"
        )
    return rows
