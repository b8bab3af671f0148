"""Random rows by weights or by classes."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint.data.checking import require_count, require_flag
from adjoint.data.draw import Draw
from adjoint.data.samplers.base import STREAM, Sampler, optional_count
from adjoint.errors import InvalidValueError

__all__ = ["PKSampler", "WeightedRandomSampler"]


class WeightedRandomSampler(Sampler):
    """Rows drawn with given probabilities.

    Parameters
    ----------
    weights : sequence of float
        The weight of each row; they need not sum to 1.
    num_samples : int, optional
        How many to draw; default: the number of weights.
    replacement : bool, default True
        Whether they are drawn independently, by the inverse of the cumulative weights. Otherwise no row occurs twice
        (P. Efraimidis, P. Spirakis, "Weighted random sampling with a reservoir", Information Processing Letters 97,
        2006).

    Raises
    ------
    InvalidValueError
        If a weight is negative or not finite, or fewer are positive than are to be drawn.
    """

    def __init__(self, weights: Sequence[float], num_samples: int | None = None, replacement: bool = True) -> None:
        name = "WeightedRandomSampler"
        self._weights = np.array(weights, np.float64)
        if self._weights.ndim != 1 or not self._weights.size:
            raise InvalidValueError(
                f"{name}: weights must be a sequence of numbers, got the shape {self._weights.shape}; flatten it"
            )
        self._replacement = require_flag(name, "replacement", replacement)
        self._size = optional_count(name, num_samples) or len(self._weights)
        wrong = ~(np.isfinite(self._weights) & (self._weights >= 0))
        if wrong.any():
            place = int(wrong.argmax())
            raise InvalidValueError(
                f"{name}: weights must be finite and at least 0, got {self._weights[place]} at {place}; change it"
            )
        positive, needed = int(np.count_nonzero(self._weights)), 1 if self._replacement else self._size
        if positive < needed:
            raise InvalidValueError(
                f"{name}: at least {needed} of the weights must be positive, got {positive}; change one, or draw fewer "
                "or with replacement"
            )

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """Rows in the order in which they are drawn."""
        if len(self._weights) != count:
            raise InvalidValueError(
                f"WeightedRandomSampler: there must be a weight for each of {count} rows, got {len(self._weights)}; "
                "pass as many"
            )
        positive = np.flatnonzero(self._weights)
        weights = self._weights[positive]
        if self._replacement:
            ends = np.cumsum(weights)
            drawn = np.searchsorted(ends, draw.uniforms(STREAM, self._size) * ends[-1], side="right")
            drawn = np.minimum(drawn, len(ends) - 1)  # a product may be rounded up to the sum of all weights
        else:
            keys = np.log1p(-draw.uniforms(STREAM, len(weights))) / weights
            drawn = np.argsort(-keys, kind="stable")[: self._size]
        rows: np.ndarray = positive[drawn].astype(np.int64, copy=False)
        return rows

    def size(self, count: int) -> int:  # noqa: ARG002 - the weights decide
        """How many are drawn."""
        return self._size


class PKSampler(Sampler):
    """`num_val` random rows of each of some classes, as P x K batches of metric learning need them.

    Parameters
    ----------
    labels : sequence
        The class of each row.
    num_val : int
        How many rows of each class, the K.
    num_class : int, optional
        How many classes, the P, in random order; default: all, in ascending order.
    """

    def __init__(self, labels: Sequence[Any] | np.ndarray, num_val: int, num_class: int | None = None) -> None:
        classes, numbers = np.unique(np.asarray(labels), return_inverse=True)
        self._rows = [np.flatnonzero(numbers == number) for number in range(len(classes))]
        self._count = len(numbers)
        self._each = require_count("PKSampler", "num_val", num_val)
        self._classes = optional_count("PKSampler", num_class)
        if self._classes is not None and self._classes > len(classes):
            raise InvalidValueError(
                f"PKSampler: num_class must be at most the number of classes, {len(classes)}, got {self._classes}; "
                "choose another"
            )
        fewest = min((len(rows) for rows in self._rows), default=0)
        if fewest < self._each:
            raise InvalidValueError(
                f"PKSampler: num_val must be at most the number of rows of each class, {fewest}, got {self._each}; "
                "choose another"
            )

    def order(self, count: int, draw: Draw) -> np.ndarray:
        """Rows of one class after the other."""
        if count != self._count:
            raise InvalidValueError(
                f"PKSampler: there must be a label for each of {count} rows, got {self._count}; pass as many"
            )
        rank = draw.permutation(STREAM, count)
        chosen = range(len(self._rows))
        if self._classes is not None:
            # Classes in the order of the ranks of their first rows, which are random.
            chosen = sorted(chosen, key=lambda number: rank[self._rows[number][0]])[: self._classes]  # type: ignore[assignment]
        parts = [self._rows[number][np.argsort(rank[self._rows[number]])][: self._each] for number in chosen]
        return np.concatenate(parts)

    def size(self, count: int) -> int:  # noqa: ARG002 - the labels decide
        """Classes times rows of each."""
        return self._each * (len(self._rows) if self._classes is None else self._classes)
