"""`prefetch`: prepare rows in advance."""

from collections.abc import Callable, Iterator
from typing import Any

from adjoint.data.datasets.node import Node, PickedRows, Row, View
from adjoint.data.draw import Draw
from adjoint.data.prefetch import Prefetcher

__all__ = ["Ahead", "prefetched"]


class Ahead(Node):
    """The same rows, prepared by a thread some rows ahead of what takes them; see `Dataset.prefetch`."""

    def __init__(self, source: Node, depth: int) -> None:
        super().__init__([source], source.columns, source.random_access)
        self.ahead = max(self.ahead, depth)

    def view(self, draw: Draw) -> View:
        """That of the input."""
        return self.inputs[0].view(draw)

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """Those of the input."""
        return self.inputs[0].rows(draw, start)

    def picked(self) -> PickedRows | None:
        """Those of the input."""
        return self.inputs[0].picked()


def prefetched(make: Callable[[], Iterator[Any]], depth: int) -> Iterator[Any]:
    """The items of an iterator that is made here and advanced by a thread, up to `depth` items ahead."""
    with Prefetcher(_Source(make), depth) as ahead:
        yield from ahead


class _Source:
    """An iterable whose iterator the thread closes, because nothing else refers to it."""

    def __init__(self, make: Callable[[], Iterator[Any]]) -> None:
        self._make = make

    def __iter__(self) -> Iterator[Any]:
        return self._make()
