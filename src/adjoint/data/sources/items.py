"""Rows made of the items of a user's source: tuples, dicts or single values."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.data.checking import names_of
from adjoint.data.datasets.node import Row
from adjoint.errors import DataError, TypeRuleError, listed

__all__ = ["RowMaker", "default_columns"]


def default_columns(item: object) -> tuple[str, ...]:
    """The names of the columns of an item: the keys of a dict, otherwise ``column_0`` and so on."""
    if isinstance(item, Mapping):
        return names_of("GeneratorDataset", "the keys of items", list(item))
    return tuple(f"column_{place}" for place in range(len(item) if isinstance(item, tuple) else 1))


class RowMaker:
    """Makes rows of items.

    Parameters
    ----------
    name : str
        The source, for errors.
    columns : sequence of str
        Names of the columns.
    types : sequence of dtype or None
        The dtypes of the columns, None for those of the values.
    """

    def __init__(self, name: str, columns: Sequence[str], types: object = None) -> None:
        self._name, self._columns = name, tuple(columns)
        self._types = None if types is None else [self._dtype(each) for each in _list(types)]
        if self._types is not None and len(self._types) != len(self._columns):
            raise DataError(
                f"{name}: column_types must have a dtype for each of the columns {listed(self._columns, 12)}, got "
                f"{len(self._types)}; pass as many"
            )

    def _dtype(self, given: object) -> np.dtype[Any] | None:
        try:
            return None if given is None else np.dtype(given)  # type: ignore[call-overload]
        except TypeError:
            raise TypeRuleError(
                f'{self._name}: column_types must be dtypes of NumPy or None, got {given!r}; pass one such as "float32"'
            ) from None

    def __call__(self, item: object, index: object) -> Row:
        """The row of an item; `index` says which one it is, for errors."""
        columns = self._columns
        if isinstance(item, Mapping):
            missing = [column for column in columns if column not in item]
            if missing:
                raise DataError(
                    f"{self._name}: items must have a value for each column, item {index} has no {missing[0]!r} but "
                    f"{listed(list(item), 12)}; name its columns in column_names"
                )
            row = tuple(item[column] for column in columns)
        elif isinstance(item, tuple) or (isinstance(item, list) and len(columns) > 1):
            row = tuple(item)
        else:
            row = (item,)
        if len(row) != len(columns):
            raise DataError(
                f"{self._name}: items must have a value for each of the columns {listed(columns, 12)}, item {index} "
                f"has {len(row)}; name all in column_names"
            )
        return row if self._types is None else self._typed(row, index)

    def _typed(self, row: Row, index: object) -> Row:
        made = []
        for column, value, dtype in zip(self._columns, row, self._types or (), strict=True):
            array = np.asarray(value)
            if dtype is not None and array.dtype != dtype:
                if not np.can_cast(array.dtype, dtype, "same_kind"):
                    raise TypeRuleError(
                        f"{self._name}: column {column!r} has the type {dtype}, item {index} is {array.dtype}, which "
                        "would be cut off; give another type or convert it with map"
                    )
                array = array.astype(dtype)
            made.append(array)
        return tuple(made)


def _list(given: object) -> list[Any]:
    return list(given) if isinstance(given, list | tuple) else [given]
