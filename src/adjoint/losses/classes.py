"""Margins between the scores of classes, of which one or several are right."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import TensorType, Value, is_integer
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import ConfiguredLoss, check_predictions, check_reduction, matched, reduced
from adjoint.losses.cross_entropy import class_weights

__all__ = [
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "multi_margin",
    "multilabel_margin",
    "multilabel_soft_margin",
]

_Weight = Value | np.ndarray | Sequence[float] | None


def multi_margin(
    predictions: Value,
    targets: Value,
    p: int = 1,
    margin: float = 1.0,
    weight: _Weight = None,
    reduction: str = "mean",
) -> Value:
    """``sum over c != y of max(0, margin - x[y] + x[c])**p / C`` for scores x and class indices y, reduced.

    Parameters
    ----------
    predictions : Value
        Scores of C classes, float, ``[N, C]`` or ``[C]``.
    targets : Value
        Class indices, of any integer dtype, ``[N]`` or ``[]``.
    p : int, default 1
        The exponent, 1 or 2.
    margin : float, default 1.0
        The difference beyond which there is no loss.
    weight : Value, numpy.ndarray or sequence of float, optional
        One weight per class, by which the losses of its examples are multiplied. "mean" divides by N all the same.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    InvalidValueError
        If the exponent is not 1 or 2.
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "multi_margin_loss"
    check_reduction(name, reduction)
    if p not in (1, 2):
        raise InvalidValueError(f"{name}: p must be 1 or 2, got {p!r}; pass one of them")
    _check_scores(name, predictions, targets, predictions.shape[:-1])
    classes = predictions.shape[-1]
    ids = ops.check_range(targets, 0, classes)
    right = ops.expand_dims(ops.take_along_last(predictions, ids), -1)
    beyond = ops.relu(margin - right + predictions)
    other = ops.not_equal(ops.iota(predictions.shape, -1, ids.dtype), ops.expand_dims(ids, -1))
    losses = ops.where(other, beyond if p == 1 else beyond.square(), 0.0).sum(-1) / float(classes)
    if weight is not None:
        losses = losses * ops.take(class_weights(weight, predictions, name), ids)
    return reduced(losses, reduction)


def multilabel_margin(predictions: Value, targets: Value, reduction: str = "mean") -> Value:
    """``sum over y, c of max(0, 1 - (x[y] - x[c])) / C`` for the classes y of an example and all others c, reduced.

    Parameters
    ----------
    predictions : Value
        Scores of C classes, float, ``[N, C]`` or ``[C]``.
    targets : Value
        The indices of the classes of each example, of any integer dtype and the shape of the scores. They end at the
        first -1, and what follows does not count.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "multilabel_margin_loss"
    check_reduction(name, reduction)
    _check_scores(name, predictions, targets, predictions.shape)
    classes = predictions.shape[-1]
    ids = ops.check_range(targets, -1, classes)
    place = ops.iota(ids.shape, -1, "i64")
    ended = ops.less(ids, 0)
    first = ops.min(ops.where(ended, place, classes), -1, keepdims=True)
    counted = ops.expand_dims(ops.less(place, first), -1)
    # Pairs of a label, at the last but one axis, and a class, at the last.
    pairs = (*ids.shape, classes)
    label = ops.logical_and(ops.equal(ops.expand_dims(ids, -1), ops.iota(pairs, -1, ids.dtype)), counted)
    scores = ops.broadcast_to(ops.expand_dims(predictions, -2), pairs)
    right = ops.where(label, scores, 0.0).sum(-1, keepdims=True)
    is_label = ops.max(ops.cast(label, "i32"), -2, keepdims=True)
    compared = ops.logical_and(counted, ops.equal(is_label, 0))
    losses = ops.where(compared, ops.relu(1.0 - right + scores), 0.0).sum((-2, -1)) / float(classes)
    return reduced(losses, reduction)


def multilabel_soft_margin(
    predictions: Value, targets: Value, weight: _Weight = None, reduction: str = "mean"
) -> Value:
    """The mean over the classes of their binary cross-entropies, given logits, reduced over the examples.

    Parameters
    ----------
    predictions : Value
        Logits of C classes, float, ``[N, C]`` or ``[C]``.
    targets : Value
        1 for the classes of an example and 0 for others, of the same shape.
    weight : Value, numpy.ndarray or sequence of float, optional
        One factor per class.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "multilabel_soft_margin_loss"
    check_reduction(name, reduction)
    targets = matched(name, predictions, targets)
    losses = (1.0 - targets) * predictions + ops.softplus(-predictions)
    if weight is not None:
        losses = losses * class_weights(weight, predictions, name)
    return reduced(losses.mean(-1), reduction)


def _check_scores(name: str, predictions: Value, targets: Value, shape: tuple[int, ...]) -> None:
    check_predictions(name, predictions)
    if len(predictions.shape) not in (1, 2) or not predictions.shape[-1]:
        raise TypeRuleError(f"{name}: predictions must be [N, C] or [C] with C >= 1, got {predictions.type}")
    if targets.shape != shape or not is_integer(targets.dtype):
        raise TypeRuleError(
            f"{name}: for predictions {predictions.type}, targets must be class indices of shape {list(shape)}, got "
            f"{targets.type}; reshape or cast them"
        )


def _numbers(weight: Any) -> Any:
    """Weights as a tuple, which can be compared and hashed."""
    return None if weight is None else tuple(np.asarray(weight, np.float64).tolist())


@dataclass(frozen=True)
class MultiMarginLoss(ConfiguredLoss):
    """`multi_margin` with its settings, which are the parameters of the function; weights are stored as a tuple."""

    name: ClassVar[str] = "multi_margin_loss"
    build = staticmethod(multi_margin)
    p: int = 1
    margin: float = 1.0
    weight: tuple[float, ...] | None = None
    reduction: str = "mean"

    def __post_init__(self) -> None:
        ConfiguredLoss.__post_init__(self)
        object.__setattr__(self, "weight", _numbers(self.weight))

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """Class indices, i64 of the shape of the predictions without their last axis."""
        return (outputs[0].with_shape(outputs[0].shape[:-1]).with_dtype("i64"),)


@dataclass(frozen=True)
class MultiLabelMarginLoss(ConfiguredLoss):
    """`multilabel_margin` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "multilabel_margin_loss"
    build = staticmethod(multilabel_margin)
    reduction: str = "mean"

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """Class indices, i64 of the shape of the predictions."""
        return (outputs[0].with_dtype("i64"),)


@dataclass(frozen=True)
class MultiLabelSoftMarginLoss(ConfiguredLoss):
    """`multilabel_soft_margin` with its settings, the parameters of the function; weights are stored as a tuple."""

    name: ClassVar[str] = "multilabel_soft_margin_loss"
    build = staticmethod(multilabel_soft_margin)
    weight: tuple[float, ...] | None = None
    reduction: str = "mean"

    def __post_init__(self) -> None:
        ConfiguredLoss.__post_init__(self)
        object.__setattr__(self, "weight", _numbers(self.weight))

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]
