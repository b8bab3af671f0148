"""What a trained classifier makes of validation rows: a confusion matrix, and samples with pictures."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.tensor import Tensor
from adjoint.training.model.batches import as_tuple, batches_of
from adjoint.training.report.images import as_picture, png_address

__all__ = ["Confusion", "Predictions", "Sample", "confusion_of", "predictions_of"]

#: The most classes that a matrix is drawn for.
_CLASSES = 100

#: The greatest part of the samples that are wrong predictions.
_WRONG = 2 / 3


@dataclass(frozen=True, slots=True)
class Confusion:
    """How often each class was taken for each.

    Parameters
    ----------
    names : tuple of str
        The classes.
    counts : numpy.ndarray
        i64 [classes, classes]: row true, column predicted.
    """

    names: tuple[str, ...]
    counts: np.ndarray

    @property
    def accuracy(self) -> float:
        """The share on the diagonal."""
        return float(np.trace(self.counts) / max(self.counts.sum(), 1))

    def share(self, true: int, predicted: int) -> float:
        """The share of a class that was taken for another."""
        return float(self.counts[true, predicted] / max(self.counts[true].sum(), 1))


@dataclass(frozen=True, slots=True)
class Sample:
    """A row: its picture, its class, and the prediction with its probability."""

    picture: str
    true: str
    predicted: str
    probability: float
    is_right: bool


@dataclass(frozen=True, slots=True)
class Predictions:
    """The confusion matrix of some rows, and samples: the surest wrong ones, then the least sure right ones."""

    rows: int
    confusion: Confusion
    samples: tuple[Sample, ...]


def confusion_of(counts: Any, names: Sequence[str] | None) -> Confusion | None:
    """The matrix of a metric; None if it is no square of counts, or too large to draw."""
    array = np.asarray(counts)
    if array.ndim != 2 or array.shape[0] != array.shape[1] or not 2 <= len(array) <= _CLASSES:
        return None
    return Confusion(_names(names, len(array)), array)


def predictions_of(
    predict: Callable[..., Any], dataset: Any, names: Sequence[str] | None, rows: int, samples: int
) -> Predictions | None:
    """Predict validation rows.

    Parameters
    ----------
    predict : callable
        Takes the input of a batch, and returns logits or probabilities of the classes: `Model.predict`.
    dataset : iterable
        Batches (input, target), with classes as integers.
    names : sequence of str or None
        The names of the classes.
    rows : int
        The most rows.
    samples : int
        The number of samples.

    Returns
    -------
    Predictions or None
        None if it is no classifier: if the result is not [rows, classes], or a batch is something else.
    """
    found = list(_outputs(predict, dataset, rows))
    if not found:
        return None
    inputs, targets, outputs = (np.concatenate(each) for each in zip(*found, strict=True))
    classes = outputs.shape[1]
    if not np.isfinite(outputs).all() or targets.min() < 0 or targets.max() >= classes:
        return None
    predicted = outputs.argmax(axis=1)
    counts = np.zeros((classes, classes), np.int64)
    np.add.at(counts, (targets, predicted), 1)
    known = _names(names, classes)
    shown = _samples(inputs, targets, predicted, _probabilities(outputs), known, samples)
    return Predictions(len(targets), Confusion(known, counts), tuple(shown))


def _outputs(
    predict: Callable[..., Any], dataset: Any, rows: int
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Inputs, classes and results of each batch, as long as they are those of a classifier."""
    for batch in batches_of(dataset, 0, 0):
        parts = as_tuple(batch)
        if len(parts) != 2:
            return
        x, y = (each.numpy(force=True) if isinstance(each, Tensor) else np.asarray(each) for each in parts)
        if y.dtype.kind not in "iu" or y.ndim != 1:
            return
        result = predict(x)
        if not isinstance(result, Tensor) or result.dim() != 2 or not 2 <= result.shape[1] <= _CLASSES:
            return
        yield x, y, result.numpy(force=True)
        rows -= len(y)
        if rows <= 0:
            return


def _samples(
    inputs: np.ndarray,
    targets: np.ndarray,
    predicted: np.ndarray,
    probabilities: np.ndarray,
    names: tuple[str, ...],
    count: int,
) -> Iterator[Sample]:
    probability = probabilities[np.arange(len(predicted)), predicted]
    # Wrong ones first, the surest of them first; then right ones, those first that were hardly so.
    right = predicted == targets
    order = np.lexsort((np.where(right, probability, -probability), right))
    wrong = min(int((~right).sum()), round(count * _WRONG))
    for i in [*order[:wrong], *order[(~right).sum() :][: count - wrong]]:
        picture = as_picture(inputs[i])
        if picture is None:
            return
        true, taken = names[targets[i]], names[predicted[i]]
        yield Sample(png_address(picture), true, taken, float(probability[i]), bool(right[i]))


def _probabilities(outputs: np.ndarray) -> np.ndarray:
    """The outputs if they are probabilities, else their softmax."""
    if outputs.min() >= 0 and np.allclose(outputs.sum(axis=1), 1, atol=1e-3):
        return outputs
    shifted = np.exp(outputs.astype(np.float64) - outputs.max(axis=1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=1, keepdims=True))


def _names(names: Sequence[str] | None, count: int) -> tuple[str, ...]:
    """A name for each class."""
    given = tuple(map(str, names or ()))
    return given if len(given) == count else tuple(map(str, range(count)))
