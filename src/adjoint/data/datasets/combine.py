"""`zip` and `concat`: several datasets as one."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from adjoint.data.datasets.node import ENDLESS, Node, Row, View, skipped
from adjoint.data.draw import Draw
from adjoint.errors import DataError, listed

__all__ = ["Concat", "Seeded", "Zip"]


class Seeded(Node):
    """A dataset with a seed of its own, within another one."""

    def __init__(self, source: Node, seed: int) -> None:
        super().__init__([source], source.columns, source.random_access)
        self._seed = seed

    def _own(self, draw: Draw) -> Draw:
        return Draw(self._seed, draw.epoch, None if draw.order_seed is None else self._seed)

    def view(self, draw: Draw) -> View:
        """The view with its own seed."""
        return self.inputs[0].view(self._own(draw))

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows with its own seed."""
        return self.inputs[0].rows(self._own(draw), start)


class Zip(Node):
    """Rows with the columns of several datasets side by side, as many as the shortest has."""

    def __init__(self, sources: Sequence[Node]) -> None:
        columns = [column for source in sources for column in source.columns]
        twice = [column for place, column in enumerate(columns) if column in columns[:place]]
        if twice:
            raise DataError(
                f"zip: columns must have different names, got {twice[0]!r} twice; rename one with "
                f"rename({twice[0]!r}, ...)"
            )
        super().__init__(sources, columns, all(source.random_access for source in sources))

    def size(self) -> int | None:
        """That of the shortest."""
        sizes = [size for source in self.inputs if (size := source.size()) is not None]
        return min(sizes) if len(sizes) == len(self.inputs) else None

    def view(self, draw: Draw) -> View:
        """The views side by side."""
        return _ZippedView([source.view(draw.branch(number)) for number, source in enumerate(self.inputs)])

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows side by side."""
        parts = [source.rows(draw.branch(number), start) for number, source in enumerate(self.inputs)]
        for rows in zip(*parts, strict=False):
            yield tuple(value for row in rows for value in row)


class _ZippedView(View):
    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self.size = min(view.size for view in views)

    def row(self, position: int) -> Row:
        return tuple(value for view in self._views for value in view.row(position))


class Concat(Node):
    """The rows of several datasets, one after the other."""

    def __init__(self, sources: Sequence[Node]) -> None:
        for source in sources[1:]:
            if source.columns != sources[0].columns:
                raise DataError(
                    f"concat: all datasets must have the columns {listed(sources[0].columns, 12)}, got "
                    f"{listed(source.columns, 12)}; rename or project them"
                )
        super().__init__(sources, sources[0].columns, all(source.random_access for source in sources))

    def size(self) -> int | None:
        """The sum of the sizes."""
        total = 0
        for source in self.inputs:
            size = source.size()
            if size is None:
                return None
            total = min(total + size, ENDLESS)
        return total

    def view(self, draw: Draw) -> View:
        """The views one after the other."""
        return _JoinedView([source.view(draw.branch(number)) for number, source in enumerate(self.inputs)])

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows one after the other; datasets of known size that are skipped are not computed."""
        for number, source in enumerate(self.inputs):
            size = source.size()
            if size is None:
                rest = skipped(self._chained(draw, number), start)
                yield from rest
                return
            if start < size:
                yield from source.rows(draw.branch(number), start)
            start = max(start - size, 0)

    def _chained(self, draw: Draw, first: int) -> Iterator[Row]:
        for number in range(first, len(self.inputs)):
            yield from self.inputs[number].rows(draw.branch(number))


class _JoinedView(View):
    def __init__(self, views: Sequence[View]) -> None:
        self._views = views
        self._ends = list(accumulate(view.size for view in views))
        self.size = min(self._ends[-1], ENDLESS)

    def row(self, position: int) -> Row:
        number = bisect_right(self._ends, position)
        return self._views[number].row(position - (self._ends[number - 1] if number else 0))
