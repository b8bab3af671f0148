"""How often each class is predicted for each."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.classes import ClassMetric

__all__ = ["ConfusionMatrix"]

#: What the matrix is divided by: nothing, or its sums along an axis, or all of it.
_AXES = {None: None, "no_norm": None, "target": 1, "prediction": 0, "all": (0, 1)}


class ConfusionMatrix(ClassMetric):
    """The number of rows of each class (rows of the matrix) that are predicted as each class (columns).

    Outputs and targets are those of `Accuracy`; one output per row makes a matrix of two classes.

    Parameters
    ----------
    num_classes : int, optional
        The number of classes; needed only if outputs are class indices. Default: that of the first batch.
    normalize : {"target", "prediction", "all", "no_norm"} or None, default None
        Divide by the number of targets of each class, of predictions of each, or by that of all.
    axis : int, default 1
        The axis of classes in the outputs.
    threshold : float, optional
        What an output must exceed to predict 1; 0.0 for logits. Default: 0.5, and outputs must be probabilities.
    ignore_index : int or None, default -100
        Rows with this target do not count.
    weighted : bool, default False
        Whether `update` takes the weights of rows, ``[N]``, as a third argument.
    name : str, default "confusion_matrix"
        The key in results.
    """

    name = "confusion_matrix"
    class_axes = 2
    class_counts = ("matrix",)
    matrix: Tensor

    def __init__(
        self,
        num_classes: int | None = None,
        normalize: str | None = None,
        *,
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(axis=axis, threshold=threshold, ignore_index=ignore_index, weighted=weighted, name=name)
        if normalize not in _AXES:
            raise InvalidValueError(
                "ConfusionMatrix: normalize must be 'target', 'prediction', 'all', 'no_norm' or None, got "
                f"{normalize!r}; choose one of them"
            )
        self.normalize = normalize
        if num_classes is not None:
            self.require_size(num_classes)

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Count the pairs of a batch."""
        read = self.read(outputs, targets, weight)
        predicted, actual = read.predicted, read.actual
        size = read.size
        if read.are_labels:
            predicted, actual, size = predicted[:, 0].long(), actual[:, 0].long(), 2
        self.require_size(size)
        assert self.size is not None
        self.matrix.view(-1).index_add_(0, actual * self.size + predicted, read.amounts(read.valid))

    def result(self) -> np.ndarray:
        """The matrix, i64, or f64 if it is normalized or weighted; rows or columns without examples are 0."""
        counts = self.total("matrix").copy()
        axes = _AXES[self.normalize]
        if axes is None:
            return counts
        sums = counts.sum(axis=axes, keepdims=True)
        parts: np.ndarray = np.divide(counts, sums, out=np.zeros(counts.shape), where=sums != 0)
        return parts
