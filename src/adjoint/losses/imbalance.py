"""Losses for classes of very different frequency, as in detection and segmentation."""

from typing import ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import ConfiguredLoss, check_reduction, matched, reduced

__all__ = ["DiceLoss", "FocalLoss", "dice", "focal"]


def focal(
    predictions: Value, targets: Value, alpha: float = 0.25, gamma: float = 2.0, reduction: str = "mean"
) -> Value:
    """The binary cross-entropy of logits times ``(1 - q)**gamma``, where q is the probability of the target, reduced.

    Lin et al., "Focal loss for dense object detection", 2017; ``sigmoid_focal_loss`` of torchvision.

    Parameters
    ----------
    predictions : Value
        Logits, float.
    targets : Value
        0 or 1, of the same shape.
    alpha : float, default 0.25
        The weight of positive targets; that of negative ones is ``1 - alpha``. With a negative number, both are 1.
    gamma : float, default 2.0
        How much less examples count that are classified well. At least 0; with 0, all count the same.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    InvalidValueError
        If `alpha` is above 1, or `gamma` is negative.
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "focal_loss"
    check_reduction(name, reduction)
    if alpha > 1 or gamma < 0:
        raise InvalidValueError(
            f"{name}: alpha must be at most 1 and gamma at least 0, got {alpha} and {gamma}; use 0.25 and 2.0"
        )
    targets = matched(name, predictions, targets)
    losses = (1.0 - targets) * predictions + ops.softplus(-predictions)
    if gamma:
        # The probability of the other class, without the cancellation of 1 - q.
        other = ops.sigmoid(predictions) * (1.0 - targets) + ops.sigmoid(-predictions) * targets
        losses = losses * (other.square() if gamma == 2 else ops.power(other, float(gamma)))
    if alpha >= 0:
        losses = losses * (alpha * targets + (1.0 - alpha) * (1.0 - targets))
    return reduced(losses, reduction)


def dice(predictions: Value, targets: Value, smooth: float = 1.0, reduction: str = "mean") -> Value:
    """``1 - (2 * sum(p * t) + smooth) / (sum(p) + sum(t) + smooth)`` for probabilities p and targets t, reduced.

    Milletari, Navab and Ahmadi, "V-Net: fully convolutional neural networks for volumetric medical image segmentation",
    2016, with sums instead of sums of squares in the denominator.

    Parameters
    ----------
    predictions : Value
        Probabilities, float, ``[N, C, d1, ...]``, and the sums are over ``d1, ...``; or of one or two axes, and the
        sums are over the last.
    targets : Value
        0 or 1, of the same shape.
    smooth : float, default 1.0
        Keeps the loss of empty predictions and targets finite, namely 0.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`; "none" returns a loss for each example and class.

    Raises
    ------
    InvalidValueError
        If `smooth` is negative.
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "dice_loss"
    check_reduction(name, reduction)
    if smooth < 0:
        raise InvalidValueError(f"{name}: smooth must not be negative, got {smooth}; use 1.0")
    targets = matched(name, predictions, targets)
    rank = len(predictions.shape)
    if not rank:
        raise TypeRuleError(f"{name}: predictions must have an axis, got {predictions.type}; reshape them")
    axes = tuple(range(2, rank)) if rank > 2 else (-1,)
    common = (predictions * targets).sum(axes)
    total = predictions.sum(axes) + targets.sum(axes)
    return reduced(1.0 - (2.0 * common + smooth) / (total + smooth), reduction)


@dataclass(frozen=True)
class FocalLoss(ConfiguredLoss):
    """`focal` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "focal_loss"
    build = staticmethod(focal)
    alpha: float = 0.25
    gamma: float = 2.0
    reduction: str = "mean"

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]


@dataclass(frozen=True)
class DiceLoss(ConfiguredLoss):
    """`dice` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "dice_loss"
    build = staticmethod(dice)
    smooth: float = 1.0
    reduction: str = "mean"

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]
