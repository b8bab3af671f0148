"""`filter`: leave out rows."""

from collections.abc import Iterator, Sequence

from adjoint.data.checking import names_of, require_columns
from adjoint.data.datasets.node import Node, Row, skipped
from adjoint.data.datasets.user_function import UserFunction
from adjoint.data.draw import Draw

__all__ = ["Filter"]


class Filter(Node):
    """Rows for which a function is true. How many there are is unknown before they are computed."""

    def __init__(self, source: Node, predicate: object, input_columns: str | Sequence[str] | None) -> None:
        self._predicate = UserFunction("filter", predicate)
        if input_columns is None:
            self._inputs = tuple(range(self._predicate.takes(len(source.columns))))
        else:
            names = names_of("filter", "input_columns", input_columns)
            self._inputs = require_columns("filter", names, source.columns)
        super().__init__([source], source.columns, False, self._predicate.takes_rng)

    def size(self) -> int | None:
        """Unknown."""
        return None

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows after the first `start` that remain."""
        return skipped(self._kept(draw), start)

    def _kept(self, draw: Draw) -> Iterator[Row]:
        draws = self._predicate.takes_rng
        for index, row in enumerate(self.inputs[0].rows(draw)):
            rng = draw.generator(self.random_stream, index) if draws else None
            if self._predicate([row[place] for place in self._inputs], rng, draw, index):
                yield row
