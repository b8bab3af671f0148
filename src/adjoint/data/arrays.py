"""Batches of rows of arrays, in memory or memory-mapped: what native code can gather without Python."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from adjoint.data.batching import Rows
from adjoint.data.checking import names_of, require_count, require_flag, require_seed
from adjoint.data.draw import Draw
from adjoint.errors import DataError, InvalidValueError, TypeRuleError, kind_of, listed
from adjoint.lazy_dataclass import dataclass

__all__ = ["ArrayBatches", "ArrayDataset", "SeededOrder", "converted"]


@dataclass(frozen=True, slots=True)
class SeededOrder:
    """The numbers below `count`: a permutation for each epoch, or always ascending.

    Parameters
    ----------
    count : int
        How many rows there are.
    shuffle : bool
        Whether the order is random.
    seed : int
        Seed of the order, which is the same on every machine and with every version of NumPy.
    """

    count: int
    shuffle: bool = True
    seed: int = 0

    def __call__(self, epoch: int) -> np.ndarray:
        """The order of an epoch, int64 [count]."""
        return Draw(self.seed, epoch).permutation(0, self.count) if self.shuffle else np.arange(self.count)


class ArrayBatches:
    """Batches of rows of arrays, of which nothing is computed but the conversion to another dtype and scale.

    A training loop takes the tables and the orders, and gathers the rows in native code. Iteration gives the same
    batches as NumPy arrays.

    Parameters
    ----------
    tables : sequence of Rows
        The arrays [N, ...] and their conversions: inputs first, then targets.
    batch_size : int
        Number of rows per batch.
    order : callable
        ``order(epoch)``, int64: the rows of an epoch in order, of which some may be repeated or left out. All epochs
        have the same number of rows.
    drop_last : bool, default False
        Whether to omit an incomplete last batch.
    columns : sequence of str, optional
        Names of the arrays.
    rows : int, optional
        The number of rows of an epoch, if it is known without an order.

    Attributes
    ----------
    tables, batch_size, drop_last, columns
        The arguments; `tables` and `columns` as tuples.

    Raises
    ------
    DataError
        If there is no array, or the numbers of rows differ.
    InvalidValueError
        If `batch_size` is below 1, or incomplete batches are dropped and there are fewer rows than a batch.
    TypeRuleError
        If a table is something else.
    """

    def __init__(
        self,
        tables: Sequence[Rows],
        batch_size: int,
        order: Callable[[int], np.ndarray],
        drop_last: bool = False,
        columns: Sequence[str] | None = None,
        rows: int | None = None,
    ) -> None:
        name = type(self).__name__
        self.tables = tuple(tables)
        self.batch_size = require_count(name, "batch_size", batch_size)
        self.drop_last = require_flag(name, "drop_last", drop_last)
        self.columns = None if columns is None else names_of(name, "columns", columns)
        self._order = order
        self._check(name)
        self._rows = len(order(0)) if rows is None else rows
        self._iterations = 0
        if self.drop_last and self._rows < self.batch_size:
            raise InvalidValueError(
                f"{name}: batch_size must be at most the number of rows, {self._rows}, where incomplete batches are "
                f"dropped, got {self.batch_size}; choose another"
            )

    def _check(self, name: str) -> None:
        for table in self.tables:
            if not isinstance(table, Rows):
                raise TypeRuleError(f"{name}: tables must be Rows, got {kind_of(table)}; wrap arrays in Rows(array)")
        counts = [len(table.array) for table in self.tables]
        if not counts:
            raise DataError(f"{name} takes at least one array, got none; pass the inputs and the targets")
        if len(set(counts)) != 1:
            raise DataError(
                f"{name} takes arrays with equally many rows, got {listed(counts)}; shorten the longer ones"
            )
        if self.columns is not None and len(self.columns) != len(counts):
            raise DataError(
                f"{name}: columns must have {len(counts)} names, got {listed(self.columns)}; name each array"
            )

    def order(self, epoch: int) -> np.ndarray:
        """The rows of an epoch, in order.

        Parameters
        ----------
        epoch : int
            Counted from 0.

        Returns
        -------
        numpy.ndarray
            int64, C-contiguous. With `drop_last`, rows of the incomplete batch are included.
        """
        return np.ascontiguousarray(self._order(require_count(type(self).__name__, "epoch", epoch, 0)), np.int64)

    def __len__(self) -> int:
        """Batches per epoch."""
        return self._rows // self.batch_size if self.drop_last else -(-self._rows // self.batch_size)

    def epoch(self, number: int, start: int = 0) -> Iterator[tuple[np.ndarray, ...]]:
        """The batches of an epoch from batch `start` on, converted.

        Parameters
        ----------
        number : int
            The epoch, counted from 0.
        start : int, default 0
            The first batch.

        Yields
        ------
        tuple of numpy.ndarray
            One array [B, ...] per table.
        """
        start = require_count(type(self).__name__, "start", start, 0)
        return self._batches(self.order(number), start)

    def _batches(self, order: np.ndarray, start: int) -> Iterator[tuple[np.ndarray, ...]]:
        size = self.batch_size
        for first in range(start * size, len(self) * size, size):
            picked = order[first : first + size]
            yield tuple(converted(table, picked) for table in self.tables)

    def __iter__(self) -> Iterator[tuple[np.ndarray, ...]]:
        """The batches of the next epoch: the first iteration is epoch 0."""
        number, self._iterations = self._iterations, self._iterations + 1
        return self.epoch(number)

    def arrays(self) -> "ArrayBatches":
        """The object itself, which tells training loops that they can gather the rows in native code."""
        return self


class ArrayDataset(ArrayBatches):
    """Batches of rows of arrays in random order.

    Parameters
    ----------
    *arrays : numpy.ndarray or Rows
        Shape [N, ...] each, in memory or memory-mapped: the inputs first, then the targets.
    batch_size : int
        Number of rows per batch.
    shuffle : bool, default True
        Whether each epoch has another order.
    seed : int, default 0
        Seed of the orders, which are the same on every machine and with every version of NumPy.
    drop_last : bool, default False
        Whether to omit an incomplete last batch.
    scale : float or sequence of float, default 1.0
        Factor after the conversion. One number is that of the first array; a sequence has one for each array.
    dtype : dtype or sequence of dtype, optional
        The dtype to convert to. One dtype is that of the first array; a sequence has one, or None, for each array.
        Default: the one that the step takes; in iteration float32 for integers with a scale, otherwise the array's.
    columns : sequence of str, optional
        Names of the arrays.

    Raises
    ------
    DataError
        If there is no array, or the numbers of rows differ.
    InvalidValueError
        If a number is out of range.
    TypeRuleError
        If something else than an array is given.

    Examples
    --------
    >>> data = ArrayDataset(np.zeros((10, 2), np.uint8), np.arange(10), batch_size=4, scale=1 / 255)
    >>> [(x.shape, x.dtype.name) for x, y in data]
    [((4, 2), 'float32'), ((4, 2), 'float32'), ((2, 2), 'float32')]
    """

    def __init__(
        self,
        *arrays: np.ndarray | Rows,
        batch_size: int,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
        scale: float | Sequence[float] = 1.0,
        dtype: object | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        scales = _each("scale", scale, 1.0, len(arrays))
        dtypes = _each("dtype", dtype, None, len(arrays))
        tables = [_rows(*given) for given in zip(arrays, scales, dtypes, strict=True)]
        order = SeededOrder(
            len(tables[0].array) if tables else 0,
            require_flag("ArrayDataset", "shuffle", shuffle),
            require_seed("ArrayDataset", seed),
        )
        super().__init__(tables, batch_size, order, drop_last, columns)


def _each(what: str, given: object, default: object, count: int) -> list[object]:
    """One value for each array: those of a sequence, or one value for the first array."""
    if isinstance(given, list | tuple):
        if len(given) != count:
            raise InvalidValueError(
                f"ArrayDataset: {what} must be one value or one for each of {count} arrays, got {len(given)}; pass "
                "as many"
            )
        return list(given)
    return [given, *[default] * (count - 1)][:count]


def _rows(given: object, scale: object, dtype: object) -> Rows:
    if isinstance(given, Rows):
        if scale != 1.0 or dtype is not None:
            raise InvalidValueError(
                "ArrayDataset: Rows have a scale and a dtype of their own, got another one for them; leave it out"
            )
        return given
    if not isinstance(given, np.ndarray):
        raise TypeRuleError(
            f"ArrayDataset takes NumPy arrays [N, ...], got {kind_of(given)}; convert it with numpy.asarray"
        )
    return Rows(given, scale, dtype)  # type: ignore[arg-type]


def converted(table: Rows, rows: np.ndarray) -> np.ndarray:
    """Rows of a table, or a single one, in its dtype and scale.

    As in native code, the factor is rounded to the dtype, and multiplies after the conversion.
    """
    picked: np.ndarray = np.asarray(table.array)[rows]
    if table.dtype is not None:
        dtype = np.dtype(table.dtype)  # type: ignore[call-overload]
    elif table.scale != 1 and picked.dtype.kind in "iub":
        dtype = np.dtype(np.float32)
    else:
        dtype = picked.dtype
    picked = picked.astype(dtype, copy=False)
    if table.scale == 1:
        return picked
    if dtype.kind in "iub":
        raise InvalidValueError(f"Rows of {dtype} cannot be scaled, got scale {table.scale}; use 1, or a float dtype")
    scaled: np.ndarray = np.multiply(picked, dtype.type(table.scale), dtype=dtype)
    return scaled
