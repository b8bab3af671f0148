"""Files in idx format, as those of MNIST."""

import os
from collections.abc import Mapping

import numpy as np

from adjoint.data.datasets.dataset import Dataset
from adjoint.data.idx import read_idx
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.columns import source_of
from adjoint.data.sources.files import paths_of
from adjoint.errors import TypeRuleError, kind_of

__all__ = ["IdxDataset"]

_NAME = "IdxDataset"


class IdxDataset(Dataset):
    """The rows of idx files, one file per column.

    In training, native code gathers batches of rows that are only sampled, shuffled, selected and batched (`arrays`).

    Parameters
    ----------
    files : dict
        Paths by name of the column. Names of compressed files end in ``.gz``.
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
        If a file does not exist, is truncated or malformed, or the numbers of rows differ.
    """

    def __init__(
        self,
        files: Mapping[str, str | os.PathLike[str]],
        num_samples: int | None = None,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        if not isinstance(files, Mapping):
            raise TypeRuleError(
                f"{_NAME} takes a dict of paths by name of the column, got {kind_of(files)}; pass one such as "
                '{"image": "train-images-idx3-ubyte"}'
            )
        columns: dict[str, np.ndarray | list[object]] = {name: _read(path) for name, path in files.items()}
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(source_of(_NAME, columns, picked))


def _read(given: str | os.PathLike[str]) -> np.ndarray:
    (path,) = paths_of(_NAME, given)
    return read_idx(path)
