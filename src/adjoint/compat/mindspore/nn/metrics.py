"""`mindspore.nn.metrics`: adjoint's metrics with MindSpore's defaults."""

from adjoint.compat.uncovered import uncovered
from adjoint.training import metrics as native
from adjoint.training.metrics import (
    MAE,
    MSE,
    Accuracy,
    ConfusionMatrix,
    Loss,
    Metric,
    Perplexity,
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)
from adjoint.training.metrics.by_name import NAMES

__all__ = [
    "F1",
    "MAE",
    "MSE",
    "Accuracy",
    "ConfusionMatrix",
    "Fbeta",
    "Loss",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "names",
]


class Precision(native.Precision):
    """``Precision(eval_type="classification")``: of each class."""

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type, average=None)


class Recall(native.Recall):
    """``Recall(eval_type="classification")``: of each class."""

    def __init__(self, eval_type: str = "classification") -> None:
        super().__init__(eval_type, average=None)


class Fbeta(native.Fbeta):
    """``Fbeta(beta)``: of each class."""

    def __init__(self, beta: float) -> None:
        super().__init__(beta, average=None)


class F1(native.F1):
    """``F1()``: of each class."""

    def __init__(self) -> None:
        super().__init__(average=None)


def names() -> list[str]:
    """The metrics that a model can be given by name."""
    return list(NAMES)


__getattr__ = uncovered(__name__, {}, "adjoint.training.metrics")
