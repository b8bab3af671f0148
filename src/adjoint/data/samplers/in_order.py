"""Rows in an order that is given: sequential, listed, or by an iterable."""

from collections.abc import Iterable, Sequence

import numpy as np

from adjoint.data.checking import require_count
from adjoint.data.draw import Draw
from adjoint.data.samplers.base import Sampler, fewer, integers, optional_count, rows_below
from adjoint.errors import InvalidValueError

__all__ = ["IndexSampler", "SequentialSampler", "SubsetSampler"]


class SequentialSampler(Sampler):
    """Rows in ascending order.

    Parameters
    ----------
    start_index : int, default 0
        The first row.
    num_samples : int, optional
        How many; default: all that follow.
    """

    def __init__(self, start_index: int | None = None, num_samples: int | None = None) -> None:
        self._first = require_count("SequentialSampler", "start_index", start_index or 0, 0)
        self._most = optional_count("SequentialSampler", num_samples)

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - the order is always the same
        """The numbers from the first row on."""
        return np.arange(self._first, self._first + self.size(count))

    def size(self, count: int) -> int:
        """The rest of the rows, or the number of samples."""
        if self._first >= max(count, 1):
            raise InvalidValueError(
                f"SequentialSampler: start_index must be below the number of rows, {count}, got {self._first}; choose "
                "another"
            )
        return fewer(count - self._first, self._most)


class SubsetSampler(Sampler):
    """Some rows, in the given order.

    Parameters
    ----------
    indices : sequence of int
        The rows.
    num_samples : int, optional
        How many of them; default: all.
    """

    def __init__(self, indices: Sequence[int] | np.ndarray, num_samples: int | None = None) -> None:
        self._name = type(self).__name__
        self._indices = integers(self._name, indices)[: optional_count(self._name, num_samples)]

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - the order is always the same
        """The rows."""
        return rows_below(self._name, self._indices, count)

    def size(self, count: int) -> int:
        """How many are listed."""
        return len(rows_below(self._name, self._indices, count))


class IndexSampler(Sampler):
    """The rows that an iterable of integers lists anew in each epoch.

    An epoch can only be resumed if the iterable has the same integers again.

    Parameters
    ----------
    indices : iterable of int
        The rows.
    """

    def __init__(self, indices: Iterable[int]) -> None:
        self._indices = indices

    def order(self, count: int, draw: Draw) -> np.ndarray:  # noqa: ARG002 - the iterable decides
        """The integers."""
        return rows_below("sampler", list(self._indices), count)
