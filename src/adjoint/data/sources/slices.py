"""Rows of NumPy arrays."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from adjoint.data.batching import Rows
from adjoint.data.checking import names_of
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.tables import ArraySource
from adjoint.errors import DataError, TypeRuleError, listed, plural

__all__ = ["NumpySlicesDataset"]

_NAME = "NumpySlicesDataset"


class NumpySlicesDataset(Dataset):
    """The rows of arrays, along axis 0.

    In training, native code gathers batches of rows that are only sampled, shuffled, selected and batched (`arrays`).

    Parameters
    ----------
    data : array, list, tuple of arrays, or dict of arrays
        Arrays [N, ...], in memory or memory-mapped, lists that `numpy.asarray` takes, or `Rows`, which convert an array
        as they are gathered. A tuple has an array per column, as has a dict, by name.
    column_names : str or sequence of str, optional
        Names of the columns; default: the keys of a dict, otherwise ``column_0`` and so on.
    num_samples : int, optional
        At most how many rows; default: all.
    shuffle : bool, default False
        Whether the order is random, another one in each epoch.
    sampler : Sampler or collection of int, optional
        The order, in place of `shuffle`, `num_samples` and `num_shards`.
    num_shards, shard_id : int, optional
        Keep every `num_shards`-th row from the one with the number `shard_id` on (`DistributedSampler`).

    Raises
    ------
    DataError
        If there is no array, the numbers of rows differ, or there is not one name for each.
    TypeRuleError
        If something is not an array of numbers or strings.

    Examples
    --------
    >>> dataset = NumpySlicesDataset({"x": [1, 2, 3], "y": [4, 5, 6]}).batch(2)
    >>> [x.tolist() for x, y in dataset]
    [[1, 2], [3]]
    """

    def __init__(
        self,
        data: Any,
        column_names: str | Sequence[str] | None = None,
        num_samples: int | None = None,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        if isinstance(data, Mapping):
            parts, names = list(data.values()), tuple(data)
        else:
            parts = list(data) if isinstance(data, tuple) else [data]
            names = tuple(f"column_{place}" for place in range(len(parts)))
        if column_names is not None:
            names = names_of(_NAME, "column_names", column_names)
        if not parts:
            raise DataError(f"{_NAME} takes at least one array, got none; pass the inputs and the targets")
        if len(names) != len(parts):
            raise DataError(
                f"{_NAME}: column_names must name each of {plural(len(parts), 'array')}, got {listed(names, 12)}; a "
                "tuple has an array per column"
            )
        tables = [_table(name, part) for name, part in zip(names, parts, strict=True)]
        counts = [len(table.array) for table in tables]
        if len(set(counts)) != 1:
            raise DataError(
                f"{_NAME} takes arrays with equally many rows, got {listed(counts)}; shorten the longer ones"
            )
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(ArraySource(tables, names, picked))


def _table(name: str, given: object) -> Rows:
    """An array of rows."""
    if isinstance(given, Rows):
        return given
    try:
        array = given if isinstance(given, np.ndarray) else np.asarray(given)
    except ValueError:  # lists of different lengths
        array = np.empty(0, object)
    if array.dtype == object or array.ndim < 1:
        raise TypeRuleError(
            f"{_NAME} takes arrays [N, ...] of numbers or strings, got {'a scalar' if array.ndim < 1 else 'objects'} "
            f"for {name!r}; stack rows along axis 0, or use GeneratorDataset for rows of different shapes"
        )
    return Rows(array)
