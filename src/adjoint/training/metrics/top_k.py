"""The part of rows whose class is among the k best predictions."""

from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import is_float
from adjoint.tensor.creation import arange
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.classes import ClassMetric

__all__ = ["Top1CategoricalAccuracy", "Top5CategoricalAccuracy", "TopKCategoricalAccuracy"]


class TopKCategoricalAccuracy(ClassMetric):
    """The part of rows whose class is among the `k` largest outputs.

    Of equal outputs, those of lower classes come first, so that ``k=1`` is `Accuracy`. Outputs are ``[N, C]`` or ``[N,
    C, d1, ...]``, targets indices ``[N, d1, ...]`` or one-hot.

    Parameters
    ----------
    k : int, default 5
        How many classes are predicted.
    axis : int, default 1
        The axis of classes in the outputs.
    ignore_index : int or None, default -100
        Rows with this target do not count.
    weighted : bool, default False
        Whether `update` takes the weights of rows as a third argument.
    name : str, optional
        The key in results; default: ``"top_5_accuracy"`` for ``k=5``.
    """

    name = "top_k_accuracy"
    higher_is_better = True
    correct: Tensor
    rows: Tensor

    def __init__(
        self,
        k: int = 5,
        *,
        axis: int = 1,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        own = type(self).__name__
        if isinstance(k, bool) or not isinstance(k, int) or k < 1:
            raise InvalidValueError(f"{own}: k must be an int of at least 1, got {k!r}; pass a number of classes")
        super().__init__(axis=axis, ignore_index=ignore_index, weighted=weighted, name=name or f"top_{k}_accuracy")
        self.k = k
        self.add_amount("correct")
        self.add_amount("rows")

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Count the rows of a batch whose class is among the best."""
        axis = self._class_axis(outputs)
        if axis is None or not is_float(outputs.dtype) or outputs.shape[axis] < self.k:
            raise TypeRuleError(
                f"{type(self).__name__}: outputs must be floats with an axis of at least {self.k} classes, got "
                f"{outputs._spec.type}; pass logits or probabilities [N, C], or a smaller k"
            )
        read = self.read(outputs, targets, weight)
        scores = outputs.movedim(axis, -1).reshape(-1, outputs.shape[axis])
        classes, own = arange(scores.shape[1]), read.actual[:, None]
        score = scores.gather(1, own)
        better = (scores > score) | ((scores == score) & (classes < own))
        self.correct.add_(read.amounts(better.sum(1) < self.k).sum())
        self.rows.add_(read.amounts(read.valid).sum())

    def result(self) -> float:
        """The accuracy."""
        return self.ratio("correct", "rows")


class Top1CategoricalAccuracy(TopKCategoricalAccuracy):
    """The part of rows whose class is the largest output; arguments are those of `TopKCategoricalAccuracy`."""

    def __init__(
        self,
        *,
        axis: int = 1,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(1, axis=axis, ignore_index=ignore_index, weighted=weighted, name=name)


class Top5CategoricalAccuracy(TopKCategoricalAccuracy):
    """The part of rows whose class is among the 5 largest outputs; arguments are those of `TopKCategoricalAccuracy`."""

    def __init__(
        self,
        *,
        axis: int = 1,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(5, axis=axis, ignore_index=ignore_index, weighted=weighted, name=name)
