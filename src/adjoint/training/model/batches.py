"""What models take as data: batches of datasets as tuples, and the target types of arrays."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from adjoint.data import Rows
from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import DTYPES, TensorType, as_dtype, is_float
from adjoint.tensor.tensor import Tensor

__all__ = ["as_tuple", "batches_of", "row_type", "size_of", "steps_of"]


def as_tuple(batch: Any) -> tuple[Any, ...]:
    """The tensors or arrays of a batch, in order."""
    if isinstance(batch, Mapping):
        return tuple(batch.values())
    if isinstance(batch, tuple | list):
        return tuple(batch)
    if isinstance(batch, Tensor | np.ndarray):
        return (batch,)
    raise TypeRuleError(
        f"a batch must be a tuple, list or dict of arrays or tensors, got {kind_of(batch)}; return (inputs, targets)"
    )


def batches_of(dataset: Any, epoch: int, start: int) -> Iterator[Any]:
    """The batches of an epoch from a position on; of a plain iterable, those before it are made and discarded."""
    numbered = getattr(dataset, "epoch", None)
    if callable(numbered):
        yield from numbered(epoch, start)
        return
    if not isinstance(dataset, Iterable):
        raise TypeRuleError(
            f"a dataset must be an iterable of batches, got {kind_of(dataset)}; use a DataLoader or a list of batches"
        )
    items = iter(dataset)
    if items is dataset and epoch:
        raise TypeRuleError(
            f"a dataset for several epochs must begin anew with each iter(), got {kind_of(dataset)}, an iterator; pass "
            "an object whose __iter__ makes one"
        )
    for number, batch in enumerate(items):
        if number >= start:
            yield batch


def size_of(batch: tuple[Any, ...]) -> int:
    """The number of rows of a batch."""
    shape = getattr(batch[0], "shape", ()) if batch else ()
    return int(shape[0]) if shape else 1


def steps_of(dataset: Any) -> int | None:
    """The number of batches of an epoch, or None if the dataset does not know it."""
    try:
        return len(dataset)
    except TypeError:  # it has no length, or does not know it, as a pipeline with a filter
        return None


def row_type(rows: Rows, count: int, wide: bool) -> TensorType:
    """The type of so many rows: float64 is rounded to float32 unless the network is `wide`, float64 itself."""
    dtype = rows.array.dtype if rows.dtype is None else as_dtype(rows.dtype)
    if rows.dtype is None and rows.scale != 1 and not is_float(dtype):
        dtype = DTYPES["f32"]
    if dtype == DTYPES["f64"] and not wide:
        dtype = DTYPES["f32"]
    return TensorType((count, *rows.array.shape[1:]), dtype)
