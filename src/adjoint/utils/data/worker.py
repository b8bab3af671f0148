"""What the workers of a `DataLoader` run: items, batches, and what a worker knows about itself."""

import itertools
import random
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.lazy_dataclass import dataclass
from adjoint.philox import philox_words
from adjoint.tensor.environment import set_num_threads
from adjoint.tensor.generator import manual_seed
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = ["Ended", "Items", "Start", "Stream", "WorkerInfo", "base_seed", "get_worker_info", "streamed"]

#: The second word of the key of seeds for workers: "workers".
_DOMAIN = 0x776F726B657273


@dataclass(frozen=True)
class WorkerInfo:
    """What `get_worker_info` returns.

    Attributes
    ----------
    id : int
        The number of the worker, from 0.
    num_workers : int
        How many there are.
    seed : int
        What Python's, NumPy's and adjoint's random numbers in the worker began with.
    dataset : dataset
        The worker's copy.
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


class _Here:
    """The information about this process, if it is a worker."""

    info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """In a worker process of a `DataLoader`, the information about it; elsewhere None."""
    return _Here.info


def base_seed(seed: int, draws: int, epoch: int) -> int:
    """The seed of worker 0, from the state of a generator, of which nothing is drawn, and the number of the epoch."""
    return int(philox_words((seed, _DOMAIN), (0, draws, epoch), 1)[0] >> np.uint64(1))


@dataclass(frozen=True)
class Start:
    """What a worker does first: it seeds random numbers, and calls the user's function."""

    dataset: Any
    num_workers: int
    seed: int
    function: Callable[[int], object] | None

    def __call__(self, number: int) -> None:
        """Prepare the worker with this number."""
        seed = self.seed + number
        # The workers share the cores with each other and the training step, if they run programs at all.
        set_num_threads(1)
        random.seed(seed)
        np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
        manual_seed(seed)
        _Here.info = WorkerInfo(number, self.num_workers, seed, self.dataset)
        if self.function is not None:
            self.function(number)


@dataclass(frozen=True)
class Items:
    """Batches of items by their indices; or single items by index.

    Parameters
    ----------
    dataset : dataset
        With indices.
    collate : callable
        Makes a batch of a list of items, or converts a single one.
    batched : bool
        Whether it is called with lists of indices.
    sent : bool, default False
        Whether it runs in a worker.
    """

    dataset: Any
    collate: Callable[[Any], Any]
    batched: bool
    sent: bool = False

    def __call__(self, picked: Any) -> Any:
        """The batch with these indices, or the item with this one."""
        dataset = self.dataset
        together = getattr(dataset, "__getitems__", None) if self.batched else None
        if not self.batched:
            items = dataset[picked]
        elif together is not None:
            items = together(picked)
        else:
            items = [dataset[index] for index in picked]
        return _sent(self.collate(items)) if self.sent else self.collate(items)


@dataclass(frozen=True)
class Ended:
    """The end of the items of one worker."""

    worker: int


class Stream:
    """The next batch of an iterable dataset, of which each worker has a copy.

    Parameters
    ----------
    dataset : IterableDataset
        It looks at `get_worker_info` to leave the items of other workers out.
    collate, batch_size, drop_last
        As of the loader.
    """

    def __init__(self, dataset: Any, collate: Callable[[Any], Any], batch_size: int | None, drop_last: bool) -> None:
        self._settings = dataset, collate, batch_size, drop_last
        self._stream: int | None = None
        self._batches: Iterator[Any] = iter(())

    def __call__(self, stream: int) -> Any:
        """The next batch; with another number than before, the first one of a new iteration."""
        if stream != self._stream:
            self._stream, self._batches = stream, streamed(*self._settings)
        for batch in self._batches:
            return _sent(batch)
        info = get_worker_info()
        return Ended(0 if info is None else info.id)


def streamed(dataset: Any, collate: Callable[[Any], Any], batch_size: int | None, drop_last: bool) -> Iterator[Any]:
    """The batches of items that come one after the other."""
    items = iter(dataset)
    if batch_size is None:
        yield from map(collate, items)
        return
    while batch := list(itertools.islice(items, batch_size)):
        if len(batch) == batch_size or not drop_last:
            yield collate(batch)


class _Elements:
    """The elements of a tensor on their way to the parent, where they become a tensor in shared memory."""

    def __init__(self, array: np.ndarray) -> None:
        self._array = array

    def __reduce__(self) -> tuple[Any, ...]:
        return _received, (self._array,)


def _received(array: np.ndarray) -> Tensor:
    return from_array(array, copy=False)


def _sent(batch: Any) -> Any:
    """A batch with tensors in dicts, tuples and lists replaced by their elements; others are pickled as they are."""
    if type(batch) is Tensor and not batch.requires_grad:
        return _Elements(batch.elements().array)
    if type(batch) is dict:
        return {key: _sent(item) for key, item in batch.items()}
    if type(batch) is list:
        return [_sent(item) for item in batch]
    if isinstance(batch, tuple):
        items: Sequence[Any] = [_sent(item) for item in batch]
        if hasattr(batch, "_fields"):
            return type(batch)(*items)
        return tuple(items) if type(batch) is tuple else batch
    return batch
