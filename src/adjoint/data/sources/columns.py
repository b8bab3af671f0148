"""Sources that are read column by column: arrays where the rows of a column have one shape, otherwise lists."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.data.datasets.node import Node
from adjoint.data.datasets.stacking import as_array
from adjoint.data.samplers import Sampler
from adjoint.data.sources.tables import ArraySource, IndexedSource
from adjoint.errors import DataError, listed

__all__ = ["column_of", "source_of"]


def column_of(values: Any) -> np.ndarray | list[Any]:
    """A column as an array [N, ...], or as a list of arrays if its rows differ in shape or are other objects."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return values
    rows = [as_array(value) for value in values]
    if not rows:
        return np.zeros(0)
    first = rows[0]
    if all(isinstance(row, np.ndarray) and row.shape == first.shape for row in rows):
        return np.stack(rows)
    return rows


def source_of(name: str, columns: Mapping[str, np.ndarray | list[Any]], sampler: Sampler) -> Node:
    """The source that has these columns.

    Raises
    ------
    DataError
        If there is none, or the numbers of rows differ.
    """
    parts, names = list(columns.values()), list(columns)
    counts = [len(part) for part in parts]
    if not parts:
        raise DataError(f"{name} takes data with at least one column, got none; name another file")
    if len(set(counts)) != 1:
        raise DataError(f"{name} takes columns with equally many rows, got {listed(counts)}; correct the data")
    arrays: list[np.ndarray] = [part for part in parts if isinstance(part, np.ndarray)]
    if len(arrays) == len(parts):
        return ArraySource(arrays, names, sampler)
    return IndexedSource(_Lists(parts), names, counts[0], sampler)


class _Lists:
    """Reads a row of columns."""

    def __init__(self, parts: Sequence[Any]) -> None:
        self._parts = parts

    def __call__(self, index: int) -> tuple[Any, ...]:
        return tuple(part[index] for part in self._parts)
