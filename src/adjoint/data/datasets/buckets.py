"""`bucket_batch_by_length`: batches of rows of similar lengths."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

from adjoint.data.checking import names_of, require_columns, require_count, require_flag
from adjoint.data.datasets.node import Node, Row, skipped
from adjoint.data.datasets.stacking import Padding, checked_padding, pad_rows
from adjoint.data.datasets.user_function import UserFunction
from adjoint.data.draw import Draw
from adjoint.errors import DataError, InvalidValueError, TypeRuleError, kind_of

__all__ = ["Buckets"]

_NAME = "bucket_batch_by_length"


class Buckets(Node):
    """Rows are collected in buckets by their length; a bucket that is full becomes a batch."""

    def __init__(
        self,
        source: Node,
        column_names: str | Sequence[str],
        bucket_boundaries: Sequence[int],
        bucket_batch_sizes: Sequence[int],
        element_length_function: object,
        pad_info: object,
        pad_to_bucket_boundary: bool,
        drop_remainder: bool,
    ) -> None:
        self._boundaries = [require_count(_NAME, "each of bucket_boundaries", each) for each in bucket_boundaries]
        if not self._boundaries or any(low >= high for low, high in pairwise(self._boundaries)):
            raise InvalidValueError(
                f"{_NAME}: bucket_boundaries must be ascending, got {list(bucket_boundaries)}; sort them"
            )
        self._sizes = [require_count(_NAME, "each of bucket_batch_sizes", each) for each in bucket_batch_sizes]
        if len(self._sizes) != len(self._boundaries) + 1:
            raise InvalidValueError(
                f"{_NAME}: bucket_batch_sizes must have one size more than there are boundaries, "
                f"{len(self._boundaries) + 1}, got {len(self._sizes)}; add one for rows beyond the last boundary"
            )
        names = names_of(_NAME, "column_names", column_names)
        self._measured = require_columns(_NAME, names, source.columns)
        self._length = None if element_length_function is None else UserFunction(_NAME, element_length_function)
        if self._length is None and len(names) != 1:
            raise TypeRuleError(
                f"{_NAME}: the length of a row is that of one column, got {len(names)} columns; pass an "
                "element_length_function of them"
            )
        self._padding = checked_padding(_NAME, source.columns, pad_info)
        self._to_boundary = require_flag(_NAME, "pad_to_bucket_boundary", pad_to_bucket_boundary)
        self._drop = require_flag(_NAME, "drop_remainder", drop_remainder)
        super().__init__([source], source.columns, False)
        self.batch_size = source.batch_size * self._sizes[0]

    def size(self) -> int | None:
        """Unknown."""
        return None

    def stream(self, draw: Draw, start: int) -> Iterator[Row]:
        """Batches as buckets become full, then the rest of each bucket."""
        return skipped(self._batches(draw), start)

    def _batches(self, draw: Draw) -> Iterator[Row]:
        buckets: list[list[tuple[int, Row]]] = [[] for _ in self._sizes]
        for index, row in enumerate(self.inputs[0].rows(draw)):
            place = bisect_right(self._boundaries, self._length_of(row, draw, index))
            bucket = buckets[place]
            bucket.append((index, row))
            if len(bucket) == self._sizes[place]:
                yield self._batch(bucket, place)
                bucket.clear()
        for place, bucket in enumerate(buckets):
            if bucket and not self._drop:
                yield self._batch(bucket, place)

    def _length_of(self, row: Row, draw: Draw, index: int) -> int:
        values = [row[place] for place in self._measured]
        length: Any = len(values[0]) if self._length is None else self._length(values, None, draw, index)
        try:
            return int(length)
        except (TypeError, ValueError):
            raise TypeRuleError(
                f"{_NAME}: element_length_function must return an integer, got {kind_of(length)} for item {index}; "
                "return a length"
            ) from None

    def _batch(self, bucket: Sequence[tuple[int, Row]], place: int) -> Row:
        first, rows = bucket[0][0], [row for _, row in bucket]
        if not self._to_boundary:
            return pad_rows(_NAME, self.columns, rows, first, self._padding)
        if place == len(self._boundaries):
            raise DataError(
                f"{_NAME}: rows that are padded to a boundary must be shorter than the last one, {self._boundaries[-1]}"
                f", item {first} is not; add a boundary or filter longer rows"
            )
        size = self._boundaries[place] - 1
        padding: Padding = {}
        for column, (shape, element) in self._padding.items():
            free = (None,) * getattr(rows[0][column], "ndim", 1) if shape is None else shape
            padding[column] = tuple(size if each is None else each for each in free), element
        return pad_rows(_NAME, self.columns, rows, first, padding)
