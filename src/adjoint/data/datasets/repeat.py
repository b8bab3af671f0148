"""`repeat`: several passes over the rows in each epoch, each in an order of its own."""

import threading
from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import replace
from itertools import count as counting
from typing import Any

import numpy as np

from adjoint.data.datasets.node import ENDLESS, Node, PickedRows, Row, View, size_of_times
from adjoint.data.draw import Draw

__all__ = ["Repeat"]

#: Repetitions whose orders are kept: the present one, and those that workers have not finished or have begun.
_MOST_VIEWS = 4

#: Repetitions that an endless dataset has in one epoch, as far as its random numbers are concerned.
_MOST_REPETITIONS = 2**32


class Repeat(Node):
    """The rows of the input `count` times, or for ever if it is `ENDLESS`."""

    def __init__(self, source: Node, count: int) -> None:
        super().__init__([source], source.columns, source.random_access)
        self._count = count
        self._numbered = min(count, _MOST_REPETITIONS)

    def size(self) -> int | None:
        """The size of the input times the count."""
        return size_of_times(self.inputs[0].size(), self._count)

    def repetition(self, draw: Draw, number: int) -> Draw:
        """The draw of one repetition."""
        return draw.repetition(number, self._numbered)

    def view(self, draw: Draw) -> View:
        """The views of all repetitions, made when they are needed."""
        return _RepeatedView(self, draw)

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows of one repetition after the other."""
        size = self.inputs[0].size()
        first, rest = divmod(start, size) if size else (0, start)
        for number in counting(first):
            if number >= self._count:
                return
            any_row = False
            for row in self.inputs[0].rows(self.repetition(draw, number), rest if size else 0):
                any_row = True
                if size or not rest:
                    yield row
                else:
                    rest -= 1
            if size:
                rest = 0
            if not any_row:
                return

    def picked(self) -> PickedRows | None:
        """The orders of all repetitions, one after the other."""
        whole = self.inputs[0].picked()
        if whole is None or self._count == ENDLESS or whole.size % (whole.batch_size or 1):
            return None

        def order(draw: Draw) -> np.ndarray:
            parts = [whole.order(self.repetition(draw, number)) for number in range(self._count)]
            return np.concatenate(parts) if parts else np.zeros(0, np.int64)

        return replace(whole, order=order, size=whole.size * self._count)


class _RepeatedView(View):
    def __init__(self, node: Repeat, draw: Draw) -> None:
        self._node, self._draw = node, draw
        self._each = node.inputs[0].size() or 0
        self.size = node.size() or 0
        self._views: OrderedDict[int, View] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _RepeatedView, (self._node, self._draw)  # in another process, without the lock

    def row(self, position: int) -> Row:
        number, place = divmod(position, self._each)
        return self._view(number).row(place)

    def _view(self, number: int) -> View:
        with self._lock:
            view = self._views.get(number)
            if view is None:
                view = self._node.inputs[0].view(self._node.repetition(self._draw, number))
                self._views[number] = view
                if len(self._views) > _MOST_VIEWS:
                    self._views.popitem(last=False)
            return view
