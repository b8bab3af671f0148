"""What the transforms of images share: the layout of images, and checks of arguments."""

from math import isfinite
from typing import Any

import numpy as np

from adjoint.errors import DataError, InvalidValueError

__all__ = [
    "as_batch",
    "drawn_integers",
    "from_floats",
    "like_input",
    "require_interval",
    "require_probability",
    "require_size",
    "to_floats",
    "whole_numbers",
]


def as_batch(name: str, image: Any) -> tuple[np.ndarray, int]:
    """Images as a batch [N, H, W, C] without a copy, and the number of axes that `like_input` restores.

    Parameters
    ----------
    name : str
        The transform, in messages.
    image : array
        An image [H, W] or [H, W, C], or a batch [N, H, W, C].

    Raises
    ------
    DataError
        If it is something else, or has no pixels.
    """
    array = np.asarray(image)
    if array.ndim not in (2, 3, 4) or array.dtype.kind not in "uif" or 0 in array.shape:
        raise DataError(
            f"{name} takes an image [H, W] or [H, W, C] or a batch [N, H, W, C] of numbers, got {array.dtype} "
            f"{list(array.shape)}; convert it"
        )
    if array.ndim == 2:
        return array[None, :, :, None], 2
    return (array[None], 3) if array.ndim == 3 else (array, 4)


def like_input(batch: np.ndarray, axes: int) -> np.ndarray:
    """A batch [N, H, W, C] with as many axes as the image had from which `as_batch` made it."""
    if axes == 2:
        return batch[0, :, :, 0] if batch.shape[3] == 1 else batch[0]
    return batch[0] if axes == 3 else batch


def to_floats(image: np.ndarray) -> np.ndarray:
    """float64 as it is, anything else as float32."""
    return image.astype(np.float64 if image.dtype == np.float64 else np.float32, copy=False)


def from_floats(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Results of a computation on an image in its dtype; those of integers are rounded and clipped."""
    if dtype.kind == "f":
        return values.astype(dtype, copy=False)
    limits = np.iinfo(dtype)
    rounded: np.ndarray = np.clip(np.floor(values + 0.5), limits.min, limits.max).astype(dtype)
    return rounded


def whole_numbers(given: object, least: int) -> tuple[int, ...]:
    """Integers of at least `least`, given as one or as a sequence; () if something else is given."""
    numbers = tuple(given) if isinstance(given, list | tuple) else (given,)
    right = all(isinstance(n, int | np.integer) and not isinstance(n, bool) and n >= least for n in numbers)
    return tuple(int(n) for n in numbers) if right else ()


def require_size(name: str, given: object) -> tuple[int, int]:
    """Height and width, given as a pair or as the side of a square."""
    numbers = whole_numbers(given, 1)
    if len(numbers) not in (1, 2):
        raise InvalidValueError(
            f"{name}: size is a number of pixels or a pair (height, width) of at least 1, got {given!r}; choose another"
        )
    return numbers[0], numbers[-1]


def require_probability(name: str, what: str, given: object) -> None:
    """Raise unless a probability is from 0 to 1."""
    if isinstance(given, bool) or not isinstance(given, int | float | np.number) or not 0 <= given <= 1:
        raise InvalidValueError(f"{name}: {what} is a probability from 0 to 1, got {given!r}; choose another")


def require_interval(name: str, what: str, given: object, least: float) -> None:
    """Raise unless `given` is a pair of finite numbers, the first not above the second, none below `least`."""
    match given:
        case (int() | float() as low, int() | float() as high) if least <= low <= high and isfinite(high):
            return
    raise InvalidValueError(
        f"{name}: {what} is a pair of numbers (smallest, largest) from {least:g} on, got {given!r}; choose another"
    )


def drawn_integers(rng: np.random.Generator, below: int, count: int) -> np.ndarray:
    """Random integers from 0 to ``below - 1``, int64 [count].

    They are made of `Generator.random`, which is defined by its bits; other distributions may change with NumPy.
    """
    numbers: np.ndarray = np.minimum((rng.random(count) * below).astype(np.int64), below - 1)
    return numbers
