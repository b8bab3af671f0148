"""`DataLoader`: batches of a dataset."""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, TypeVar

import numpy as np

from adjoint.data.arrays import ArrayBatches
from adjoint.data.batching import Rows
from adjoint.data.workers import WorkerPool
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.tensor.generator import Generator, as_generator
from adjoint.utils.data.collate import default_collate, default_convert
from adjoint.utils.data.datasets import IterableDataset, length_of
from adjoint.utils.data.epochs import Epoch, Epochs
from adjoint.utils.data.gather import Gather, gather_of
from adjoint.utils.data.samplers import (
    BatchSampler,
    RandomSampler,
    SequentialSampler,
    ordered_sampler,
    require_count,
    sampler_length,
)
from adjoint.utils.data.worker import Ended, Items, Start, Stream, base_seed, streamed

__all__ = ["DataLoader"]

T_co = TypeVar("T_co", covariant=True)

#: Attributes that are settled when a loader is made, because its samplers depend on them.
_SETTLED = ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset")


#: Batches per worker that are prepared or under way, if `prefetch_factor` is not given; as in PyTorch.
_DEPTH = 2


class DataLoader(Generic[T_co]):
    """Iterate over the batches of a dataset, as ``torch.utils.data.DataLoader``.

    Rows of a `TensorDataset`, also of a `Subset` of one, are copied by one NumPy call a tensor, in this process:
    workers could only be slower, and are not started. The items of other datasets are made one by one and collated, in
    this process when a batch is asked for, or by worker processes ahead of that (`adjoint.data.workers.WorkerPool`).
    Batches and their order do not depend on the number of workers, except for random numbers that items draw, and for
    the copies of an `IterableDataset` that each worker has.

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
        Number of processes that make batches. They use the dataset and `collate_fn`, and start with each iteration.
        In worker ``i``, the random numbers of Python, NumPy and adjoint are seeded with the sum of `i` and a number
        that follows from the state of `generator` and the number of the epoch.
    collate_fn : callable, optional
        Makes a batch of a list of items; default: `default_collate`, and `default_convert` without batches.
    pin_memory : bool, default False
        Accepted; no memory has to be pinned on a CPU.
    drop_last : bool, default False
        Whether to omit an incomplete last batch.
    timeout : float, default 0
        Seconds that workers may take for a batch after it is asked for; 0 for any time.
    worker_init_fn : callable, optional
        Called in each worker with its number, after seeding. `get_worker_info` has more about the worker.
    multiprocessing_context : str or context of multiprocessing, optional
        How workers start; default: ``"fork"`` on Linux, else ``"spawn"``.
    generator : Generator, optional
        Where `shuffle` takes random numbers from; default: the default generator (`adjoint.manual_seed`).
    prefetch_factor : int, optional
        Most batches of each worker that are prepared or under way; default 2.
    persistent_workers : bool, default False
        Whether workers continue to exist after an epoch, which saves the time of starting them; the dataset in them
        is the one that the first iteration saw.
    pin_memory_device : str, default ""
        Accepted; it is about other devices.
    in_order : bool, default True
        Whether workers' batches come in order. Otherwise each comes when it is ready, except for those of an
        `IterableDataset`.

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
        _check_workers(num_workers, timeout, prefetch_factor, worker_init_fn)
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
        self.sampler: Any = sampler
        self.batch_sampler: Any = batch_sampler
        batched = batch_size is not None or batch_sampler is not None
        self.collate_fn = collate_fn or (default_collate if batched else default_convert)
        self._epochs = Epochs(ordered_sampler(batch_sampler, sampler), generator)
        self._pool: WorkerPool | None = None
        #: Numbers that tell persistent workers when to begin an iterable dataset again.
        self._streams = itertools.count()
        self._settled = True

    def __setattr__(self, name: str, value: object) -> None:
        if name in _SETTLED and "_settled" in self.__dict__:
            raise InvalidValueError(
                f"DataLoader: {name} cannot be changed, got {value!r}; make another loader, which costs next to nothing"
            )
        super().__setattr__(name, value)

    def __iter__(self) -> Iterator[Any]:
        epoch = self._epochs.begin()
        return self._epochs.counted(epoch, self._batches(epoch))

    def epoch(self, number: int, start: int = 0) -> Iterator[Any]:
        """The batches of an epoch from batch `start` on, without drawing from the generator.

        It is what iteration would give after `number` epochs, counted from the state of the generator when this method
        or `arrays` is called first, so that a run can go on at the next batch. Items before `start` are not made,
        except those of an `IterableDataset`. If the dataset or a sampler of one's own has a method ``set_epoch``, that
        is called with `number`; what they draw at random otherwise is theirs.

        Parameters
        ----------
        number : int
            The epoch, counted from 0.
        start : int, default 0
            The first batch.

        Raises
        ------
        InvalidValueError
            If a number is below 0.
        """
        for what, given in (("number", number), ("start", start)):
            if isinstance(given, bool) or not isinstance(given, int | np.integer) or given < 0:
                raise InvalidValueError(
                    f"DataLoader.epoch: {what} must be an integer of at least 0, got {given!r}; choose another"
                )
        if not self._epochs.known:
            for owner in (self.dataset, self.sampler, self.batch_sampler):
                if callable(getattr(owner, "set_epoch", None)):
                    owner.set_epoch(int(number))
        return self._batches(self._epochs.numbered(int(number), int(start)))

    def state_dict(self) -> dict[str, Any]:
        """The position, JSON-able: the batches of the epoch in progress, and the generator's state at its beginning."""
        return self._epochs.state()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Let the next iteration begin where `state_dict` was called, in this process or an earlier one.

        Items before the position are not made, except those of an `IterableDataset`. Random numbers that items draw in
        workers, or from generators of their own, are not part of the position.

        Raises
        ------
        InvalidValueError
            If it is no such state.
        """
        self._epochs.load(state)

    def arrays(self) -> ArrayBatches | None:
        """The rows and orders of epochs as arrays, from which training loops gather batches in native code.

        Returns
        -------
        ArrayBatches or None
            With the orders of `epoch`. None unless the dataset is a `TensorDataset`, or a `Subset` of one, the sampler
            is one of this module, and batches are made by `default_collate`.
        """
        gather = self._gather()
        if gather is None or gather.single or not self._epochs.known:
            return None
        size, drop_last = self.batch_sampler.batch_size, self.batch_sampler.drop_last
        count = sampler_length(self.batch_sampler.sampler)
        if count < (size if drop_last else 1):
            return None

        def order(number: int) -> np.ndarray:
            drawn = self._epochs.numbered(number, 0).order
            return gather.numbers(() if drawn is None else drawn)

        tables = [Rows(tensor.elements().array) for tensor in gather.tensors]
        return ArrayBatches(tables, size, order, drop_last, rows=count)

    def _gather(self) -> Gather | None:
        """What copies rows of tensors, if there is nothing else to do."""
        if self.batch_sampler is None or self.collate_fn is not default_collate:
            return None
        return gather_of(self.dataset)

    def _batches(self, epoch: Epoch) -> Iterator[Any]:
        """The batches of an epoch that are left."""
        start, order = epoch.batches, epoch.order
        if isinstance(self.dataset, IterableDataset):
            return itertools.islice(self._streamed(epoch), start, None)
        gather = self._gather()
        if gather is not None:
            if order is None:
                return gather.batches(itertools.islice(self.batch_sampler, start, None))
            return gather.split(*self._whole(order, start))
        batched = self.batch_sampler is not None
        items = Items(self.dataset, self.collate_fn, batched)
        picked: Iterator[Any]
        if order is None:
            picked = itertools.islice(self.batch_sampler if batched else self.sampler, start, None)
        elif batched:
            rows, size = self._whole(order, start)
            picked = (rows[first : first + size].tolist() for first in range(0, len(rows), size))
        else:
            picked = iter(order[start:].tolist())
        if self.num_workers == 0:
            return map(items, picked)
        return self._results(self._workers(replace(items, sent=True), epoch), picked)

    def _whole(self, order: np.ndarray, start: int) -> tuple[np.ndarray, int]:
        """The indices from batch `start` on, without an incomplete batch that is left out, and the batch size."""
        size = self.batch_sampler.batch_size
        end = len(order) - len(order) % size if self.batch_sampler.drop_last else len(order)
        return order[start * size : end], size

    def _streamed(self, epoch: Epoch) -> Iterator[Any]:
        """The batches of an iterable dataset."""
        settings = self.dataset, self.collate_fn, self.batch_size, self.drop_last
        if self.num_workers == 0:
            return streamed(*settings)
        return self._in_turn(self._workers(Stream(*settings), epoch), next(self._streams))

    def _in_turn(self, pool: WorkerPool, stream: int) -> Iterator[Any]:
        """A batch of each worker in turn, until all have reached the end."""
        ended: set[int] = set()
        until = iter(lambda: len(ended) == self.num_workers, True)  # which is looked at before each item
        for batch in self._results(pool, (stream for _ in until), ordered=True):
            if type(batch) is Ended:
                ended.add(batch.worker)
            else:
                yield batch

    def _workers(self, function: Callable[[Any], Any], epoch: Epoch) -> WorkerPool:
        """The workers of an epoch, or persistent ones."""
        if self._pool is not None and not self._pool.closed:
            return self._pool
        seed = base_seed(*epoch.key, epoch.number)
        pool = WorkerPool(
            function,
            self.num_workers,
            context=self.multiprocessing_context,
            init=Start(self.dataset, self.num_workers, seed, self.worker_init_fn),
            timeout=self.timeout or None,
            depth=_DEPTH if self.prefetch_factor is None else self.prefetch_factor,
        )
        if self.persistent_workers:
            self._pool = pool
        return pool

    def _results(self, pool: WorkerPool, items: Iterator[Any], ordered: bool | None = None) -> Iterator[Any]:
        """What the workers make of items; the workers end with them unless they are persistent."""
        try:
            yield from pool.imap(items, ordered=self.in_order if ordered is None else ordered)
        finally:
            if pool is not self._pool:
                pool.close()

    def __len__(self) -> int:
        if not isinstance(self.dataset, IterableDataset):
            return sampler_length(self.sampler if self.batch_sampler is None else self.batch_sampler)
        count = length_of(self.dataset, "DataLoader")
        if self.batch_size is None:
            return count
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


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


def _check_workers(num_workers: object, timeout: object, prefetch_factor: object, function: object) -> None:
    """Raise if an argument about workers is out of range."""
    if isinstance(num_workers, bool) or not isinstance(num_workers, int | np.integer) or num_workers < 0:
        raise InvalidValueError(
            f"DataLoader: num_workers must be an integer of at least 0, got {num_workers!r}; choose another"
        )
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout >= 0:
        raise InvalidValueError(f"DataLoader: timeout must be at least 0 seconds, got {timeout}; choose another")
    if prefetch_factor is not None:
        require_count("DataLoader", "prefetch_factor", prefetch_factor)
    if function is not None and not callable(function):
        raise TypeRuleError(f"DataLoader: worker_init_fn must be callable, got {kind_of(function)}; pass a function")
