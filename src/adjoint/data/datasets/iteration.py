"""Iterators over the epochs of a dataset."""

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from adjoint.errors import InvalidValueError

__all__ = ["EpochIterator"]

T = TypeVar("T")


class EpochIterator(Generic[T]):
    """Iterates over one epoch each time that a loop begins.

    Parameters
    ----------
    epoch : callable
        ``epoch(number)``, an iterator over the elements of an epoch.
    num_epochs : int
        How many epochs there are; -1 for no limit.
    """

    def __init__(self, epoch: Callable[[int], Iterator[T]], num_epochs: int) -> None:
        self._epoch, self._most = epoch, num_epochs
        self._begun = 0
        self._current: Iterator[T] | None = None

    def __iter__(self) -> Iterator[T]:
        """The next epoch."""
        if self._begun == self._most:
            raise InvalidValueError(
                f"an iterator over a dataset has num_epochs epochs, {self._most}, got a loop over one more; pass a "
                "larger number or -1"
            )
        self._current = self._epoch(self._begun)
        self._begun += 1
        return self._current

    def __next__(self) -> T:
        """The next element of the epoch in progress, or of the first one."""
        return next(iter(self) if self._current is None else self._current)
