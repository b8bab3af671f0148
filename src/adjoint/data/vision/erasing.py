"""Random rectangles that are erased from images."""

from collections.abc import Sequence
from math import pi
from numbers import Real
from typing import Any

import numpy as np

from adjoint.data.transforms import require_generator
from adjoint.data.vision.base import as_batch, from_floats, like_input, require_interval, require_probability
from adjoint.data.vision.crop import drawn_box
from adjoint.errors import DataError, InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["RandomErasing"]

#: How often a rectangle is drawn until one fits into the image; then the image stays as it is.
_ATTEMPTS = 10


@dataclass(frozen=True)
class RandomErasing:
    """A random rectangle of each image is overwritten, with a probability (Zhong et al., arXiv:1708.04896).

    Parameters
    ----------
    p : float, default 0.5
        The probability.
    scale : (float, float), default (0.02, 0.33)
        Range of the rectangle's share of the area.
    ratio : (float, float), default (0.3, 3.3)
        Range of its width divided by its height, from which its logarithm is drawn evenly.
    value : float, sequence of float or "random", default 0
        What it is filled with: one number, one for each channel, or ``"random"``: evenly distributed integers, or
        normally distributed floats.
    is_hwc : bool, default True
        Whether the channels are the last axis, as before `ToTensor` and `HWC2CHW`; otherwise the first of an image.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    TypeRuleError
        When called without a generator.
    DataError
        When called, if `value` has another number of channels.
    """

    p: float = 0.5
    scale: tuple[float, float] = (0.02, 0.33)
    ratio: tuple[float, float] = (0.3, 3.3)
    value: float | Sequence[float] | str = 0
    is_hwc: bool = True

    def __post_init__(self) -> None:
        require_probability("RandomErasing", "p", self.p)
        require_interval("RandomErasing", "scale", self.scale, 0)
        require_interval("RandomErasing", "ratio", self.ratio, 1e-6)
        numbers = self.value if isinstance(self.value, list | tuple) else [self.value]
        if self.value != "random" and not all(isinstance(number, Real) for number in numbers):
            raise InvalidValueError(
                f'RandomErasing: value is a number, one for each channel, or "random", got {self.value!r}; choose one'
            )

    def __call__(self, image: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """A copy of the image; of a batch, each image has a rectangle of its own, or none."""
        draw = require_generator("RandomErasing", rng)
        batch, axes = as_batch("RandomErasing", image)
        result = np.array(batch)
        pixels = result if self.is_hwc or axes == 2 else result.transpose(0, 2, 3, 1)
        for each in pixels:
            if draw.random() < self.p:
                self._erase(each, draw)
        return like_input(result, axes)

    def _erase(self, image: np.ndarray, rng: np.random.Generator) -> None:
        """Overwrite a part of one image [H, W, C]."""
        for _ in range(_ATTEMPTS):
            box = drawn_box(rng, image.shape[0], image.shape[1], self.scale, self.ratio)
            if box is not None:
                top, left, height, width = box
                part = image[top : top + height, left : left + width]
                part[...] = self._noise(part, rng) if self.value == "random" else self._constant(image)
                return

    def _constant(self, image: np.ndarray) -> np.ndarray:
        values = np.asarray(self.value)
        if values.shape not in ((), image.shape[2:]):
            raise DataError(
                f"RandomErasing: value is one number or one for each of {image.shape[2]} channels, got {self.value!r}; "
                "pass as many"
            )
        return values.astype(image.dtype)

    def _noise(self, part: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        uniform = rng.random(part.shape)
        if part.dtype.kind in "iu":
            limits = np.iinfo(part.dtype)
            return from_floats(np.floor(limits.min + uniform * (float(limits.max) - limits.min + 1)), part.dtype)
        # The method of Box and Muller (1958), which needs nothing but even numbers.
        radius = np.sqrt(-2 * np.log1p(-uniform))
        normal: np.ndarray = (radius * np.cos(2 * pi * rng.random(part.shape))).astype(part.dtype)
        return normal
