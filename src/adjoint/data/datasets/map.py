"""`map`: apply functions to columns."""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from typing import Any

from adjoint.data.checking import names_of, require_columns, require_count, require_flag
from adjoint.data.datasets.node import Node, Row, View
from adjoint.data.datasets.parallel import Workers, ordered
from adjoint.data.datasets.user_function import UserFunction, name_of
from adjoint.data.draw import Draw
from adjoint.errors import DataError, TypeRuleError, listed

__all__ = ["Map"]


class Map(Node):
    """Functions of some columns, one after the other, whose results take the place of these columns."""

    def __init__(
        self,
        source: Node,
        operations: object,
        input_columns: str | Sequence[str] | None,
        output_columns: str | Sequence[str] | None,
        num_parallel_workers: int | None,
        python_multiprocessing: bool,
    ) -> None:
        given = list(operations) if isinstance(operations, list | tuple) else [operations]
        if not given:
            raise TypeRuleError("map takes at least one function, got an empty list; pass one")
        self._functions = [UserFunction("map", each) for each in given]
        self._last = name_of(given[-1])
        there = source.columns
        if input_columns is None:
            self._inputs = tuple(range(self._functions[0].takes(len(there))))
        else:
            self._inputs = require_columns("map", names_of("map", "input_columns", input_columns), there)
        inputs = tuple(there[place] for place in self._inputs)
        self._outputs = inputs if output_columns is None else names_of("map", "output_columns", output_columns)
        columns = _placed(there, self._inputs, self._outputs)
        if len(set(columns)) != len(columns):
            raise DataError(f"map: columns must have different names, got {listed(columns, 12)}; rename output_columns")
        self._draws = any(each.takes_rng for each in self._functions)
        super().__init__([source], columns, source.random_access, self._draws)
        processes = require_flag("map", "python_multiprocessing", python_multiprocessing)
        self._own = Workers(require_count("map", "num_parallel_workers", num_parallel_workers or 1), processes)
        self.workers = max(self.workers, self._own)

    def view(self, draw: Draw) -> View:
        """Rows that are computed when they are asked for."""
        return _MapView(self, self.inputs[0].view(draw), draw)

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """Rows in the order of the input; those before `start` are not computed."""
        numbered = zip(count(start), self.inputs[0].rows(draw, start), strict=False)
        return ordered(partial(self._apply_numbered, draw), numbered, self._own)

    def _apply_numbered(self, draw: Draw, item: tuple[int, Row]) -> Row:
        return self.apply(item[1], draw, item[0])

    def apply(self, row: Row, draw: Draw, index: int) -> Row:
        """The row made of one with this index."""
        rng = draw.generator(self.random_stream, index) if self._draws else None
        values: Any = tuple(row[place] for place in self._inputs)
        for function in self._functions:
            values = function(values, rng, draw, index)
            if not isinstance(values, tuple):
                values = (values,)
        if len(values) != len(self._outputs):
            raise DataError(
                f"map: {self._last} must return a value for each of the columns {listed(self._outputs, 12)}, got "
                f"{len(values)} for item {index}; name the columns of its results in output_columns"
            )
        return _placed(row, self._inputs, values)


def _placed(row: Sequence[Any], places: Sequence[int], values: Sequence[Any]) -> tuple[Any, ...]:
    """A row with other values in place of some; if there are not as many, they come first, as in MindSpore."""
    if len(places) == len(values):
        whole = list(row)
        for place, value in zip(places, values, strict=True):
            whole[place] = value
        return tuple(whole)
    return (*values, *(value for place, value in enumerate(row) if place not in places))


class _MapView(View):
    def __init__(self, node: Map, source: View, draw: Draw) -> None:
        self._node, self._source, self._draw = node, source, draw
        self.size = source.size

    def row(self, position: int) -> Row:
        return self._node.apply(self._source.row(position), self._draw, position)
