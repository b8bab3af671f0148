"""Batches of different sizes, with which metrics are updated in compiled code; tests compare with all rows at once."""

from functools import cache

import numpy as np

from adjoint import jit, no_grad
from adjoint.training import metrics

ROWS, CLASSES, SIZES = 23, 4, (10, 10, 3)
_RNG = np.random.default_rng(17)
#: Logits with ties; class 3 is never a target. One target is ignored.
OUTPUTS = _RNG.integers(-3, 4, (ROWS, CLASSES)).astype(np.float32)
TARGETS = np.append(-100, _RNG.integers(0, 3, ROWS - 1))
KEPT = TARGETS != -100
PREDICTED = OUTPUTS.argmax(axis=1)
#: Probabilities of a binary classifier, multiples of 1/8, with ties.
CHANCES = (_RNG.integers(0, 9, ROWS) / 8).astype(np.float32)
LABELS = _RNG.integers(0, 2, ROWS)
WEIGHTS = _RNG.integers(0, 9, ROWS) / 4
#: Numbers of two columns whose mean is large beside their deviations.
NUMBERS = (_RNG.standard_normal((ROWS, 2)) + 1e4).astype(np.float32)
GUESSES = (NUMBERS + _RNG.standard_normal((ROWS, 2))).astype(np.float32)


def batches(*arrays, sizes=SIZES):
    """The arrays, cut into batches."""
    ends = np.cumsum(sizes)
    for start, end in zip(ends - sizes, ends, strict=True):
        yield tuple(array[start:end] for array in arrays)


def counted(given, *arrays, sizes=SIZES):
    """Update metrics with batches, in one compiled function."""

    @jit
    def update(*batch):
        with no_grad():
            for metric in given.values():
                metric.update(*batch)

    for batch in batches(*arrays, sizes=sizes):
        update(*batch)
    return given


@cache
def of_classes():
    """Metrics of OUTPUTS and TARGETS."""
    averages = {average: metrics.Precision(average=average) for average in (None, "macro", "micro", "weighted")}
    others = {
        "accuracy": metrics.Accuracy(),
        "top_1": metrics.Top1CategoricalAccuracy(),
        "top_2": metrics.TopKCategoricalAccuracy(2),
        "recall": metrics.Recall(average=None),
        "f2": metrics.Fbeta(2.0, average=None),
        "iou": metrics.MeanIoU(average=None),
        "dice": metrics.Dice(average=None),
        "matrix": metrics.ConfusionMatrix(),
        "perplexity": metrics.Perplexity(),
    }
    return counted(averages | others, OUTPUTS, TARGETS)


@cache
def of_labels():
    """Metrics of CHANCES and LABELS, weighted by WEIGHTS."""
    given = {
        "accuracy": metrics.Accuracy(weighted=True),
        "F1": metrics.F1(weighted=True),
        "matrix": metrics.ConfusionMatrix(normalize="target", weighted=True),
        "binned": metrics.BinnedROCAUC(8, weighted=True),
    }
    return counted(given, CHANCES, LABELS, WEIGHTS)


@cache
def of_numbers():
    """Metrics of GUESSES and NUMBERS."""
    given = {
        "mae": metrics.MAE(),
        "mse": metrics.MSE(),
        "rmse": metrics.RMSE(),
        "r2": metrics.R2("raw_values"),
        "cosine": metrics.CosineSimilarity(),
        "loss": metrics.Loss(lambda x, y: ((x - y) ** 2).mean()),
        "largest": metrics.MeanMetric("largest", lambda x, y: (x - y).abs().amax(1)),
    }
    return counted(given, GUESSES, NUMBERS)
