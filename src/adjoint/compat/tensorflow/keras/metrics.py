"""Metrics with Keras' methods: sums that `update_state` adds to, in compiled code where it is called there."""

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.compat.tensorflow.keras import losses
from adjoint.compat.tensorflow.variables import tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.errors import NameLookupError, kind_of
from adjoint.ir import as_dtype
from adjoint.modules import Module
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "Mean", "MeanAbsoluteError", "MeanMetricWrapper",
    "MeanSquaredError", "Metric", "RootMeanSquaredError", "SparseCategoricalAccuracy", "Sum", "get",
]  # fmt: skip
__getattr__ = uncovered(
    __name__, {"AUC": "use adjoint.training.metrics.ROCAUC", "Precision": "use adjoint.training.metrics.Precision"},
    "adjoint.training.metrics",
)  # fmt: skip


class Metric(Module):
    """The mean of what `values` says of each row.

    Parameters
    ----------
    name : str, optional
        Its key in the results.
    """

    total: Tensor
    count: Tensor

    def __init__(self, name: str | None = None, dtype: Any = None) -> None:
        super().__init__()
        del dtype
        kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self).__name__).lstrip("_")
        self.name = name or kind
        self.register_buffer("total", from_array(np.zeros((), np.float32)))
        self.register_buffer("count", from_array(np.zeros((), np.float32)))

    def values(self, y_true: Any, y_pred: Any) -> Tensor:
        """What is averaged: a number for each row."""
        raise NotImplementedError

    def update_state(self, y_true: Any, y_pred: Any = None, sample_weight: Any = None) -> None:
        """Take a batch into account."""
        with no_grad():
            rows = self.values(y_true, y_pred).detach().to(as_dtype("float32")).reshape((-1,))
            if sample_weight is not None:
                weights = tensor_of(sample_weight).to(as_dtype("float32")).reshape((-1,))
                self.total.add_((rows * weights).sum())
                self.count.add_(weights.sum())
                return
            self.total.add_(rows.sum())
            self.count.add_(float(rows.numel()))

    def forward(self, *arguments: Any, **settings: Any) -> Any:
        """Take a batch into account, and return the result."""
        self.update_state(*arguments, **settings)
        return self.result()

    def result(self) -> Any:
        """The mean of all rows so far; 0 of none."""
        return self.total / self.count.clamp(min=1e-12)

    def reset_state(self) -> None:
        """Begin anew."""
        with no_grad():
            self.total.zero_()
            self.count.zero_()

    reset_states = reset_state


class Mean(Metric):
    """The mean of the numbers that it is given."""

    def values(self, y_true: Any, y_pred: Any) -> Tensor:  # noqa: ARG002
        """The numbers."""
        return tensor_of(y_true)


class Sum(Mean):
    """The sum of the numbers that it is given."""

    def result(self) -> Any:
        """The sum so far."""
        return self.total * 1.0


class MeanMetricWrapper(Metric):
    """The mean of a function of the rows."""

    def __init__(self, fn: Callable[..., Tensor], name: str | None = None, **settings: Any) -> None:
        super().__init__(name or getattr(fn, "__name__", None))
        self._function, self._settings = fn, settings

    def values(self, y_true: Any, y_pred: Any) -> Tensor:
        """The function of each row."""
        return self._function(y_true, y_pred, **self._settings)


class Accuracy(Metric):
    """The share of equal elements."""

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where both are equal."""
        return tensor_of(y_pred).eq(tensor_of(y_true).to(tensor_of(y_pred).dtype))


class SparseCategoricalAccuracy(Metric):
    """The share of rows whose largest score is that of the class index."""

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where they agree."""
        scores = tensor_of(y_pred)
        ids = tensor_of(y_true).to(as_dtype("int64"))
        ids = ids.reshape(tuple(ids.shape[:-1])) if ids.ndim == scores.ndim else ids
        return scores.argmax(-1).eq(ids)


class CategoricalAccuracy(Metric):
    """The share of rows whose largest score is that of the largest probability."""

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where they agree."""
        return tensor_of(y_pred).argmax(-1).eq(tensor_of(y_true).argmax(-1))


class BinaryAccuracy(Metric):
    """The share of scores on the right side of a threshold."""

    def __init__(self, name: str | None = None, dtype: Any = None, threshold: float = 0.5) -> None:
        super().__init__(name, dtype)
        self.threshold = threshold

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """1 where they are."""
        scores = tensor_of(y_pred)
        return (
            scores.gt(self.threshold)
            .to(scores.dtype)
            .eq(tensor_of(y_true).to(scores.dtype).reshape(tuple(scores.shape)))
        )


class MeanSquaredError(Metric):
    """The mean squared difference."""

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """That of each row."""
        return losses.mean_squared_error(y_true, y_pred)


class RootMeanSquaredError(MeanSquaredError):
    """The root of the mean squared difference."""

    def result(self) -> Any:
        """The root so far."""
        return super().result().sqrt()


class MeanAbsoluteError(Metric):
    """The mean absolute difference."""

    def values(self, y_true: Any, y_pred: Any) -> Any:
        """That of each row."""
        return losses.mean_absolute_error(y_true, y_pred)


_BY_NAME: dict[str, Callable[..., Metric]] = {
    "mse": MeanSquaredError, "mean_squared_error": MeanSquaredError, "mae": MeanAbsoluteError,
    "mean_absolute_error": MeanAbsoluteError, "binary_accuracy": BinaryAccuracy,
    "categorical_accuracy": CategoricalAccuracy, "sparse_categorical_accuracy": SparseCategoricalAccuracy,
    "root_mean_squared_error": RootMeanSquaredError,
}  # fmt: skip


def get(identifier: Any, loss: Any = None) -> Any:
    """The metric of a name; ``accuracy`` is that which fits the loss."""
    if isinstance(identifier, Metric):
        return identifier
    if callable(identifier):
        return MeanMetricWrapper(identifier)
    if identifier in ("accuracy", "acc"):
        kind = type(loss).__name__
        fitting = {"BinaryCrossentropy": BinaryAccuracy, "CategoricalCrossentropy": CategoricalAccuracy}
        return fitting.get(kind, SparseCategoricalAccuracy)(name=identifier)
    if identifier not in _BY_NAME:
        given = repr(identifier) if isinstance(identifier, str) else kind_of(identifier)
        raise NameLookupError(f"a metric must be accuracy, one of {', '.join(_BY_NAME)} or an object, got {given}")
    return _BY_NAME[identifier](name=identifier)
