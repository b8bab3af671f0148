"""Parts of images."""

from collections.abc import Sequence
from math import exp, log, sqrt
from typing import Any

import numpy as np

from adjoint.data.transforms import require_generator
from adjoint.data.vision.base import as_batch, drawn_integers, like_input, require_interval, require_size
from adjoint.data.vision.padding import padded, require_padding, require_padding_mode
from adjoint.data.vision.resize import require_interpolation, resized
from adjoint.errors import DataError
from adjoint.lazy_dataclass import dataclass

__all__ = ["CenterCrop", "RandomCrop", "RandomResizedCrop", "drawn_box"]

#: How often a box is drawn until one fits into the image.
_ATTEMPTS = 10


@dataclass(frozen=True)
class CenterCrop:
    """The part of the image around its centre.

    Parameters
    ----------
    size : int or (int, int)
        Height and width, or the side of a square. Where the image is smaller, it gets a border of zeros.

    Raises
    ------
    InvalidValueError
        If the size is below 1.
    """

    size: int | tuple[int, int]

    def __post_init__(self) -> None:
        require_size("CenterCrop", self.size)

    def __call__(self, image: Any) -> np.ndarray:
        """The part of the image [H, W] or [H, W, C] or of each of a batch [N, H, W, C]."""
        batch, axes = as_batch("CenterCrop", image)
        height, width = require_size("CenterCrop", self.size)
        more_rows, more_columns = max(height - batch.shape[1], 0), max(width - batch.shape[2], 0)
        if more_rows or more_columns:
            sides = more_columns // 2, more_rows // 2, (more_columns + 1) // 2, (more_rows + 1) // 2
            batch = padded("CenterCrop", batch, sides, 0, "constant")
        top, left = round((batch.shape[1] - height) / 2), round((batch.shape[2] - width) / 2)
        return like_input(np.ascontiguousarray(batch[:, top : top + height, left : left + width]), axes)


@dataclass(frozen=True)
class RandomCrop:
    """A part of the image at a random place, after padding.

    Parameters
    ----------
    size : int or (int, int)
        Height and width of the part, or the side of a square.
    padding : int or sequence of int, optional
        A border that the image gets first: as in `Pad`.
    pad_if_needed : bool, default False
        Whether an image that is too small gets a border on both sides that makes it large enough.
    fill : float or sequence of float, default 0
        Value of a constant border, or one for each channel.
    padding_mode : str, default "constant"
        What the border consists of: as in `Pad`.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    TypeRuleError
        When called without a generator.
    DataError
        When called, if the image is smaller than the part.
    """

    size: int | tuple[int, int]
    padding: int | Sequence[int] | None = None
    pad_if_needed: bool = False
    fill: float | Sequence[float] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        require_size("RandomCrop", self.size)
        if self.padding is not None:
            require_padding("RandomCrop", self.padding)
        require_padding_mode("RandomCrop", self.padding_mode)

    def __call__(self, image: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """The part of the image [H, W] or [H, W, C]; of a batch [N, H, W, C], each image gives a part of its own."""
        draw = require_generator("RandomCrop", rng)
        batch, axes = as_batch("RandomCrop", image)
        height, width = require_size("RandomCrop", self.size)
        batch = self._padded(batch, height, width)
        count, rows, columns, channels = batch.shape
        if rows < height or columns < width:
            raise DataError(
                f"RandomCrop: the part must not be larger than the image with its padding, got {height} x {width} of "
                f"{rows} x {columns}; use pad_if_needed=True"
            )
        tops, lefts = drawn_integers(draw, rows - height + 1, count), drawn_integers(draw, columns - width + 1, count)
        result = np.empty((count, height, width, channels), batch.dtype)
        for part, whole, top, left in zip(result, batch, tops.tolist(), lefts.tolist(), strict=True):
            part[...] = whole[top : top + height, left : left + width]
        return like_input(result, axes)

    def _padded(self, batch: np.ndarray, height: int, width: int) -> np.ndarray:
        if self.padding is not None:
            sides = require_padding("RandomCrop", self.padding)
            batch = padded("RandomCrop", batch, sides, self.fill, self.padding_mode)
        more_rows, more_columns = max(height - batch.shape[1], 0), max(width - batch.shape[2], 0)
        if self.pad_if_needed and (more_rows or more_columns):
            sides = (more_columns, more_rows, more_columns, more_rows)
            batch = padded("RandomCrop", batch, sides, self.fill, self.padding_mode)
        return batch


@dataclass(frozen=True)
class RandomResizedCrop:
    """A part of random size, ratio and place, resized.

    Parameters
    ----------
    size : int or (int, int)
        Height and width of the result, or the side of a square.
    scale : (float, float), default (0.08, 1.0)
        Range of the part's share of the area.
    ratio : (float, float), default (3/4, 4/3)
        Range of the part's width divided by its height, from which its logarithm is drawn evenly.
    interpolation : str, default "bilinear"
        As in `Resize`.
    antialias : bool, default True
        As in `Resize`.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    TypeRuleError
        When called without a generator.

    Notes
    -----
    If ten drawn parts in a row do not fit into the image, it is the largest one around the centre whose ratio is in
    the range (Szegedy et al., arXiv:1409.4842, section 6; the fallback is torchvision's).
    """

    size: int | tuple[int, int]
    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        require_size("RandomResizedCrop", self.size)
        require_interval("RandomResizedCrop", "scale", self.scale, 1e-6)
        require_interval("RandomResizedCrop", "ratio", self.ratio, 1e-6)
        require_interpolation("RandomResizedCrop", self.interpolation)

    def __call__(self, image: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """The resized part; of a batch [N, H, W, C], each image gives a part of its own."""
        draw = require_generator("RandomResizedCrop", rng)
        batch, axes = as_batch("RandomResizedCrop", image)
        size = require_size("RandomResizedCrop", self.size)
        result = np.empty((len(batch), *size, batch.shape[3]), batch.dtype)
        for n in range(len(batch)):
            top, left, height, width = self._box(draw, batch.shape[1], batch.shape[2])
            part = batch[n : n + 1, top : top + height, left : left + width]
            result[n : n + 1] = resized(part, size, self.interpolation, self.antialias)
        return like_input(result, axes)

    def _box(self, rng: np.random.Generator, rows: int, columns: int) -> tuple[int, int, int, int]:
        """Top, left, height and width of a part."""
        for _ in range(_ATTEMPTS):
            if (box := drawn_box(rng, rows, columns, self.scale, self.ratio)) is not None:
                return box
        height, width = rows, columns
        if columns / rows < self.ratio[0]:
            height = max(1, round(columns / self.ratio[0]))
        elif columns / rows > self.ratio[1]:
            width = max(1, round(rows * self.ratio[1]))
        return (rows - height) // 2, (columns - width) // 2, height, width


def drawn_box(
    rng: np.random.Generator, rows: int, columns: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int] | None:
    """Top, left, height and width of a random part of an image; None if it does not fit.

    Parameters
    ----------
    rng : numpy.random.Generator
        Four numbers are drawn from it, whether the part fits or not.
    rows, columns : int
        Size of the image.
    scale : (float, float)
        Range of the part's share of the area.
    ratio : (float, float)
        Range of its width divided by its height.
    """
    share, shape, down, across = rng.random(4)
    area = rows * columns * (scale[0] + share * (scale[1] - scale[0]))
    low, high = log(ratio[0]), log(ratio[1])
    proportion = exp(low + shape * (high - low))
    height, width = round(sqrt(area / proportion)), round(sqrt(area * proportion))
    if not (0 < height <= rows and 0 < width <= columns):
        return None
    return int(down * (rows - height + 1)), int(across * (columns - width + 1)), height, width
