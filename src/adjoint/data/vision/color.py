"""Colors of images."""

from collections.abc import Callable
from itertools import permutations
from numbers import Real
from typing import Any

import numpy as np

from adjoint.data.transforms import require_generator
from adjoint.data.vision.base import as_batch, from_floats, like_input, require_interval, to_floats
from adjoint.errors import DataError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["ColorJitter", "Grayscale"]

#: Shares of red, green and blue in the brightness of a color (ITU-R BT.601).
_WEIGHTS = (0.299, 0.587, 0.114)


@dataclass(frozen=True)
class Grayscale:
    """Color images as gray ones, with the weights 0.299, 0.587 and 0.114 of red, green and blue (ITU-R BT.601).

    Parameters
    ----------
    num_output_channels : int, default 1
        1, or 3 for three equal channels.

    Raises
    ------
    InvalidValueError
        If it is another number.
    DataError
        When called, if the image does not have 1 or 3 channels.
    """

    num_output_channels: int = 1

    def __post_init__(self) -> None:
        if self.num_output_channels not in (1, 3):
            raise InvalidValueError(
                f"Grayscale: num_output_channels is 1 or 3, got {self.num_output_channels!r}; choose one"
            )

    def __call__(self, image: Any) -> np.ndarray:
        """The image [H, W, 1] or [H, W, 3], or the batch; of an image [H, W], with one channel that image itself."""
        batch, axes = as_batch("Grayscale", image)
        _require_colors("Grayscale", batch)
        gray = from_floats(_gray(to_floats(batch)), batch.dtype)
        return like_input(np.repeat(gray, self.num_output_channels, axis=3), axes)


@dataclass(frozen=True)
class ColorJitter:
    """Images of random brightness, contrast and saturation, changed in random order.

    Parameters
    ----------
    brightness, contrast, saturation : float or (float, float), default 0
        Range of the factor; one number ``v`` is the range from ``max(0, 1 - v)`` to ``1 + v``, and 0 leaves images as
        they are. A factor of 0 gives a black image, one in the mean gray, and a gray image.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    TypeRuleError
        When called without a generator.
    DataError
        When called, if the image does not have 1 or 3 channels.

    Notes
    -----
    Values are from 0 to 255 for bytes and from 0 to 1 for floats; results are clipped to that. Each change is a mixture
    ``factor * image + (1 - factor) * other`` as in torchvision and Pillow; bytes are rounded once, at the end.
    """

    brightness: float | tuple[float, float] = 0
    contrast: float | tuple[float, float] = 0
    saturation: float | tuple[float, float] = 0

    def __post_init__(self) -> None:
        for what, given in (
            ("brightness", self.brightness), ("contrast", self.contrast), ("saturation", self.saturation),
        ):  # fmt: skip
            if isinstance(given, Real) and not isinstance(given, bool):
                if not 0 <= given < float("inf"):
                    raise InvalidValueError(
                        f"ColorJitter: {what} is a number from 0 on, or a pair, got {given!r}; choose another"
                    )
            else:
                require_interval("ColorJitter", what, given, 0)

    def __call__(self, image: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """The changed image, in its dtype; of a batch [N, H, W, C], each image is changed on its own."""
        draw = require_generator("ColorJitter", rng)
        batch, axes = as_batch("ColorJitter", image)
        _require_colors("ColorJitter", batch)
        if batch.dtype not in (np.uint8, np.float32, np.float64, np.float16):
            raise DataError(
                f"ColorJitter takes bytes from 0 to 255 or floats from 0 to 1, got {batch.dtype}; convert it"
            )
        most = 255.0 if batch.dtype == np.uint8 else 1.0
        values = to_floats(batch).copy()
        for n in range(len(values)):
            self._change(values[n : n + 1], draw, most)
        return like_input(from_floats(values, batch.dtype), axes)

    def _change(self, values: np.ndarray, rng: np.random.Generator, most: float) -> None:
        """Change one image [1, H, W, C] in place."""
        order, *shares = rng.random(4)
        ranges = [_range(given) for given in (self.brightness, self.contrast, self.saturation)]
        for which in _ORDERS[int(order * len(_ORDERS))]:
            low, high = ranges[which]
            if low == high == 1:
                continue
            factor = low + shares[which] * (high - low)
            other = _OTHERS[which](values) * values.dtype.type(1 - factor)
            values *= values.dtype.type(factor)
            values += other
            np.clip(values, 0, most, out=values)


def _range(given: float | tuple[float, float]) -> tuple[float, float]:
    return (max(0.0, 1.0 - given), 1.0 + given) if isinstance(given, int | float) else given


def _gray(values: np.ndarray) -> np.ndarray:
    """The brightness of floats [N, H, W, 3], as [N, H, W, 1]; that of one channel is the channel itself."""
    if values.shape[3] == 1:
        return values
    red, green, blue = (values[..., n : n + 1] * values.dtype.type(weight) for n, weight in enumerate(_WEIGHTS))
    brightness: np.ndarray = red + green + blue
    return brightness


def _require_colors(name: str, batch: np.ndarray) -> None:
    if batch.shape[3] not in (1, 3):
        raise DataError(
            f"{name} takes images with 1 or 3 channels, got {batch.shape[3]}; put the channels last, or select some"
        )


#: With what images are mixed, and in which orders: brightness, contrast, saturation.
_OTHERS: tuple[Callable[[np.ndarray], np.ndarray], ...] = (
    np.zeros_like,
    lambda values: np.full_like(values, _gray(values).mean(dtype=np.float64)),
    _gray,
)
_ORDERS = tuple(permutations(range(3)))
