"""`rename` and `project`: names and choice of columns."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from adjoint.data.datasets.node import Node, PickedRows, Row, View
from adjoint.data.draw import Draw

__all__ = ["Columns"]


class Columns(Node):
    """Some columns of the input, with other names.

    Parameters
    ----------
    source : Node
        The input.
    places : sequence of int
        Places of the columns in the input.
    names : sequence of str
        Their new names.
    """

    def __init__(self, source: Node, places: Sequence[int], names: Sequence[str]) -> None:
        super().__init__([source], names, source.random_access)
        self._places = tuple(places)
        self._same = self._places == tuple(range(len(source.columns)))

    def view(self, draw: Draw) -> View:
        """The view of the input with these columns."""
        view = self.inputs[0].view(draw)
        return view if self._same else _ColumnsView(view, self._places)

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows with these columns."""
        rows = self.inputs[0].rows(draw, start)
        return rows if self._same else (tuple(row[place] for place in self._places) for row in rows)

    def picked(self) -> PickedRows | None:
        """Some of the arrays."""
        whole = self.inputs[0].picked()
        return whole and replace(whole, tables=tuple(whole.tables[place] for place in self._places))


class _ColumnsView(View):
    def __init__(self, source: View, places: Sequence[int]) -> None:
        self._source, self._places = source, places
        self.size = source.size

    def row(self, position: int) -> Row:
        row = self._source.row(position)
        return tuple(row[place] for place in self._places)
