"""The part of predictions that are right."""

from typing import Any

from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.classes import ClassMetric

__all__ = ["Accuracy"]


class Accuracy(ClassMetric):
    """The part of rows whose prediction is right.

    Outputs are logits or probabilities ``[N, C]`` or ``[N, C, d1, ...]``, of which the largest is the prediction (the
    first of equal ones); or class indices. Targets are indices ``[N, d1, ...]`` or one-hot. With one output per row,
    ``[N]`` or ``[N, 1]``, targets are 0 or 1, and an output above the threshold predicts 1.

    Parameters
    ----------
    eval_type : {"classification", "multilabel"}, default "classification"
        With "multilabel", outputs and targets are ``[N, L]``, labels that are there or not, and a row is right if all
        of its labels are.
    axis : int, default 1
        The axis of classes in the outputs; -1 for ``[B, T, C]`` with targets ``[B, T]``.
    threshold : float, optional
        What an output must exceed to predict 1; 0.0 for logits. Default: 0.5, and outputs must be probabilities.
    ignore_index : int or None, default -100
        Rows with this target do not count.
    weighted : bool, default False
        Whether `update` takes the weights of rows, ``[N]``, as a third argument.
    name : str, default "accuracy"
        The key in results.
    """

    name = "accuracy"
    higher_is_better = True
    correct: Tensor
    rows: Tensor

    def __init__(
        self,
        eval_type: str = "classification",
        *,
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(
            eval_type, axis=axis, threshold=threshold, ignore_index=ignore_index, weighted=weighted, name=name
        )
        self.add_amount("correct")
        self.add_amount("rows")

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Count the right predictions of a batch."""
        read = self.read(outputs, targets, weight)
        right = read.predicted == read.actual
        self.correct.add_(read.amounts(right.all(1) if read.are_labels else right).sum())
        self.rows.add_(read.amounts(read.valid).sum())

    def result(self) -> float:
        """The accuracy."""
        return self.ratio("correct", "rows")
