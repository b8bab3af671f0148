"""Losses of a difference: squared, absolute, and squared near zero only."""

from typing import Any, ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import PairLoss, check_reduction, matched, reduced

__all__ = ["HuberLoss", "L1Loss", "MSELoss", "SmoothL1Loss", "huber", "l1", "mse", "smooth_l1"]


def mse(predictions: Value, targets: Value, reduction: str = "mean", weight: Value | None = None) -> Value:
    """Squared error: ``(predictions - targets)**2``, reduced.

    Parameters
    ----------
    predictions : Value
        Float, of any shape.
    targets : Value
        Same shape, and the same dtype or an integer one, which is cast.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of elements, "none" keeps the shape of `predictions`.
    weight : Value, optional
        Factors of the losses, of the type of `predictions`; "mean" then divides by their sum.

    Raises
    ------
    TypeRuleError
        If the shapes differ. Nothing is broadcast, because that would hide a missing axis.
    """
    losses = _difference("mse_loss", predictions, targets, reduction).square()
    return _weighted("mse_loss", losses, weight, reduction)


def l1(predictions: Value, targets: Value, reduction: str = "mean", weight: Value | None = None) -> Value:
    """Absolute error: ``abs(predictions - targets)``, reduced. Its gradient at 0 is 0.

    Parameters and errors are those of `mse`.
    """
    losses = abs(_difference("l1_loss", predictions, targets, reduction))
    return _weighted("l1_loss", losses, weight, reduction)


def smooth_l1(predictions: Value, targets: Value, reduction: str = "mean", beta: float = 1.0) -> Value:
    """``d**2 / (2 * beta)`` where the absolute error d is below `beta`, otherwise ``d - beta / 2``, reduced.

    Girshick, "Fast R-CNN", 2015. Other parameters and errors are those of `mse`.

    Parameters
    ----------
    predictions, targets : Value
        As in `mse`.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    beta : float, default 1.0
        Not negative; with 0 it is `l1`.
    """
    if beta < 0:
        raise InvalidValueError(f"smooth_l1_loss: beta must not be negative, got {beta}; use 1.0")
    if beta == 0:
        return l1(predictions, targets, reduction)
    return reduced(ops.multiply(_huber("smooth_l1_loss", predictions, targets, reduction, beta), 1.0 / beta), reduction)


def huber(
    predictions: Value, targets: Value, reduction: str = "mean", delta: float = 1.0, weight: Value | None = None
) -> Value:
    """``d**2 / 2`` where the absolute error d is below `delta`, otherwise ``delta * (d - delta / 2)``, reduced.

    Huber, "Robust estimation of a location parameter", 1964. Other parameters and errors are those of `mse`.

    Parameters
    ----------
    predictions, targets : Value
        As in `mse`.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    delta : float, default 1.0
        Positive.
    weight : Value, optional
        Factors of the losses, of the type of `predictions`; "mean" divides by the number of elements all the same, as
        in PyTorch.
    """
    if delta <= 0:
        raise InvalidValueError(f"huber_loss: delta must be positive, got {delta}; use 1.0")
    losses = _huber("huber_loss", predictions, targets, reduction, delta)
    return reduced(losses if weight is None else losses * matched("huber_loss", losses, weight), reduction)


def _huber(name: str, predictions: Value, targets: Value, reduction: str, delta: float) -> Value:
    difference = _difference(name, predictions, targets, reduction)
    size = abs(difference)
    return ops.where(size < delta, difference.square() * 0.5, (size - 0.5 * delta) * delta)


def _difference(name: str, predictions: Value, targets: Value, reduction: str) -> Value:
    check_reduction(name, reduction)
    return predictions - matched(name, predictions, targets)


def _weighted(name: str, losses: Value, weight: Value | None, reduction: str) -> Value:
    """The losses times weights, reduced; "mean" is the weighted mean."""
    if weight is None:
        return reduced(losses, reduction)
    weight = matched(name, losses, weight)
    if reduction == "mean":
        return ops.divide(ops.sum(losses * weight), ops.sum(weight))
    return reduced(losses * weight, reduction)


@dataclass(frozen=True)
class MSELoss(PairLoss):
    """`mse` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    """

    name: ClassVar[str] = "mse_loss"

    def __call__(self, *args: Any) -> Any:
        """``mse(predictions, targets)``."""
        self.check_count(len(args))
        return mse(args[0], args[1], self.reduction)


@dataclass(frozen=True)
class L1Loss(PairLoss):
    """`l1` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    """

    name: ClassVar[str] = "l1_loss"

    def __call__(self, *args: Any) -> Any:
        """``l1(predictions, targets)``."""
        self.check_count(len(args))
        return l1(args[0], args[1], self.reduction)


@dataclass(frozen=True)
class SmoothL1Loss(PairLoss):
    """`smooth_l1` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    beta : float, default 1.0
        As in `smooth_l1`.
    """

    name: ClassVar[str] = "smooth_l1_loss"
    beta: float = 1.0

    def __call__(self, *args: Any) -> Any:
        """``smooth_l1(predictions, targets)``."""
        self.check_count(len(args))
        return smooth_l1(args[0], args[1], self.reduction, self.beta)


@dataclass(frozen=True)
class HuberLoss(PairLoss):
    """`huber` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    delta : float, default 1.0
        As in `huber`.
    """

    name: ClassVar[str] = "huber_loss"
    delta: float = 1.0

    def __call__(self, *args: Any) -> Any:
        """``huber(predictions, targets)``."""
        self.check_count(len(args))
        return huber(args[0], args[1], self.reduction, self.delta)
