"""Transforms of items of any kind: several in a row, one-hot labels, another dtype."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from adjoint.data.checking import require_count
from adjoint.errors import DataError, InvalidValueError, TypeRuleError, described, kind_of
from adjoint.lazy_dataclass import dataclass

__all__ = ["Compose", "OneHot", "TypeCast", "require_generator", "takes_generator"]


def require_generator(name: str, rng: object) -> np.random.Generator:
    """The generator from which the transform `name` draws, which must have been passed."""
    if isinstance(rng, np.random.Generator):
        return rng
    raise TypeRuleError(
        f"{name} draws random numbers from a numpy.random.Generator, got {kind_of(rng)}; pass rng=numpy.random."
        "default_rng(seed), or use it in the map of a dataset, which passes one for each item"
    )


def takes_generator(operation: Callable[..., object]) -> bool:
    """Whether an operation has a parameter `rng`, for a generator."""
    try:
        return "rng" in inspect.signature(operation).parameters
    except (TypeError, ValueError):  # built-in functions need not have a signature
        return False


@dataclass(frozen=True)
class Compose:
    """Transforms in a row, each applied to the result of the one before.

    Parameters
    ----------
    transforms : sequence of callable
        Functions of one item. Those with a parameter `rng` are given the generator.

    Raises
    ------
    InvalidValueError
        If there is no transform.
    TypeRuleError
        If one cannot be called; when called, if a random one is not given a generator.

    Examples
    --------
    >>> Compose([TypeCast("float32"), lambda x: x + 0.5])(np.array([1, 2])).tolist()
    [1.5, 2.5]
    """

    transforms: Sequence[Callable[..., Any]]
    _random: tuple[bool, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not isinstance(self.transforms, list | tuple):
            raise TypeRuleError(f"Compose takes a list of transforms, got {kind_of(self.transforms)}; put it in a list")
        if not self.transforms:
            raise InvalidValueError("Compose takes at least one transform, got none; leave it out")
        for each in self.transforms:
            if not callable(each):
                raise TypeRuleError(f"Compose: a transform must be callable, got {described(each)}; pass a function")
        object.__setattr__(self, "_random", tuple(map(takes_generator, self.transforms)))

    def __call__(self, item: Any, rng: np.random.Generator | None = None) -> Any:
        """The item after all transforms."""
        for transform, random in zip(self.transforms, self._random, strict=True):
            item = transform(item, rng=rng) if random else transform(item)
        return item


@dataclass(frozen=True)
class OneHot:
    """Labels as rows with a one at the label's place.

    Parameters
    ----------
    num_classes : int
        Number of classes.
    smoothing_rate : float, default 0.0
        Share that is spread evenly over all classes: the label gets ``1 - rate + rate / num_classes`` and each other
        class ``rate / num_classes`` (Szegedy et al., arXiv:1512.00567, section 7).

    Raises
    ------
    InvalidValueError
        If an argument is out of range.
    DataError
        When called, if labels are not integers from 0 to ``num_classes - 1``.
    """

    num_classes: int
    smoothing_rate: float = 0.0

    def __post_init__(self) -> None:
        require_count("OneHot", "num_classes", self.num_classes)
        if not 0 <= self.smoothing_rate <= 1:
            raise InvalidValueError(
                f"OneHot: smoothing_rate is a share from 0 to 1, got {self.smoothing_rate!r}; choose another"
            )

    def __call__(self, label: Any) -> np.ndarray:
        """float32 [..., num_classes] for integers [...]."""
        labels = np.asarray(label)
        if labels.dtype.kind not in "iu":
            raise DataError(f"OneHot takes integers, got {labels.dtype}; convert them")
        if labels.size and not 0 <= int(labels.min()) <= int(labels.max()) < self.num_classes:
            wrong = int(labels.min()) if labels.min() < 0 else int(labels.max())
            raise DataError(f"OneHot: labels are from 0 to {self.num_classes - 1}, got {wrong}; raise num_classes")
        spread = self.smoothing_rate / self.num_classes
        rows = np.full((*labels.shape, self.num_classes), spread, np.float32)
        np.put_along_axis(rows, labels[..., None].astype(np.int64), np.float32(1 - self.smoothing_rate + spread), -1)
        return rows


@dataclass(frozen=True)
class TypeCast:
    """The item in another dtype.

    Parameters
    ----------
    data_type : dtype
        A NumPy dtype or its name.

    Raises
    ------
    TypeRuleError
        If it is no dtype.
    """

    data_type: Any

    def __post_init__(self) -> None:
        try:
            np.dtype(self.data_type)
        except TypeError as error:
            raise TypeRuleError(
                f"TypeCast takes a NumPy dtype, got {self.data_type!r}; name one, as 'float32'"
            ) from error

    def __call__(self, item: Any) -> np.ndarray:
        """The item as an array of that dtype."""
        array: np.ndarray = np.asarray(item).astype(self.data_type)
        return array
