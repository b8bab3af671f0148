"""Precision, recall and F-scores."""

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.training.metrics.per_class import PerClass

__all__ = ["F1", "Fbeta", "Precision", "Recall"]


class Precision(PerClass):
    """The part of predictions of a class that are right; arguments are those of `PerClass`."""

    name = "precision"

    def ratios(self, hits: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
        """Right predictions, and predictions."""
        return hits, predicted


class Recall(PerClass):
    """The part of targets of a class that are predicted; arguments are those of `PerClass`."""

    name = "recall"

    def ratios(self, hits: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:  # noqa: ARG002
        """Right predictions, and targets."""
        return hits, actual


class F1(PerClass):
    """The harmonic mean of precision and recall of a class; arguments are those of `PerClass`."""

    name = "F1"
    beta = 1.0

    def ratios(self, hits: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The score in terms of counts."""
        square = self.beta**2
        return (1 + square) * hits, square * actual + predicted


class Fbeta(F1):
    """The weighted harmonic mean of precision and recall of a class.

    With precision p and recall r, ``(1 + beta**2) p r / (beta**2 p + r)`` (van Rijsbergen, 1979).

    Parameters
    ----------
    beta : float
        How many times as important recall is.
    eval_type, average, num_classes, axis, threshold, ignore_index, weighted, name
        As for `PerClass`.
    """

    name = "fbeta"

    def __init__(
        self,
        beta: float,
        eval_type: str = "classification",
        *,
        average: str | None = "macro",
        num_classes: int | None = None,
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        if not beta > 0:
            raise InvalidValueError(f"Fbeta: beta must be positive, got {beta!r}; pass 1.0 for F1")
        super().__init__(
            eval_type,
            average=average,
            num_classes=num_classes,
            axis=axis,
            threshold=threshold,
            ignore_index=ignore_index,
            weighted=weighted,
            name=name,
        )
        self.beta = beta
