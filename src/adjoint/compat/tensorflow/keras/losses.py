"""Losses with Keras' argument order: ``loss(y_true, y_pred)``."""

from collections.abc import Callable
from typing import Any

from adjoint.compat.tensorflow.variables import tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError, NameLookupError, kind_of
from adjoint.ir import as_dtype
from adjoint.nn import functional
from adjoint.tensor.tensor import Tensor

__all__ = [
    "BinaryCrossentropy", "CategoricalCrossentropy", "Huber", "KLDivergence", "Loss", "MeanAbsoluteError",
    "MeanSquaredError", "SparseCategoricalCrossentropy", "binary_crossentropy", "categorical_crossentropy", "get",
    "mean_absolute_error", "mean_squared_error", "sparse_categorical_crossentropy",
]  # fmt: skip
__getattr__ = uncovered(__name__, {}, "adjoint.losses")

#: Probabilities are kept so far from 0 and 1, as Keras does.
_LEAST = 1e-7


def _like(y_true: Any, y_pred: Tensor) -> Any:
    return tensor_of(y_true).to(y_pred.dtype)


def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """The mean squared difference of each row."""
    made = tensor_of(y_pred)
    return ((made - _like(y_true, made)) ** 2).mean(-1)


def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """The mean absolute difference of each row."""
    made = tensor_of(y_pred)
    return (made - _like(y_true, made)).abs().mean(-1)


def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0) -> Any:
    """The mean binary cross entropy of each row."""
    made = tensor_of(y_pred)
    target = _like(y_true, made)
    target = target * (1.0 - label_smoothing) + 0.5 * label_smoothing if label_smoothing else target
    if from_logits:
        return functional.binary_cross_entropy_with_logits(made, target, reduction="none").mean(-1)
    shares = made.clamp(_LEAST, 1.0 - _LEAST)
    return -(target * shares.log() + (1.0 - target) * (1.0 - shares).log()).mean(-1)


def categorical_crossentropy(
    y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0.0, axis: int = -1
) -> Any:
    """The cross entropy of each row with a row of probabilities."""
    made = tensor_of(y_pred)
    target = _like(y_true, made)
    if label_smoothing:
        target = target * (1.0 - label_smoothing) + label_smoothing / made.shape[axis]
    return -(target * _log_shares(made, from_logits, axis)).sum(axis)


def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """The cross entropy of each row with a class index."""
    made = tensor_of(y_pred)
    ids = tensor_of(y_true).to(as_dtype("int64"))
    ids = ids.reshape(tuple(ids.shape[:-1])) if ids.ndim == made.ndim and ids.shape[-1] == 1 else ids
    shares = _log_shares(made, from_logits, axis)
    found = functional.nll_loss(shares.reshape((-1, made.shape[-1])), ids.reshape((-1,)), reduction="none")
    return found.reshape(tuple(ids.shape))


def _log_shares(made: Tensor, from_logits: bool, axis: int) -> Any:
    if from_logits:
        return functional.log_softmax(made, axis)
    return (made / made.sum(axis, keepdim=True)).clamp(_LEAST, 1.0 - _LEAST).log()


def kl_divergence(y_true: Any, y_pred: Any) -> Any:
    """The Kullback-Leibler divergence of each row."""
    made = tensor_of(y_pred).clamp(_LEAST, 1.0)
    target = _like(y_true, made).clamp(_LEAST, 1.0)
    return (target * (target / made).log()).sum(-1)


def huber(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """The mean of Huber's function of the differences of each row."""
    made = tensor_of(y_pred)
    return functional.huber_loss(made, _like(y_true, made), reduction="none", delta=delta).mean(-1)


class Loss:
    """A loss: a function of each row, and how rows are combined.

    Parameters
    ----------
    function : callable, optional
        ``function(y_true, y_pred)``, one number per row; a subclass may define `call` instead.
    reduction : str, default "sum_over_batch_size"
        The mean; or "sum" or "none".
    """

    def __init__(
        self, function: Callable[..., Tensor] | None = None, reduction: str | None = "sum_over_batch_size",
        name: str | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        if reduction not in ("sum_over_batch_size", "mean", "sum", "none", None):
            raise InvalidValueError(f"reduction must be 'sum_over_batch_size', 'sum' or 'none', got {reduction!r}")
        self._function, self.reduction, self.settings = function, reduction, settings
        self.name = name or type(self).__name__

    def call(self, y_true: Any, y_pred: Any) -> Tensor:
        """The loss of each row."""
        if self._function is None:
            raise InvalidValueError(f"{self.name}: a loss must define call(self, y_true, y_pred), got none; add it")
        return self._function(y_true, y_pred, **self.settings)

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """The loss of a batch."""
        rows = self.call(y_true, y_pred)
        if sample_weight is not None:
            rows = rows * _like(sample_weight, rows).reshape(tuple(rows.shape))
        if self.reduction in ("none", None):
            return rows
        return rows.sum() if self.reduction == "sum" else rows.mean()


def _of(name: str, function: Callable[..., Tensor], *settings: str) -> type[Loss]:
    def make(self: Loss, *given: Any, reduction: str = "sum_over_batch_size", **named: Any) -> None:
        chosen = dict(zip(settings, given, strict=False)) | named
        chosen.pop("name", None)
        if unknown := [key for key in chosen if key not in settings]:
            raise InvalidValueError(f"{name} does not take {', '.join(unknown)}; leave it out")
        Loss.__init__(self, function, reduction, name, **chosen)

    return type(name, (Loss,), {"__init__": make, "__doc__": function.__doc__, "__module__": __name__})


MeanSquaredError = _of("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _of("MeanAbsoluteError", mean_absolute_error)
BinaryCrossentropy = _of("BinaryCrossentropy", binary_crossentropy, "from_logits", "label_smoothing")
CategoricalCrossentropy = _of(
    "CategoricalCrossentropy", categorical_crossentropy, "from_logits", "label_smoothing", "axis"
)
SparseCategoricalCrossentropy = _of("SparseCategoricalCrossentropy", sparse_categorical_crossentropy, "from_logits")
KLDivergence = _of("KLDivergence", kl_divergence)
Huber = _of("Huber", huber, "delta")

_BY_NAME: dict[str, Callable[[], Loss]] = {
    "mse": MeanSquaredError, "mean_squared_error": MeanSquaredError, "mae": MeanAbsoluteError,
    "mean_absolute_error": MeanAbsoluteError, "binary_crossentropy": BinaryCrossentropy,
    "categorical_crossentropy": CategoricalCrossentropy,
    "sparse_categorical_crossentropy": SparseCategoricalCrossentropy, "kl_divergence": KLDivergence, "huber": Huber,
}  # fmt: skip


def get(identifier: Any) -> Any:
    """The loss of a name; objects are returned as they are, and the rows of functions are averaged."""
    if isinstance(identifier, Loss):
        return identifier
    if callable(identifier):
        return Loss(identifier)
    if identifier not in _BY_NAME:
        given = repr(identifier) if isinstance(identifier, str) else kind_of(identifier)
        raise NameLookupError(f"a loss must be one of {', '.join(_BY_NAME)} or a function, got {given}; choose one")
    return _BY_NAME[identifier]()
