"""`take`, `skip` and `split`: some of the rows."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice
from math import fsum

import numpy as np

from adjoint.data.datasets.node import ENDLESS, Node, PickedRows, Row, View
from adjoint.data.draw import Draw
from adjoint.errors import InvalidValueError, TypeRuleError

__all__ = ["Part", "Select", "split_sizes"]


class Select(Node):
    """The rows from one position to another, of which there may be fewer.

    Parameters
    ----------
    source : Node
        The input.
    first : int
        The first row.
    count : int
        How many rows at most, or `ENDLESS`.
    """

    def __init__(self, source: Node, first: int, count: int = ENDLESS) -> None:
        super().__init__([source], source.columns, source.random_access)
        self._first, self._count = first, count

    def size(self) -> int | None:
        """As many as there are, at most the count."""
        whole = self.inputs[0].size()
        if whole is None:
            return 0 if self._count == 0 else None
        return self.clipped(whole)

    def clipped(self, whole: int) -> int:
        """How many of `whole` rows remain."""
        rest = ENDLESS if whole == ENDLESS else max(whole - self._first, 0)
        return min(rest, self._count)

    def view(self, draw: Draw) -> View:
        """The view of the input, shifted."""
        view = self.inputs[0].view(draw)
        return _ShiftedView(view, self._first, self.clipped(view.size))

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """The rows after those that are left out."""
        rows = self.inputs[0].rows(draw, self._first + start)
        return rows if self._count == ENDLESS else islice(rows, max(self._count - start, 0))

    def picked(self) -> PickedRows | None:
        """Part of the order of the input."""
        whole, size = self.inputs[0].picked(), self.size()
        if whole is None or size is None:
            return None
        rows = whole.batch_size or 1
        first, last = self._first * rows, min((self._first + size) * rows, whole.size)
        return replace(whole, order=lambda draw: whole.order(draw)[first:last], size=max(last - first, 0))


class _ShiftedView(View):
    def __init__(self, source: View, first: int, size: int) -> None:
        self._source, self._first, self.size = source, first, size

    def row(self, position: int) -> Row:
        return self._source.row(self._first + position)


class Part(Node):
    """One part of a split: rows from one position to another of an order that is the same in each epoch.

    Without it, rows that are shuffled anew in each epoch would pass from one part to another.
    """

    def __init__(self, source: Node, seed: int, randomize: bool, first: int, count: int) -> None:
        super().__init__([source], source.columns, source.random_access, draws=True)
        self._seed, self._randomize, self._first, self._count = seed, randomize, first, count

    def size(self) -> int | None:
        """The size of the part."""
        return self._count

    def _places(self) -> np.ndarray:
        """The positions of the part's rows."""
        size = self.inputs[0].size()
        if not self._randomize or size is None:
            return np.arange(self._first, self._first + self._count)
        places = Draw(self._seed, 0).permutation(self.random_stream, size)
        return places[self._first : self._first + self._count]

    def view(self, draw: Draw) -> View:
        """Rows of the view of the input."""
        return PermutedView(self.inputs[0].view(draw.in_order_of(self._seed)), self._places())

    def picked(self) -> PickedRows | None:
        """Part of the order of the input."""
        whole = self.inputs[0].picked()
        if whole is None or whole.batch_size is not None:
            return None
        return replace(
            whole, order=lambda draw: whole.order(draw.in_order_of(self._seed))[self._places()], size=self._count
        )


class PermutedView(View):
    """Rows of another view, in another order.

    Parameters
    ----------
    source : View
        The other view.
    places : numpy.ndarray
        Positions in it, int64.
    """

    def __init__(self, source: View, places: np.ndarray) -> None:
        self._source, self._places = source, places
        self.size = len(places)

    def row(self, position: int) -> Row:
        """The row at a position."""
        return self._source.row(int(self._places[position]))


def split_sizes(sizes: object, total: int) -> list[int]:
    """The sizes of the parts of a split, given as numbers of rows or as fractions that sum to 1.

    Of fractions, each part has the product with `total` rounded down; the rows that are left go one each to the first
    parts, as in PyTorch's ``random_split``.
    """
    if not isinstance(sizes, Sequence) or isinstance(sizes, str) or not sizes:
        raise TypeRuleError(f"split: sizes must be a list of integers or of fractions, got {sizes!r}; pass one")
    if all(isinstance(size, int | np.integer) and not isinstance(size, bool) and size > 0 for size in sizes):
        if sum(sizes) != total:
            raise InvalidValueError(
                f"split: sizes must sum to the number of rows, {total}, got {sum(sizes)}; change one, or take some rows"
            )
        return [int(size) for size in sizes]
    if not all(isinstance(size, float) and 0 < size <= 1 for size in sizes) or abs(fsum(sizes) - 1) > 1e-6:
        raise InvalidValueError(
            f"split: sizes must be positive integers, or fractions that sum to 1, got {list(sizes)}; change them"
        )
    parts = [int(total * size) for size in sizes]
    for place in range(total - sum(parts)):
        parts[place % len(parts)] += 1
    return parts
