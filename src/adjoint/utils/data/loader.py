"""`DataLoader`: batches of a dataset."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, warn
from adjoint.tensor.generator import Generator, as_generator
from adjoint.utils.data.collate import default_collate, default_convert
from adjoint.utils.data.datasets import IterableDataset, length_of
from adjoint.utils.data.gather import gather_of
from adjoint.utils.data.samplers import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    require_count,
    sampler_length,
    split_order,
)

__all__ = ["DataLoader", "get_worker_info"]

T_co = TypeVar("T_co", covariant=True)

#: Attributes that are settled when a loader is made, because its samplers depend on them.
_SETTLED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset")


def get_worker_info() -> None:
    """None, which says that items are made in the process of the training script."""
    return


class DataLoader(Generic[T_co]):
    """Iterate over the batches of a dataset, as ``torch.utils.data.DataLoader``.

    Batches are made in this process, when they are asked for. Rows of a `TensorDataset`, also of a `Subset` of one, are
    copied by one NumPy call a tensor; the items of other datasets are made one by one and collated.

    Parameters
    ----------
    dataset : dataset
        Anything with ``__getitem__`` and ``__len__``, such as a `Dataset` or a list; or an `IterableDataset`.
    batch_size : int or None, default 1
        Number of items of a batch; with None, items are not batched.
    shuffle : bool, optional
        Whether to visit items in random order, a new one in each epoch; default False.
    sampler : iterable of int, optional
        The order of the items, in place of `shuffle`.
    batch_sampler : iterable of list of int, optional
        The items of each batch, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`.
    num_workers : int, default 0
        Number of processes that make batches. More than 0 are accepted with a warning and make no difference yet.
    collate_fn : callable, optional
        Makes a batch of a list of items; default: `default_collate`, and `default_convert` without batches.
    pin_memory : bool, default False
        Accepted; no memory has to be pinned on a CPU.
    drop_last : bool, default False
        Whether to omit an incomplete last batch.
    timeout : float, default 0
        Accepted; there is no worker to wait for.
    worker_init_fn : callable, optional
        Accepted, and not called, as without workers in PyTorch.
    multiprocessing_context : object, optional
        Accepted; there are no workers.
    generator : Generator, optional
        Where `shuffle` takes random numbers from; default: the default generator (`adjoint.manual_seed`).
    prefetch_factor, persistent_workers, pin_memory_device, in_order
        Accepted; they are about workers and other devices.

    Raises
    ------
    InvalidValueError
        If a number is out of range, or arguments exclude each other.
    TypeRuleError
        If the dataset has neither items nor an iterator, or `shuffle` needs its length and it has none.

    Examples
    --------
    >>> loader = DataLoader(TensorDataset(images, labels), batch_size=64, shuffle=True)
    """

    def __init__(
        self,
        dataset: Any,
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Sequence[Any]] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[Any], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], None] | None = None,
        multiprocessing_context: object = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        _check_dataset(dataset, sampler is not None or batch_sampler is not None, bool(shuffle))
        _check_choices(batch_size, shuffle, sampler, batch_sampler, drop_last)
        _check_workers(num_workers, timeout)
        as_generator(generator, "DataLoader")
        if collate_fn is not None and not callable(collate_fn):
            raise TypeRuleError(f"DataLoader: collate_fn must be callable, got {kind_of(collate_fn)}; pass a function")
        self.dataset, self.drop_last, self.generator = dataset, drop_last, generator
        self.num_workers, self.worker_init_fn, self.timeout = num_workers, worker_init_fn, timeout
        self.prefetch_factor, self.persistent_workers, self.in_order = prefetch_factor, persistent_workers, in_order
        self.pin_memory, self.pin_memory_device = pin_memory, pin_memory_device
        self.multiprocessing_context = multiprocessing_context
        self.batch_size = None if batch_sampler is not None else batch_size
        if sampler is None and not isinstance(dataset, IterableDataset):
            sampler = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
        if batch_sampler is None and sampler is not None and batch_size is not None:
            batch_sampler = BatchSampler(sampler, batch_size, drop_last)
        self.sampler, self.batch_sampler = sampler, batch_sampler
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._settled = True

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SETTLED and "_settled" in self.__dict__:
            raise InvalidValueError(
                f"DataLoader: {name} cannot be changed, got {value!r}; make another loader, which costs next to nothing"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        if isinstance(self.dataset, IterableDataset):
            return self._of_items(iter(self.dataset))
        if self.batch_sampler is None:
            return (self.collate_fn(self.dataset[index]) for index in self.sampler or ())
        gather = gather_of(self.dataset) if self.collate_fn is default_collate else None
        if gather is None:
            return self._collated(iter(self.batch_sampler))
        known = split_order(self.batch_sampler)
        return gather.batches(self.batch_sampler) if known is None else gather.split(*known)

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return sampler_length(self.sampler if self.batch_sampler is None else self.batch_sampler)
        count = length_of(self.dataset, "DataLoader")
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)

    def _of_items(self, items: Iterator[Any]) -> Iterator[Any]:
        """The batches of items that come one after the other."""
        if self.batch_size is None:
            yield from map(self.collate_fn, items)
            return
        while batch := list(itertools.islice(items, self.batch_size)):
            if len(batch) == self.batch_size or not self.drop_last:
                yield self.collate_fn(batch)

    def _collated(self, batches: Iterator[Sequence[Any]]) -> Iterator[Any]:
        """The batches of items that are made one by one, or by the dataset's own ``__getitems__``."""
        dataset, collate = self.dataset, self.collate_fn
        together = getattr(dataset, "__getitems__", None)
        for indices in batches:
            yield collate([dataset[index] for index in indices] if together is None else together(indices))


def _check_dataset(dataset: object, sampled: bool, shuffle: bool) -> None:
    """Raise unless it is a dataset that can be visited in this way."""
    if isinstance(dataset, IterableDataset):
        if sampled or shuffle:
            given = "a sampler" if sampled else "shuffle=True"
            raise InvalidValueError(
                f"DataLoader: the order of an IterableDataset is its own, got {given}; leave it out, and shuffle in "
                "the dataset"
            )
        return
    if not hasattr(dataset, "__getitem__"):
        raise TypeRuleError(
            f"DataLoader takes a dataset with __getitem__ and __len__, or an IterableDataset, got {kind_of(dataset)}; "
            "derive its class from Dataset or IterableDataset"
        )
    if not sampled:
        length_of(dataset, "DataLoader")


def _check_choices(
    batch_size: object, shuffle: object, sampler: object, batch_sampler: object, drop_last: bool
) -> None:
    """Raise if arguments about order and batches are out of range, or exclude each other."""
    if shuffle not in (None, False, True):
        raise InvalidValueError(f"DataLoader: shuffle must be True or False, got {shuffle!r}; choose one")
    if batch_sampler is not None:
        given = {"batch_size": batch_size != 1, "shuffle": shuffle, "sampler": sampler, "drop_last": drop_last}
        also = [name for name, changed in given.items() if changed is not None and changed is not False]
        if also:
            raise InvalidValueError(
                f"DataLoader: batch_sampler decides the batches, got {' and '.join(also)} as well; pass one of them"
            )
    elif sampler is not None and shuffle:
        raise InvalidValueError("DataLoader: sampler decides the order, got shuffle=True as well; pass one of them")
    elif batch_size is not None:
        require_count("DataLoader", "batch_size", batch_size)
    elif drop_last:
        raise InvalidValueError(
            "DataLoader: without batches there is no last one, got batch_size=None and drop_last=True; leave one out"
        )


def _check_workers(num_workers: object, timeout: float) -> None:
    """Raise if a number about workers is out of range, and warn if there should be any."""
    if isinstance(num_workers, bool) or not isinstance(num_workers, int | np.integer) or num_workers < 0:
        raise InvalidValueError(
            f"DataLoader: num_workers must be an integer of at least 0, got {num_workers!r}; choose another"
        )
    if timeout < 0:
        raise InvalidValueError(f"DataLoader: timeout must be at least 0 seconds, got {timeout}; choose another")
    if num_workers > 0:
        warn(
            f"DataLoader: batches are made in this process, without workers, got num_workers={num_workers}; the "
            "batches are the same, and num_workers=0 avoids this warning"
        )
