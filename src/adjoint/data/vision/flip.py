"""Random flips of images."""

from typing import Any

import numpy as np

from adjoint.data.transforms import require_generator
from adjoint.data.vision.base import as_batch, like_input, require_probability
from adjoint.lazy_dataclass import dataclass

__all__ = ["RandomHorizontalFlip", "RandomVerticalFlip"]


@dataclass(frozen=True)
class RandomHorizontalFlip:
    """Images with left and right exchanged, each with a probability.

    Parameters
    ----------
    p : float, default 0.5
        The probability.

    Raises
    ------
    InvalidValueError
        If it is not from 0 to 1.
    TypeRuleError
        When called without a generator.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        require_probability("RandomHorizontalFlip", "p", self.p)

    def __call__(self, image: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """The image or its mirror image; of a batch, each image is flipped or not."""
        return _flipped("RandomHorizontalFlip", image, rng, self.p, 2)


@dataclass(frozen=True)
class RandomVerticalFlip:
    """Images with top and bottom exchanged, each with a probability.

    Parameters
    ----------
    p : float, default 0.5
        The probability.

    Raises
    ------
    InvalidValueError
        If it is not from 0 to 1.
    TypeRuleError
        When called without a generator.
    """

    p: float = 0.5

    def __post_init__(self) -> None:
        require_probability("RandomVerticalFlip", "p", self.p)

    def __call__(self, image: Any, rng: np.random.Generator | None = None) -> np.ndarray:
        """The image or its mirror image; of a batch, each image is flipped or not."""
        return _flipped("RandomVerticalFlip", image, rng, self.p, 1)


def _flipped(name: str, image: Any, rng: object, p: float, axis: int) -> np.ndarray:
    draw = require_generator(name, rng)
    batch, axes = as_batch(name, image)
    chosen = draw.random(len(batch)) < p
    if not chosen.any():
        return np.array(image)
    mirrored = np.flip(batch, axis)
    if len(batch) == 1:
        return like_input(np.ascontiguousarray(mirrored), axes)
    result = batch.copy()
    result[chosen] = mirrored[chosen]
    return result
