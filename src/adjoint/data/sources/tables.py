"""What sources are made of: rows of arrays, rows by index, and rows one after the other."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from adjoint.data.arrays import converted
from adjoint.data.batching import Rows
from adjoint.data.datasets.node import Node, PickedRows, Row, View
from adjoint.data.datasets.parallel import Workers
from adjoint.data.draw import Draw
from adjoint.data.samplers import Sampler

__all__ = ["ArraySource", "BatchedSource", "IndexedSource", "StreamSource"]


class _Source(Node):
    """A source with random access, in the order of a sampler."""

    def __init__(self, columns: Sequence[str], count: int, sampler: Sampler, workers: int = 1) -> None:
        super().__init__((), columns, random_access=True, draws=True)
        self._count, self._sampler = count, sampler
        self._size = sampler.size(count)
        self.shard = sampler.shard
        self.workers = Workers(workers)

    def size(self) -> int | None:
        """The number of rows that the sampler picks."""
        return self._size

    def order(self, draw: Draw) -> np.ndarray:
        """The rows of an epoch."""
        return self._sampler.order(self._count, draw)


class ArraySource(_Source):
    """Rows of arrays.

    Parameters
    ----------
    tables : sequence of numpy.ndarray or Rows
        One array [N, ...] per column, with equally many rows, and its conversion.
    columns : sequence of str
        Names of the columns.
    sampler : Sampler
        The order.
    """

    def __init__(self, tables: Sequence[np.ndarray | Rows], columns: Sequence[str], sampler: Sampler) -> None:
        self._tables = tuple(table if isinstance(table, Rows) else Rows(table) for table in tables)
        super().__init__(columns, len(self._tables[0].array), sampler)

    def view(self, draw: Draw) -> View:
        """The rows of the arrays, which are views of them."""
        return _ArrayView(self._tables, self.order(draw))

    def picked(self) -> PickedRows | None:
        """The arrays and the order."""
        return PickedRows(self._tables, self.order, self._size)


class _ArrayView(View):
    def __init__(self, tables: Sequence[Rows], order: np.ndarray) -> None:
        self._tables = [table.array if table.scale == 1 and table.dtype is None else table for table in tables]
        self._order = order
        self.size = len(order)

    def row(self, position: int) -> Row:
        place = self._order[position]
        return tuple(converted(table, place) if isinstance(table, Rows) else table[place] for table in self._tables)


class IndexedSource(_Source):
    """Rows by index.

    Parameters
    ----------
    read : callable
        ``read(index)``, a tuple with a value per column; called from several threads if there are several workers.
    columns : sequence of str
        Names of the columns.
    count : int
        The number of rows.
    sampler : Sampler
        The order.
    workers : int, default 1
        How many threads read.
    """

    def __init__(
        self, read: Callable[[int], Row], columns: Sequence[str], count: int, sampler: Sampler, workers: int = 1
    ) -> None:
        super().__init__(columns, count, sampler, workers)
        self._read = read

    def view(self, draw: Draw) -> View:
        """Rows that are read when they are asked for."""
        return _IndexedView(self._read, self.order(draw).tolist())


class _IndexedView(View):
    def __init__(self, read: Callable[[Any], Row], order: Sequence[Any]) -> None:
        self._read, self._order = read, order
        self.size = len(order)

    def row(self, position: int) -> Row:
        return self._read(self._order[position])


class BatchedSource(Node):
    """Batches whose indices a batch sampler lists.

    Parameters
    ----------
    read : callable
        ``read(indices)``, a tuple with a value per column.
    columns : sequence of str
        Names of the columns.
    batches : iterable
        The indices of each batch, the same whenever it is iterated over.
    """

    def __init__(
        self, read: Callable[[Sequence[int]], Row], columns: Sequence[str], batches: Iterable[Sequence[int]]
    ) -> None:
        super().__init__((), columns, random_access=True, draws=True)
        self._read, self._batches = read, batches
        first = self._indices()
        self._size = len(first)
        self.batch_size = len(first[0]) if first else 1

    def _indices(self) -> list[list[int]]:
        return [list(batch) for batch in self._batches]

    def size(self) -> int | None:
        """The number of batches."""
        return self._size

    def view(self, draw: Draw) -> View:  # noqa: ARG002 - the batch sampler decides
        """Batches that are read when they are asked for."""
        return _IndexedView(self._read, self._indices())


class StreamSource(Node):
    """Rows one after the other.

    Parameters
    ----------
    begin : callable
        ``begin(epoch)``, an iterator of rows, always the same for the same epoch.
    columns : sequence of str
        Names of the columns.
    count : int or None
        The number of rows, if it is known.
    most : int or None, default None
        At most how many rows are taken.
    """

    def __init__(
        self, begin: Callable[[int], Iterator[Row]], columns: Sequence[str], count: int | None, most: int | None = None
    ) -> None:
        super().__init__((), columns, random_access=False, draws=True)
        self._begin, self._most = begin, most
        self._count = count if count is None or most is None else min(count, most)

    def size(self) -> int | None:
        """The number of rows, if it is known."""
        return self._count

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows; those before `start` are read and discarded."""
        # Parts of a split have rows in a fixed order, but only sources with random access are split.
        return islice(self._begin(draw.epoch), start, self._most)
