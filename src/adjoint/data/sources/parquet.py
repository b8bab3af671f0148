"""Parquet files, read column by column by pyarrow, the extra ``parquet``."""

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np

from adjoint.data.checking import names_of, require_columns
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.columns import column_of, source_of
from adjoint.data.sources.files import Paths, paths_of, readable
from adjoint.errors import InvalidValueError

__all__ = ["ParquetDataset"]

_NAME = "ParquetDataset"


class ParquetDataset(Dataset):
    """The rows of Parquet files, read once.

    In training, native code gathers batches of numbers, also in lists of equal lengths, that are only sampled,
    shuffled, selected and batched (`arrays`). Lists of different lengths are arrays of different lengths; missing
    numbers are NaN.

    Parameters
    ----------
    dataset_files : path or sequence of path
        The files, in order.
    columns : str or sequence of str, optional
        The columns to read; default: all.
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
        If a file does not exist or is malformed.
    InvalidValueError
        If pyarrow is not installed.
    """

    def __init__(
        self,
        dataset_files: Paths,
        columns: str | Sequence[str] | None = None,
        num_samples: int | None = None,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        if find_spec("pyarrow") is None:
            raise InvalidValueError(
                "Parquet files require pyarrow, which is not installed; run pip install 'adjoint[parquet]'"
            )
        tables = [_read(path) for path in paths_of(_NAME, dataset_files)]
        there = tuple(tables[0].column_names)
        names = there if columns is None else names_of(_NAME, "columns", columns)
        for table in tables:
            require_columns(_NAME, names, table.column_names)
        parts: dict[str, np.ndarray | list[Any]] = {}
        for name in names:
            found = [column_of(table.column(name).to_numpy()) for table in tables]
            parts[name] = found[0] if len(found) == 1 else column_of([row for part in found for row in part])
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(source_of(_NAME, parts, picked))


def _read(path: Any) -> Any:
    import pyarrow.parquet  # noqa: PLC0415 - an optional dependency
    from pyarrow.lib import ArrowException  # noqa: PLC0415

    with readable(_NAME, path, ArrowException):
        return pyarrow.parquet.read_table(path)
