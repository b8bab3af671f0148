"""Ratios of counts per class, and their averages: what precision, recall, F-scores, Dice and IoU share."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.averaging import averaged, check_average
from adjoint.training.metrics.classes import ClassMetric

__all__ = ["PerClass"]


class PerClass(ClassMetric):
    """The base class of metrics that are a ratio of counts for each class.

    Outputs and targets are those of `Accuracy`. With one output per row there is one class, the positive one. A ratio
    whose denominator is 0 is 0.

    Parameters
    ----------
    eval_type : {"classification", "multilabel"}, default "classification"
        As for `Accuracy`; the labels of "multilabel" are the classes.
    average : {"macro", "micro", "weighted"} or None, default "macro"
        The mean over the classes that are among targets or predictions; the ratio of the sums over all classes; the
        mean weighted by the number of targets of each class; or None for an array ``[C]``.
    num_classes : int, optional
        The number of classes; needed only if outputs are class indices. Default: that of the first batch.
    axis : int, default 1
        The axis of classes in the outputs.
    threshold : float, optional
        What an output must exceed to predict 1; 0.0 for logits. Default: 0.5, and outputs must be probabilities.
    ignore_index : int or None, default -100
        Rows with this target do not count.
    weighted : bool, default False
        Whether `update` takes the weights of rows, ``[N]``, as a third argument.
    name : str, optional
        The key in results.
    """

    higher_is_better = True
    class_counts = ("hits", "predicted", "actual")
    hits: Tensor
    predicted: Tensor
    actual: Tensor

    def __init__(
        self,
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
        super().__init__(
            eval_type, axis=axis, threshold=threshold, ignore_index=ignore_index, weighted=weighted, name=name
        )
        check_average(type(self).__name__, average)
        self.average = average
        if num_classes is not None:
            self.require_size(num_classes)

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Count the classes of a batch."""
        read = self.read(outputs, targets, weight)
        self.require_size(read.size)
        predicted, actual = read.predicted, read.actual
        if read.are_labels:
            for count, mask in (
                (self.hits, predicted & actual),
                (self.predicted, predicted),
                (self.actual, actual),
            ):
                count.add_(read.amounts(mask).sum(0))
            return
        self.hits.index_add_(0, actual, read.amounts(predicted == actual))
        self.predicted.index_add_(0, predicted, read.amounts(read.valid))
        self.actual.index_add_(0, actual, read.amounts(read.valid))

    def check(self) -> None:
        """Raise also if no row counted."""
        super().check()
        if self.eval_type == "classification" and self.size != 1 and not self.total("actual").any():
            raise InvalidValueError(
                f"{type(self).__name__}: a metric needs an example that counts, got none in {self.total('updates')} "
                "updates; are all targets ignored, or all weights 0?"
            )

    def ratios(self, hits: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Numerator and denominator for each class, of f64 counts; a subclass defines it."""
        raise NotImplementedError

    def result(self) -> float | np.ndarray:
        """The average, or an array."""
        counts = [self.total(name).astype(np.float64) for name in self.class_counts]
        numerators, denominators = self.ratios(*counts)
        _, predicted, actual = counts
        return averaged(numerators, denominators, actual, (predicted + actual) > 0, self.average)
