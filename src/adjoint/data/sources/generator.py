"""Rows of Python objects: with random access, iterable, or generator functions."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from adjoint.data.checking import names_of, require_count
from adjoint.data.datasets.dataset import Dataset
from adjoint.data.datasets.node import Node, Row
from adjoint.data.datasets.stacking import stack_rows
from adjoint.data.datasets.user_function import failed, name_of
from adjoint.data.samplers import as_sampler
from adjoint.data.sources.items import RowMaker, default_columns
from adjoint.data.sources.tables import BatchedSource, IndexedSource, StreamSource
from adjoint.errors import AdjointError, DataError, InvalidValueError, TypeRuleError, kind_of
from adjoint.lazy_dataclass import dataclass

__all__ = ["GeneratorDataset"]

_NAME = "GeneratorDataset"


class GeneratorDataset(Dataset):
    """The items of a Python object.

    Parameters
    ----------
    source : object
        One of three kinds. An object with ``__getitem__(index)`` and ``__len__()`` has random access: it can be
        shuffled as a whole, sharded, and resumed at once. An iterable object is iterated over in each epoch, from its
        beginning. A function without required parameters, such as a generator function, returns an iterator in each
        epoch; if it has a parameter ``epoch``, it gets the number of the epoch, counted from 0.

        Items are tuples with a value per column, dicts from names of columns, or single values. Values are arrays, or
        what `numpy.asarray` takes. Any other object is passed to the functions of `map`, which must convert it before
        batches are made.
    column_names : str or sequence of str, optional
        Names of the columns; default: the keys of dicts, otherwise ``column_0`` and so on, for which the first item is
        read at once.
    column_types : sequence of dtype, optional
        The dtype of each column, None for that of the values.
    num_samples : int, optional
        At most how many items; default: all.
    num_parallel_workers : int, default 1
        How many threads read items of a source with random access.
    shuffle : bool, default False
        Whether the order is random, another one in each epoch.
    sampler : Sampler or collection of int, optional
        The order, in place of `shuffle`, `num_samples` and `num_shards`.
    num_shards, shard_id : int, optional
        Keep every `num_shards`-th item from the one with the number `shard_id` on (`DistributedSampler`).
    batch_sampler : iterable, optional
        Lists of indices, in place of all arguments about the order: each is a batch.
    collate_fn : callable, optional
        With a `batch_sampler`: makes the columns of a batch from the list of its items; default: stacks them.

    Raises
    ------
    DataError
        If items do not fit the columns, or the source raises an exception, during iteration.
    InvalidValueError
        If arguments exclude each other, or order items of a source without random access.
    TypeRuleError
        If the source is none of the three kinds.

    Examples
    --------
    >>> dataset = GeneratorDataset([(1, 2), (3, 4), (5, 6)], ["x", "y"]).batch(2)
    >>> [x.tolist() for x, y in dataset]
    [[1, 3], [5]]
    """

    def __init__(
        self,
        source: Any,
        column_names: str | Sequence[str] | None = None,
        column_types: object = None,
        num_samples: int | None = None,
        num_parallel_workers: int = 1,
        shuffle: bool | None = None,
        sampler: object = None,
        num_shards: int | None = None,
        shard_id: int | None = None,
        batch_sampler: Iterable[Sequence[int]] | None = None,
        collate_fn: Callable[[list[Any]], object] | None = None,
    ) -> None:
        items = _Items(source)
        columns = default_columns(items.first()) if column_names is None else None
        names = columns or names_of(_NAME, "column_names", column_names)
        rows = RowMaker(_NAME, names, column_types)
        order = {"shuffle": shuffle, "sampler": sampler, "num_shards": num_shards, "shard_id": shard_id}
        workers = require_count(_NAME, "num_parallel_workers", num_parallel_workers)
        if batch_sampler is not None:
            order["num_samples"] = num_samples
            super().__init__(_batched(items, names, rows, order, batch_sampler, collate_fn))
            return
        if collate_fn is not None:
            raise InvalidValueError(
                f"{_NAME}: collate_fn makes the batches of a batch_sampler, got none; pass one, or use batch"
            )
        if items.indexed:
            picked = as_sampler(_NAME, shuffle, sampler, num_samples, num_shards, shard_id)
            count = len(source)
            super().__init__(IndexedSource(_ReadItem(items, rows), names, count, picked, workers))
            return
        _refuse_order(order, source)
        most = None if num_samples is None else require_count(_NAME, "num_samples", num_samples)
        super().__init__(StreamSource(_ReadAll(items, rows), names, items.length(), most))


def _batched(
    items: "_Items",
    names: Sequence[str],
    rows: RowMaker,
    order: dict[str, object],
    batch_sampler: Iterable[Sequence[int]],
    collate_fn: Callable[[list[Any]], object] | None,
) -> Node:
    """The source whose batches a batch sampler lists."""
    given = [name for name, value in order.items() if value is not None]
    if given:
        raise InvalidValueError(
            f"{_NAME}: the batch_sampler decides the order, got {given[0]} as well; pass one of them"
        )
    _refuse_order({"batch_sampler": batch_sampler} if not items.indexed else {}, items.source)
    if not isinstance(batch_sampler, Iterable) or iter(batch_sampler) is batch_sampler:
        raise TypeRuleError(
            f"{_NAME}: batch_sampler must be a collection of lists of indices, got {kind_of(batch_sampler)}; pass one "
            "that can be iterated over in each epoch"
        )
    return BatchedSource(_ReadBatch(items, names, rows, collate_fn), names, batch_sampler)


def _refuse_order(order: dict[str, object], source: object) -> None:
    for what, given in order.items():
        if given is not None and given is not False:
            raise InvalidValueError(
                f"{_NAME}: {what} needs a source with __getitem__ and __len__, got {kind_of(source)}; leave it out, "
                "or shuffle with .shuffle(buffer_size)"
            )


class _Items:
    """The items of a source; errors say which one raised them."""

    def __init__(self, source: Any) -> None:
        self.source = source
        self.indexed = hasattr(source, "__getitem__") and hasattr(source, "__len__") and not isinstance(source, type)
        self._takes_epoch = False
        if self.indexed:
            return
        if inspect.isgenerator(source) or (isinstance(source, Iterable) and iter(source) is source):
            raise TypeRuleError(
                f"{_NAME} takes what can be iterated over in each epoch, got {kind_of(source)}, which has one pass; "
                "pass the function that makes it"
            )
        if not isinstance(source, Iterable) and not callable(source):
            raise TypeRuleError(
                f"{_NAME} takes an object with __getitem__ and __len__, an iterable, or a generator function, got "
                f"{kind_of(source)}; pass one of these"
            )
        if not isinstance(source, Iterable):
            self._takes_epoch = "epoch" in inspect.signature(source).parameters

    def length(self) -> int | None:
        return len(self.source) if hasattr(self.source, "__len__") else None

    def __getitem__(self, index: int) -> Any:
        try:
            return self.source[index]
        except Exception as error:
            raise failed(error, f"{_NAME}: {name_of(self.source)}", f"item {index}", "correct the source") from error

    def first(self) -> Any:
        if self.indexed:
            if len(self.source):
                return self[0]
        else:
            for item in self.all(0):
                return item
        raise DataError(f"{_NAME}: names of columns are taken from the first item, got none; pass column_names")

    def all(self, epoch: int) -> Iterator[Any]:
        index = 0
        try:
            if isinstance(self.source, Iterable):
                items = iter(self.source)
            else:
                items = iter(self.source(epoch=epoch) if self._takes_epoch else self.source())
            for item in items:
                yield item
                index += 1
        except AdjointError:
            raise
        except Exception as error:
            raise failed(error, f"{_NAME}: {name_of(self.source)}", f"item {index}", "correct the source") from error


# Classes instead of functions within functions, so that worker processes can be new interpreters.


@dataclass(frozen=True)
class _ReadItem:
    """Reads the row with an index."""

    items: _Items
    rows: RowMaker

    def __call__(self, index: int) -> Row:
        return self.rows(self.items[index], index)


@dataclass(frozen=True)
class _ReadAll:
    """Reads the rows of an epoch."""

    items: _Items
    rows: RowMaker

    def __call__(self, epoch: int) -> Iterator[Row]:
        return (self.rows(item, index) for index, item in enumerate(self.items.all(epoch)))


@dataclass(frozen=True)
class _ReadBatch:
    """Reads a batch with some indices."""

    items: _Items
    columns: Sequence[str]
    rows: RowMaker
    collate: Callable[[list[Any]], object] | None

    def __call__(self, indices: Sequence[int]) -> Row:
        picked = [self.items[index] for index in indices]
        if self.collate is None:
            return stack_rows(_NAME, self.columns, list(map(self.rows, picked, indices)), indices[0])
        try:
            made = self.collate(picked)
        except Exception as error:
            what = f"{_NAME}: {name_of(self.collate)}"
            raise failed(error, what, f"items {list(indices)}", "correct the function") from error
        return self.rows(made, list(indices))
