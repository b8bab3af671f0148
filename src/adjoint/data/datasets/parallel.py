"""Compute items in parallel, in their order."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from adjoint.data.workers import WorkerPool
from adjoint.lazy_dataclass import dataclass

__all__ = ["NO_WORKERS", "Workers", "ordered"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Workers:
    """What computes rows in parallel. The maximum of several has most workers.

    Parameters
    ----------
    count : int
        How many workers; with 1, the caller computes.
    processes : bool, default False
        Whether they are processes instead of threads.
    """

    count: int
    processes: bool = False

    def __lt__(self, other: "Workers") -> bool:
        return (self.count, self.processes) < (other.count, other.processes)


NO_WORKERS = Workers(1)


def ordered(function: Callable[[Any], T], items: Iterable[Any], workers: Workers) -> Iterator[T]:
    """``function(item)`` of each item, in order, computed by workers that are a few items ahead."""
    if workers.count == 1 and not workers.processes:
        return map(function, items)
    return _in_pool(function, items, workers)


def _in_pool(function: Callable[[Any], T], items: Iterable[Any], workers: Workers) -> Iterator[T]:
    with WorkerPool(function, workers.count, kind="process" if workers.processes else "thread") as pool:
        yield from pool.imap(items)
