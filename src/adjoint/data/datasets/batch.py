"""`batch` and `padded_batch`: several rows as one."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count, islice
from typing import Any

import numpy as np

from adjoint.data.arrays import converted
from adjoint.data.batching import Rows
from adjoint.data.checking import names_of, require_columns, require_count, require_flag
from adjoint.data.datasets.node import ENDLESS, Node, PickedRows, Row, View
from adjoint.data.datasets.parallel import Workers
from adjoint.data.datasets.stacking import Padding, pad_rows, stack_rows
from adjoint.data.datasets.user_function import UserFunction
from adjoint.data.draw import Draw
from adjoint.errors import DataError, plural
from adjoint.lazy_dataclass import dataclass

__all__ = ["Batch", "BatchInfo", "RowsMap", "rows_map"]


@dataclass(frozen=True, slots=True)
class BatchInfo:
    """Which batch a `per_batch_map` is called for.

    Parameters
    ----------
    epoch : int
        The epoch, counted from 0.
    batch : int
        The batch of the epoch, counted from 0.
    """

    epoch: int
    batch: int

    def get_epoch_num(self) -> int:
        """The epoch, counted from 0."""
        return self.epoch

    def get_batch_num(self) -> int:
        """The batch of the epoch, counted from 0."""
        return self.batch


@dataclass(frozen=True)
class RowsMap:
    """A function of the rows of a batch, before they are stacked.

    Parameters
    ----------
    function : UserFunction
        Called with a list of values per column, and a `BatchInfo`.
    inputs : tuple of int
        Places of these columns.
    outputs : tuple of str
        Names of the columns that take their place.
    """

    function: UserFunction
    inputs: tuple[int, ...]
    outputs: tuple[str, ...]

    def apply(self, rows: Sequence[Row], rng: object, draw: Draw, index: int) -> list[Row]:
        """The rows with other values."""
        lists = [[row[place] for row in rows] for place in self.inputs]
        made = self.function([*lists, BatchInfo(draw.epoch, index)], rng, draw, index)
        made = made if isinstance(made, tuple) else (made,)
        if len(made) != len(self.inputs):
            raise DataError(
                f"batch: per_batch_map must return a list of rows for each of {plural(len(self.inputs), 'column')}, "
                f"got {len(made)} for batch {index}; return as many"
            )
        columns: list[Any] = list(zip(*rows, strict=True))
        for place, values in zip(self.inputs, made, strict=True):
            columns[place] = values
        if len({len(values) for values in columns}) != 1:
            raise DataError(
                "batch: per_batch_map must return equally many rows for all columns, got "
                f"{', '.join(str(len(values)) for values in columns)} for batch {index}; name all columns in "
                "input_columns"
            )
        return list(zip(*columns, strict=True))


def rows_map(
    source: Node,
    function: object,
    input_columns: str | Sequence[str] | None,
    output_columns: str | Sequence[str] | None,
) -> RowsMap:
    """The function of a batch's rows, with its columns checked."""
    names = source.columns if input_columns is None else names_of("batch", "input_columns", input_columns)
    outputs = names if output_columns is None else names_of("batch", "output_columns", output_columns)
    if len(outputs) != len(names):
        raise DataError(
            f"batch: output_columns must have a name for each of {plural(len(names), 'column')}, got {len(outputs)}; "
            "name as many"
        )
    return RowsMap(UserFunction("batch", function), require_columns("batch", names, source.columns), outputs)


class Batch(Node):
    """`batch_size` rows as one: stacked, or padded to one shape and stacked."""

    def __init__(
        self,
        source: Node,
        batch_size: int,
        drop_remainder: bool,
        padding: Padding | None = None,
        rows_map: RowsMap | None = None,
        num_parallel_workers: int | None = None,
    ) -> None:
        self._name = "batch" if padding is None else "padded_batch"
        self._size = require_count(self._name, "batch_size", batch_size)
        self._drop = require_flag(self._name, "drop_remainder", drop_remainder)
        self._padding, self._map = padding, rows_map
        columns = list(source.columns)
        if rows_map is not None:
            for place, column in zip(rows_map.inputs, rows_map.outputs, strict=True):
                columns[place] = column
        draws = rows_map is not None and rows_map.function.takes_rng
        super().__init__([source], columns, source.random_access, draws)
        self.batch_size = source.batch_size * self._size
        workers = Workers(require_count(self._name, "num_parallel_workers", num_parallel_workers or 1))
        self.workers = max(self.workers, workers)

    def size(self) -> int | None:
        """The number of batches."""
        return self.batches(self.inputs[0].size())

    def batches(self, rows: int | None) -> int | None:
        """How many batches that many rows make."""
        if rows is None or rows == ENDLESS:
            return rows
        return rows // self._size if self._drop else -(-rows // self._size)

    def stacked(self, rows: Sequence[Row], draw: Draw, index: int) -> Row:
        """The batch with this index."""
        first = index * self._size
        if self._map is not None:
            rng = draw.generator(self.random_stream, index) if self._map.function.takes_rng else None
            rows = self._map.apply(rows, rng, draw, index)
        if self._padding is not None:
            return pad_rows(self._name, self.columns, rows, first, self._padding)
        return stack_rows(self._name, self.columns, rows, first)

    def view(self, draw: Draw) -> View:
        """Batches that are made when they are asked for; of rows of arrays by one NumPy call a column."""
        picked = None if self._map or self._padding is not None else self.inputs[0].picked()
        if picked is not None and picked.batch_size is None:
            return _GatheredView(picked.tables, picked.order(draw), self._size, self._drop)
        view = self.inputs[0].view(draw)
        return _BatchView(self, view, draw, self._size, self.batches(view.size) or 0)

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """Batches of rows as they come."""
        rows = self.inputs[0].rows(draw, start * self._size)
        for index in count(start):
            batch = list(islice(rows, self._size))
            if not batch or (self._drop and len(batch) < self._size):
                return
            yield self.stacked(batch, draw, index)

    def picked(self) -> PickedRows | None:
        """The rows of the batches."""
        whole = None if self._map or self._padding is not None else self.inputs[0].picked()
        if whole is None or whole.batch_size is not None:
            return None
        size = whole.size - whole.size % self._size if self._drop else whole.size
        return replace(
            whole, order=lambda draw: whole.order(draw)[:size], size=size, batch_size=self._size, drop_last=self._drop
        )


class _BatchView(View):
    def __init__(self, node: Batch, source: View, draw: Draw, rows: int, size: int) -> None:
        self._node, self._source, self._draw, self._rows, self.size = node, source, draw, rows, size

    def row(self, position: int) -> Row:
        first = position * self._rows
        rows = [self._source.row(place) for place in range(first, min(first + self._rows, self._source.size))]
        return self._node.stacked(rows, self._draw, position)


class _GatheredView(View):
    def __init__(self, tables: Sequence[Rows], order: np.ndarray, rows: int, drop: bool) -> None:
        self._tables, self._order, self._rows = tables, order, rows
        self.size = len(order) // rows if drop else -(-len(order) // rows)

    def row(self, position: int) -> Row:
        picked = self._order[position * self._rows : (position + 1) * self._rows]
        return tuple(converted(table, picked) for table in self._tables)
