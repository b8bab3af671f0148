"""Mean squared and mean absolute error."""

from dataclasses import dataclass
from typing import ClassVar

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import TensorType, Value, is_integer
from adjoint.losses.base import Loss, check_predictions, check_reduction, reduced

__all__ = ["L1Loss", "MSELoss", "l1", "mse"]


def mse(predictions: Value, targets: Value, reduction: str = "mean") -> Value:
    """Squared error: ``(predictions - targets)**2``, reduced.

    Parameters
    ----------
    predictions : Value
        Float, of any shape.
    targets : Value
        Same shape, and the same dtype or an integer one, which is cast.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides by the number of elements, "none" keeps the shape of `predictions`.

    Raises
    ------
    TypeRuleError
        If the shapes differ. Nothing is broadcast, because that would hide a missing axis.
    """
    return reduced(_difference("mse_loss", predictions, targets, reduction).square(), reduction)


def l1(predictions: Value, targets: Value, reduction: str = "mean") -> Value:
    """Absolute error: ``abs(predictions - targets)``, reduced. Its gradient at 0 is 0.

    Parameters and errors are those of `mse`.
    """
    return reduced(abs(_difference("l1_loss", predictions, targets, reduction)), reduction)


def _difference(name: str, predictions: Value, targets: Value, reduction: str) -> Value:
    check_reduction(name, reduction)
    check_predictions(name, predictions)
    if targets.shape != predictions.shape:
        raise TypeRuleError(
            f"{name}: predictions and targets must have the same shape, got {predictions.type} and {targets.type}; "
            "reshape one of them"
        )
    if is_integer(targets.dtype):
        targets = ops.cast(targets, predictions.dtype)
    if targets.dtype != predictions.dtype:
        raise TypeRuleError(
            f"{name}: predictions and targets must have the same dtype, got {predictions.type} and {targets.type}; "
            "cast one"
        )
    return predictions - targets


@dataclass(frozen=True)
class MSELoss(Loss):
    """`mse` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    """

    name: ClassVar[str] = "mse_loss"
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]

    def __call__(self, *args: Value) -> Value:
        """``mse(predictions, targets)``."""
        self.check_count(len(args))
        return mse(args[0], args[1], self.reduction)


@dataclass(frozen=True)
class L1Loss(Loss):
    """`l1` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.
    """

    name: ClassVar[str] = "l1_loss"
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]

    def __call__(self, *args: Value) -> Value:
        """``l1(predictions, targets)``."""
        self.check_count(len(args))
        return l1(args[0], args[1], self.reduction)
