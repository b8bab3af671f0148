"""Compute items in parallel, in their order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["NO_WORKERS", "Workers", "ordered"]

T = TypeVar("T")

#: Items in progress or waiting per worker: one that is computed, one that follows it at once.
_DEPTH = 2


@dataclass(frozen=True, slots=True, order=True)
class Workers:
    """What computes rows in parallel.

    Parameters
    ----------
    count : int
        How many workers; with 1, the caller computes.
    processes : bool, default False
        Whether they are processes instead of threads.
    """

    count: int
    processes: bool = False


NO_WORKERS = Workers(1)


def ordered(function: Callable[[Any], T], items: Iterable[Any], workers: Workers) -> Iterator[T]:
    """``function(item)`` of each item, in order, computed by workers that are a few items ahead."""
    if workers.count == 1:
        return map(function, items)
    return _in_threads(function, items, workers.count)


def _in_threads(function: Callable[[Any], T], items: Iterable[Any], count: int) -> Iterator[T]:
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(count, "adjoint-data") as pool:
        try:
            for item in items:
                waiting.append(pool.submit(function, item))
                if len(waiting) > _DEPTH * count:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
