"""`shuffle`: rows in random order."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from adjoint.data.checking import require_count
from adjoint.data.datasets.node import ENDLESS, Node, PickedRows, Row, View, skipped
from adjoint.data.datasets.select import PermutedView
from adjoint.data.draw import Draw
from adjoint.errors import InvalidValueError

__all__ = ["Shuffle"]

#: Random words that are drawn at once for a buffer.
_CHUNK = 1024


class Shuffle(Node):
    """All rows in random order where there is random access, otherwise a random one of a buffer at a time."""

    def __init__(self, source: Node, buffer_size: int | None) -> None:
        whole = source.random_access and source.size() != ENDLESS
        super().__init__([source], source.columns, whole, draws=True)
        self._buffer = 0 if buffer_size is None else require_count("shuffle", "buffer_size", buffer_size)
        if not whole and not self._buffer:
            raise InvalidValueError(
                "shuffle: rows that come one after the other are shuffled in a buffer, got no buffer_size; pass one "
                "such as shuffle(1000)"
            )

    def view(self, draw: Draw) -> View:
        """The view of the input in another order."""
        view = self.inputs[0].view(draw)
        return PermutedView(view, draw.permutation(self.random_stream, view.size))

    def picked(self) -> PickedRows | None:
        """The order of the input in another order."""
        whole = self.inputs[0].picked()
        if whole is None or whole.batch_size is not None:
            return None

        def order(draw: Draw) -> np.ndarray:
            found: np.ndarray = whole.order(draw)[draw.permutation(self.random_stream, whole.size)]
            return found

        return replace(whole, order=order)

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """Rows drawn from the buffer; those before `start` are computed and discarded."""
        return skipped(self._drawn(draw), start)

    def _drawn(self, draw: Draw) -> Iterator[Row]:
        words = self._words(draw)
        buffer: list[Row] = []
        for row in self.inputs[0].rows(draw):
            if len(buffer) < self._buffer:
                buffer.append(row)
                continue
            place = next(words) * len(buffer) >> 64
            yield buffer[place]
            buffer[place] = row
        while buffer:
            place = next(words) * len(buffer) >> 64
            buffer[place], buffer[-1] = buffer[-1], buffer[place]
            yield buffer.pop()

    def _words(self, draw: Draw) -> Iterator[int]:
        """Random words one by one: those of chunks of growing numbers, so that none is kept."""
        chunk = 0
        while True:
            yield from draw.chunk(self.random_stream, chunk, _CHUNK).tolist()
            chunk += 1
