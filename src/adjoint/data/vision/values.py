"""Transforms of the values of pixels, and of the order of the axes."""

from collections.abc import Sequence
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from adjoint.data.vision.base import as_batch, like_input, to_floats
from adjoint.errors import DataError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["HWC2CHW", "Normalize", "Rescale", "ToTensor"]


@dataclass(frozen=True)
class Rescale:
    """``image * rescale + shift``, as floats.

    Parameters
    ----------
    rescale : float
        The factor, as 1 / 255.
    shift : float, default 0.0
        What is added.

    Raises
    ------
    InvalidValueError
        If a number is not finite.
    """

    rescale: float
    shift: float = 0.0

    def __post_init__(self) -> None:
        for what, given in (("rescale", self.rescale), ("shift", self.shift)):
            if isinstance(given, bool) or not isinstance(given, Real) or not isfinite(given):
                raise InvalidValueError(f"Rescale: {what} is a finite number, got {given!r}; choose another")

    def __call__(self, image: Any) -> np.ndarray:
        """float32 (float64 for float64) of the image's shape, which may be any."""
        values: np.ndarray = to_floats(np.asarray(image)) * np.float32(self.rescale)
        if self.shift:
            values += np.float32(self.shift)
        return values


@dataclass(frozen=True)
class Normalize:
    """``(image - mean) / std`` for each channel, as floats.

    Parameters
    ----------
    mean, std : sequence of float
        One number for each channel, or one for all. They are in the units of the pixels: of 0 to 255 for bytes, and of
        0 to 1 after `ToTensor`.
    is_hwc : bool, default True
        Whether the channels are the last axis, as before `ToTensor` and `HWC2CHW`; otherwise the first of an image.

    Raises
    ------
    InvalidValueError
        If a number is not finite, or a deviation not above 0.
    DataError
        When called, if the image has another number of channels.
    """

    mean: Sequence[float]
    std: Sequence[float]
    is_hwc: bool = True

    def __post_init__(self) -> None:
        for what, given in (("mean", self.mean), ("std", self.std)):
            if not isinstance(given, Sequence) or not given or not all(isinstance(n, Real) for n in given):
                raise InvalidValueError(
                    f"Normalize: {what} is a list of numbers, one for each channel, got {given!r}; pass a list"
                )
            if not all(isfinite(n) and (what == "mean" or n > 0) for n in given):
                kind = "finite numbers" if what == "mean" else "finite numbers above 0"
                raise InvalidValueError(f"Normalize: {what} must be {kind}, got {list(given)}; choose others")
        if len(self.mean) != len(self.std):
            raise InvalidValueError(
                f"Normalize: mean and std must have the same length, got {len(self.mean)} and {len(self.std)}; pass as "
                "many"
            )

    def __call__(self, image: Any) -> np.ndarray:
        """float32 (float64 for float64) of the image's shape: [H, W], [H, W, C] or [N, H, W, C], or with C before H."""
        array = np.asarray(image)
        as_batch("Normalize", array)  # refuses what is no image
        channels = 1 if array.ndim == 2 else array.shape[-1 if self.is_hwc else -3]
        if len(self.mean) not in (1, channels):
            raise DataError(
                f"Normalize has {len(self.mean)} means, got an image with {channels} channels, {list(array.shape)}; "
                f"pass one for each, or is_hwc={not self.is_hwc}"
            )
        dtype = np.float64 if array.dtype == np.float64 else np.float32
        mean, std = np.array(self.mean, dtype), np.array(self.std, dtype)
        if not self.is_hwc and array.ndim > 2:
            mean, std = mean.reshape(-1, 1, 1), std.reshape(-1, 1, 1)
        elif channels > 1:
            # A whole row of pixels at once: loops over three channels would be ten times as slow.
            width = array.shape[-2]
            mean, std = (np.tile(np.broadcast_to(given, channels), width) for given in (mean, std))
            array = array.reshape(*array.shape[:-2], width * channels)
        normalized: np.ndarray = np.subtract(array, mean, dtype=dtype)
        normalized /= std
        return normalized.reshape(np.shape(image))


@dataclass(frozen=True)
class HWC2CHW:
    """The channels before height and width, as convolutions take them: [C, H, W] or [N, C, H, W]."""

    def __call__(self, image: Any) -> np.ndarray:
        """A contiguous copy; an image [H, W] gets an axis of one channel."""
        return _planes("HWC2CHW", image)


@dataclass(frozen=True)
class ToTensor:
    """The channels before height and width, as floats; bytes are divided by 255.

    The result is a NumPy array. Floats are not scaled.
    """

    def __call__(self, image: Any) -> np.ndarray:
        """float32 (float64 for float64) [C, H, W] or [N, C, H, W]; an image [H, W] gets an axis of one channel."""
        bytes_given = np.asarray(image).dtype == np.uint8
        values = to_floats(_planes("ToTensor", image))
        if bytes_given:
            values /= np.float32(255)
        return values


def _planes(name: str, image: Any) -> np.ndarray:
    batch, axes = as_batch(name, image)
    return like_input(np.ascontiguousarray(batch.transpose(0, 3, 1, 2)), 4 if axes == 4 else 3)
