"""Batches of windows of a text, for language models."""

import numpy as np

from adjoint.data.arrays import ArrayBatches, SeededOrder
from adjoint.data.batching import Rows
from adjoint.data.checking import require_count, require_flag, require_seed
from adjoint.errors import DataError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["LanguageModelWindows"]


@dataclass(frozen=True, slots=True)
class _WindowOrder:
    """The first `most` numbers of a seeded order."""

    order: SeededOrder
    most: int

    def __call__(self, epoch: int) -> np.ndarray:
        return self.order(epoch)[: self.most]


class LanguageModelWindows(ArrayBatches):
    """Batches of windows of a text and, as targets, of the same windows one token later.

    Training loops gather them from `ids` in native code, whether they overlap or not.

    Parameters
    ----------
    ids : numpy.ndarray
        Integers [N], the numbers of the tokens; in memory or memory-mapped. They are not copied.
    length : int
        Tokens in a window.
    batch_size : int
        Windows in a batch.
    stride : int, optional
        How far each window begins behind the one before; default: `length`, so that each token is a target once, except
        for the first one and those of an incomplete window at the end. With 1, windows begin everywhere.
    windows_per_epoch : int, optional
        How many windows there are in an epoch; default: all.
    shuffle : bool, default True
        Whether each epoch has another order, and with `windows_per_epoch` other windows.
    seed : int, default 0
        Seed of the orders, which are the same on every machine and with every version of NumPy.
    drop_last : bool, default False
        Whether to omit an incomplete last batch.

    Raises
    ------
    DataError
        If `ids` are not integers [N], or too few for a window.
    InvalidValueError
        If a number is out of range.

    Examples
    --------
    >>> data = LanguageModelWindows(np.arange(10), length=3, batch_size=2, shuffle=False)
    >>> [(x.tolist(), y.tolist()) for x, y in data]
    [([[0, 1, 2], [3, 4, 5]], [[1, 2, 3], [4, 5, 6]]), ([[6, 7, 8]], [[7, 8, 9]])]
    """

    def __init__(
        self,
        ids: np.ndarray,
        length: int,
        batch_size: int,
        *,
        stride: int | None = None,
        windows_per_epoch: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        name = "LanguageModelWindows"
        self.length = require_count(name, "length", length)
        self.stride = self.length if stride is None else require_count(name, "stride", stride)
        if not isinstance(ids, np.ndarray) or ids.ndim != 1 or ids.dtype.kind not in "iu":
            given = f"{ids.dtype} {list(ids.shape)}" if isinstance(ids, np.ndarray) else type(ids).__name__
            raise DataError(f"{name} takes the numbers of tokens, integers [N], got {given}; encode the text first")
        if len(ids) <= self.length:
            raise DataError(
                f"{name}: a window and its targets need {self.length + 1} tokens, got {len(ids)}; choose a shorter "
                "length"
            )
        tables = Rows(_windows(ids[:-1], self.length, self.stride)), Rows(_windows(ids[1:], self.length, self.stride))
        count = len(tables[0].array)
        most = count if windows_per_epoch is None else require_count(name, "windows_per_epoch", windows_per_epoch)
        if most > count:
            raise InvalidValueError(
                f"{name}: windows_per_epoch must be at most the number of windows, {count}, got {most}; choose a "
                "smaller stride"
            )
        order = SeededOrder(count, require_flag(name, "shuffle", shuffle), require_seed(name, seed))
        super().__init__(tables, batch_size, _WindowOrder(order, most), drop_last)


def _windows(ids: np.ndarray, length: int, stride: int) -> np.ndarray:
    """A view [windows, length] of a sequence."""
    if stride == length and ids.flags.c_contiguous:
        count = len(ids) // length
        return ids[: count * length].reshape(count, length)
    return np.lib.stride_tricks.sliding_window_view(ids, length)[::stride]
