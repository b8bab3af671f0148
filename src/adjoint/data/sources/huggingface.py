"""Datasets of Hugging Face's ``datasets``, whose columns are read once."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.checking import names_of, require_columns
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.columns import column_of, source_of
from adjoint.errors import TypeRuleError, kind_of

__all__ = ["HuggingFaceDataset"]

_NAME = "HuggingFaceDataset"


class HuggingFaceDataset(Dataset):
    """The rows of a dataset of ``datasets``, or of any object with ``column_names`` and ``__getitem__(column)``.

    Columns are read into arrays once. Images must have one shape for that; otherwise each row is an array of its own,
    and is decoded once as well.

    Parameters
    ----------
    dataset : object
        The dataset, of which one split is chosen, as in ``load_dataset("mnist", split="train")``.
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
    TypeRuleError
        If the object has no columns, as a dict of splits.
    """

    def __init__(
        self,
        dataset: Any,
        columns: str | Sequence[str] | None = None,
        num_samples: int | None = None,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
    ) -> None:
        there = getattr(dataset, "column_names", None)
        if not isinstance(there, list | tuple) or not hasattr(dataset, "__getitem__"):
            raise TypeRuleError(
                f"{_NAME} takes an object with a list column_names and __getitem__(column), got {kind_of(dataset)}; "
                "choose a split, as in load_dataset(name, split='train')"
            )
        names = tuple(there) if columns is None else names_of(_NAME, "columns", columns)
        require_columns(_NAME, names, there)
        parts: dict[str, np.ndarray | list[Any]] = {name: column_of(dataset[name]) for name in names}
        picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
        super().__init__(source_of(_NAME, parts, picked))
