"""Padding of images."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.vision.base import as_batch, like_input, whole_numbers
from adjoint.errors import DataError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["PADDING_MODES", "Pad", "padded", "require_padding", "require_padding_mode"]

PADDING_MODES = ("constant", "edge", "reflect", "symmetric")


@dataclass(frozen=True)
class Pad:
    """A border around images.

    Parameters
    ----------
    padding : int or sequence of int
        Pixels on every side; a pair for left and right, top and bottom; or four numbers for left, top, right, bottom.
    fill : float or sequence of float, default 0
        Value of a constant border, or one for each channel.
    padding_mode : str, default "constant"
        ``"constant"``; ``"edge"`` repeats the outermost pixel; ``"reflect"`` mirrors at it, ``"symmetric"`` with it.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    DataError
        When called, if the image is too small to be mirrored, or `fill` has another number of channels.
    """

    padding: int | Sequence[int]
    fill: float | Sequence[float] = 0
    padding_mode: str = "constant"

    def __post_init__(self) -> None:
        require_padding("Pad", self.padding)
        require_padding_mode("Pad", self.padding_mode)

    def __call__(self, image: Any) -> np.ndarray:
        """The image with its border, in its dtype."""
        batch, axes = as_batch("Pad", image)
        sides = require_padding("Pad", self.padding)
        return like_input(padded("Pad", batch, sides, self.fill, self.padding_mode), axes)


def require_padding(name: str, given: object) -> tuple[int, int, int, int]:
    """Left, top, right and bottom, given as one, two or four numbers."""
    numbers = whole_numbers(given, 0)
    if len(numbers) not in (1, 2, 4):
        raise InvalidValueError(
            f"{name}: padding is one, two or four numbers of pixels from 0 on, got {given!r}; choose others"
        )
    left, top, right, bottom = (numbers * 4)[:4]
    return left, top, right, bottom


def require_padding_mode(name: str, given: object) -> None:
    """Raise unless there is such a mode."""
    if given not in PADDING_MODES:
        raise InvalidValueError(
            f"{name}: padding_mode is one of {', '.join(PADDING_MODES)}, got {given!r}; choose one of them"
        )


def padded(
    name: str, batch: np.ndarray, sides: tuple[int, int, int, int], fill: float | Sequence[float], mode: str
) -> np.ndarray:
    """A batch [N, H, W, C] with a border."""
    left, top, right, bottom = sides
    count, height, width, channels = batch.shape
    if mode != "constant":
        least = max(top, bottom) + (mode == "reflect"), max(left, right) + (mode == "reflect")
        if mode != "edge" and (height < least[0] or width < least[1]):
            raise DataError(
                f"{name}: to be mirrored, an image must have at least {least[0]} rows and {least[1]} columns, got "
                f"{height} and {width}; pad less"
            )
        border = ((0, 0), (top, bottom), (left, right), (0, 0))
        mirrored: np.ndarray = np.pad(batch, border, mode=mode)  # type: ignore[call-overload]
        return mirrored
    values = np.asarray(fill)
    if values.shape not in ((), (channels,)):
        raise DataError(
            f"{name}: fill is one number or one for each of {channels} channels, got {fill!r}; pass as many"
        )
    result = np.empty((count, height + top + bottom, width + left + right, channels), batch.dtype)
    result[...] = values.astype(batch.dtype)
    result[:, top : top + height, left : left + width] = batch
    return result
