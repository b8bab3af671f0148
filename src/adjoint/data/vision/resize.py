"""Images of another size."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.vision.base import as_batch, from_floats, like_input, require_size, to_floats
from adjoint.errors import InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["INTERPOLATIONS", "Resize", "require_interpolation", "resized"]

INTERPOLATIONS = ("nearest", "bilinear", "area")


@dataclass(frozen=True)
class Resize:
    """Images of another size.

    Parameters
    ----------
    size : int or (int, int)
        Height and width; or the length of the shorter side, while the ratio of the sides is kept.
    interpolation : str, default "bilinear"
        ``"nearest"``: the pixel at ``floor(i * old / new)``. ``"bilinear"``: weights that fall linearly with the
        distance of the centres of pixels. ``"area"``: the mean over the area that the new pixel covers.
    antialias : bool, default True
        Whether "bilinear" widens its weights when images become smaller, so that all pixels count, as Pillow does.

    Raises
    ------
    InvalidValueError
        If an argument is out of range.

    Notes
    -----
    Of integers, results are rounded; of floats they keep their dtype. PyTorch's ``interpolate`` computes the same with
    ``align_corners=False``, except for "area" if the sizes do not divide each other: there its pixels count wholly or
    not at all.
    """

    size: int | tuple[int, int]
    interpolation: str = "bilinear"
    antialias: bool = True

    def __post_init__(self) -> None:
        require_size("Resize", self.size)
        require_interpolation("Resize", self.interpolation)

    def __call__(self, image: Any) -> np.ndarray:
        """The image [H, W], [H, W, C] or batch [N, H, W, C] in the new size, in its dtype."""
        batch, axes = as_batch("Resize", image)
        size = require_size("Resize", self.size)
        if isinstance(self.size, int):
            height, width = batch.shape[1:3]
            short = min(height, width)
            size = (height * self.size // short, width * self.size // short)
        return like_input(resized(batch, size, self.interpolation, self.antialias), axes)


def require_interpolation(name: str, given: object) -> None:
    """Raise unless there is such an interpolation."""
    if given not in INTERPOLATIONS:
        raise InvalidValueError(
            f"{name}: interpolation is one of {', '.join(INTERPOLATIONS)}, got {given!r}; choose one of them"
        )


def resized(batch: np.ndarray, size: Sequence[int], interpolation: str, antialias: bool) -> np.ndarray:
    """A batch [N, H, W, C] in another height and width."""
    if tuple(size) == batch.shape[1:3]:
        return batch.copy()
    if interpolation == "nearest":
        rows, columns = (np.arange(new) * old // new for new, old in zip(size, batch.shape[1:3], strict=True))
        return np.ascontiguousarray(batch[:, rows[:, None], columns])
    values = to_floats(batch)
    for axis, new in ((1, size[0]), (2, size[1])):
        old = batch.shape[axis]
        if new != old:
            places, weights = _bilinear(old, new, antialias) if interpolation == "bilinear" else _area(old, new)
            values = _weighted(values, axis, places, weights)
    return from_floats(values, batch.dtype)


def _bilinear(old: int, new: int, antialias: bool) -> tuple[np.ndarray, np.ndarray]:
    """For each new pixel, the places of old ones and their weights: a triangle around its centre."""
    scale = old / new
    width = max(scale, 1.0) if antialias else 1.0
    center = (np.arange(new) + 0.5) * scale
    first = np.maximum(np.floor(center - width + 0.5), 0).astype(np.int64)
    places = first[:, None] + np.arange(int(np.ceil(2 * width)) + 1)
    weights = np.maximum(0, 1 - np.abs(places + 0.5 - center[:, None]) / width)
    return _within(old, places, weights)


def _area(old: int, new: int) -> tuple[np.ndarray, np.ndarray]:
    """For each new pixel, the places of old ones and their weights: how much of each it covers."""
    # In units of 1 / new of an old pixel, so that borders are integers, and pixels beyond them have weight 0.
    low = np.arange(new)[:, None] * old
    places = low // new + np.arange(-(-old // new) + 1)
    covered = np.minimum((places + 1) * new, low + old) - np.maximum(places * new, low)
    return _within(old, places, np.maximum(covered, 0).astype(np.float64))


def _within(old: int, places: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places within the image, and weights whose sum is 1."""
    weights[places >= old] = 0
    weights /= weights.sum(axis=1, keepdims=True)
    return np.minimum(places, old - 1), weights


def _weighted(values: np.ndarray, axis: int, places: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Sums of the values at `places` along an axis, with weights.

    Products are added one after the other rather than by a matrix product, whose order depends on the machine.
    """
    shape = (-1, *[1] * (values.ndim - axis - 1))
    total: np.ndarray | None = None
    for place, weight in zip(places.T, weights.T, strict=True):
        if weight.any():
            term = np.take(values, place, axis)
            term *= weight.astype(values.dtype).reshape(shape)
            if total is None:
                total = term
            else:
                total += term
    assert total is not None  # the weights of a pixel have the sum 1
    return total
