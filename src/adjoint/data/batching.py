"""Batches of an in-memory dataset."""

from collections.abc import Iterator, Sequence
from math import isfinite, prod
from numbers import Real

import numpy as np

from adjoint.errors import DataError, InvalidValueError, plural
from adjoint.lazy_dataclass import dataclass

__all__ = ["Rows", "batches"]


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows that are converted batch by batch as they are gathered, for `Trainer.run_epoch`.

    Parameters
    ----------
    array : numpy.ndarray
        Shape [N, ...]. Any number type is converted to floats, with rounding if necessary, and integers to integer
        types that can hold all their values: uint8 images for a model that takes float32, uint8 labels for a loss that
        takes int64.
    scale : float, default 1.0
        Factor for every element after conversion, in the target dtype, which must be a float unless the factor is 1.
    dtype : str or numpy dtype, optional
        The target dtype; default: that of the step's input.

    Examples
    --------
    >>> images = Rows(np.zeros((60000, 784), np.uint8), scale=1 / 255)
    """

    array: np.ndarray
    scale: float = 1.0
    dtype: object | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.array, np.ndarray) or self.array.ndim < 1:
            given = "a 0-d one" if isinstance(self.array, np.ndarray) else type(self.array).__name__
            raise DataError(f"Rows takes an array [N, ...], got {given}; stack the rows along axis 0")
        if isinstance(self.scale, bool) or not isinstance(self.scale, Real) or not isfinite(self.scale):
            raise InvalidValueError(f"Rows: scale is a finite number, got {self.scale!r}")


def batches(
    images: np.ndarray,
    labels: np.ndarray,
    batch_size: int,
    seed: int | Sequence[int] = 0,
    shuffle: bool = True,
    drop_last: bool = True,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Iterate once over images and labels, batch by batch.

    Parameters
    ----------
    images : numpy.ndarray
        uint8 [N, ...].
    labels : numpy.ndarray
        [N], any dtype.
    batch_size : int
        Number of rows per batch.
    seed : int or sequence of int, default 0
        Seed of the order, for example ``(seed, epoch)``; equal seeds give equal orders on any machine.
    shuffle : bool, default True
        Whether to visit the rows in random order.
    drop_last : bool, default True
        Whether to omit an incomplete last batch; compiled steps have a fixed batch size.

    Yields
    ------
    tuple of numpy.ndarray
        Images float32 [B, prod(...)], divided by 255 and C-contiguous; labels [B].

    Raises
    ------
    DataError
        If `images` are not uint8, or there is not one label per image.
    InvalidValueError
        If `batch_size` is below 1, or there are fewer rows than a batch and incomplete ones are dropped.
    """
    if images.dtype != np.uint8 or images.ndim < 1:
        raise DataError(f"batches takes images as uint8 [N, ...], got {images.dtype} {images.shape}; convert them")
    if labels.shape != images.shape[:1]:
        raise DataError(f"batches needs one label an image, got {labels.shape} for {plural(len(images), 'image')}")
    if batch_size < 1 or (drop_last and batch_size > len(images)):
        raise InvalidValueError(
            f"batch_size must be from 1 to the number of images, {len(images)}, got {batch_size}; choose another"
        )
    return _batches(images, labels, batch_size, seed, shuffle, drop_last)


def _batches(
    images: np.ndarray, labels: np.ndarray, size: int, seed: int | Sequence[int], shuffle: bool, drop_last: bool
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The generator, separate so that `batches` checks its arguments when called, not at the first batch."""
    count = len(images)
    rows = images.reshape(count, prod(images.shape[1:]))
    order = np.random.default_rng(seed).permutation(count) if shuffle else np.arange(count)
    for start in range(0, count - size + 1 if drop_last else count, size):
        picked = order[start : start + size]
        # Dividing the uint8 rows writes float32 directly: the only copy besides the gather.
        yield np.divide(rows[picked], np.float32(255), dtype=np.float32), labels[picked]
