"""Cross-entropy of two classes, given probabilities or logits."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import Loss, check_reduction, matched, reduced

__all__ = ["BCELoss", "BCEWithLogitsLoss", "binary_cross_entropy", "binary_cross_entropy_with_logits"]

#: PyTorch bounds the logarithms of probabilities, so that the loss of a certain error is finite.
_LEAST_LOG = -100.0


def binary_cross_entropy(
    predictions: Value,
    targets: Value,
    weight: Value | np.ndarray | Sequence[float] | None = None,
    reduction: str = "mean",
) -> Value:
    """``-(y * log(p) + (1 - y) * log(1 - p))`` for probabilities p and targets y, reduced.

    Logarithms are at least -100, as in PyTorch, and have no gradient at the bound. Logits are more accurate:
    `binary_cross_entropy_with_logits`.

    Parameters
    ----------
    predictions : Value
        Probabilities, float.
    targets : Value
        Probabilities of the same shape, usually 0 and 1.
    weight : Value, numpy.ndarray or sequence of float, optional
        Factors of the losses, which broadcast to their shape.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "binary_cross_entropy"
    check_reduction(name, reduction)
    targets = matched(name, predictions, targets)
    yes, no = (_bounded_log(p) for p in (predictions, 1.0 - predictions))
    losses = -(targets * yes + (1.0 - targets) * no)
    return reduced(_weighted(losses, weight), reduction)


def _bounded_log(p: Value) -> Value:
    positive = p > 0.0  # the gradient of the logarithm of 0 is infinite, and times 0 it is NaN
    logs = ops.log(ops.where(positive, p, 1.0))
    return ops.where(positive, ops.maximum(logs, _LEAST_LOG), _LEAST_LOG)


def binary_cross_entropy_with_logits(
    predictions: Value,
    targets: Value,
    weight: Value | np.ndarray | Sequence[float] | None = None,
    reduction: str = "mean",
    pos_weight: Value | np.ndarray | Sequence[float] | None = None,
) -> Value:
    """``-(y * log(sigmoid(x)) + (1 - y) * log(1 - sigmoid(x)))`` for logits x and targets y, reduced.

    It is computed as ``(1 - y) * x + (1 + (pos_weight - 1) * y) * softplus(-x)``, which cannot overflow.

    Parameters
    ----------
    predictions : Value
        Logits, float.
    targets : Value
        Probabilities of the same shape, usually 0 and 1.
    weight : Value, numpy.ndarray or sequence of float, optional
        Factors of the losses, which broadcast to their shape.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    pos_weight : Value, numpy.ndarray or sequence of float, optional
        Factors of the first term, which broadcast to the shape.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "binary_cross_entropy_with_logits"
    check_reduction(name, reduction)
    targets = matched(name, predictions, targets)
    smooth = ops.softplus(-predictions)
    if pos_weight is not None:
        smooth = smooth * (1.0 + (_value(pos_weight, predictions) - 1.0) * targets)
    losses = (1.0 - targets) * predictions + smooth
    return reduced(_weighted(losses, weight), reduction)


def _weighted(losses: Value, weight: Any) -> Value:
    return losses if weight is None else losses * _value(weight, losses)


def _value(given: Any, like: Value) -> Value:
    return given if isinstance(given, Value) else ops.constant(np.asarray(given, np.float64), like.dtype)


def _numbers(given: Any) -> Any:
    """An array as nested tuples, which can be compared and hashed."""
    return _tuples(np.asarray(given, np.float64).tolist())


def _tuples(given: Any) -> Any:
    return tuple(map(_tuples, given)) if isinstance(given, list) else given


@dataclass(frozen=True)
class BCELoss(Loss):
    """`binary_cross_entropy` with its settings.

    Parameters
    ----------
    weight : sequence of float or numpy.ndarray, optional
        Factors of the losses, stored as tuples.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    """

    name: ClassVar[str] = "binary_cross_entropy"
    weight: Any = None
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)
        if self.weight is not None:
            object.__setattr__(self, "weight", _numbers(self.weight))

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]

    def __call__(self, *args: Any) -> Any:
        """``binary_cross_entropy(predictions, targets)``."""
        self.check_count(len(args))
        return binary_cross_entropy(args[0], args[1], self.weight, self.reduction)


@dataclass(frozen=True)
class BCEWithLogitsLoss(Loss):
    """`binary_cross_entropy_with_logits` with its settings.

    Parameters
    ----------
    weight : sequence of float or numpy.ndarray, optional
        Factors of the losses, stored as tuples.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    pos_weight : sequence of float or numpy.ndarray, optional
        Factors of the losses of positive targets, stored as tuples.
    """

    name: ClassVar[str] = "binary_cross_entropy_with_logits"
    weight: Any = None
    reduction: str = "mean"
    pos_weight: Any = None

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)
        for setting in ("weight", "pos_weight"):
            given = getattr(self, setting)
            if given is not None:
                object.__setattr__(self, setting, _numbers(given))

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]

    def __call__(self, *args: Any) -> Any:
        """``binary_cross_entropy_with_logits(predictions, targets)``."""
        self.check_count(len(args))
        return binary_cross_entropy_with_logits(args[0], args[1], self.weight, self.reduction, self.pos_weight)
