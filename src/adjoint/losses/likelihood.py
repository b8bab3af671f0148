"""Negative log-likelihoods of distributions that a model describes, and the divergence of two."""

from collections.abc import Sequence
from math import log, pi
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import Loss, PairLoss, check_reduction, matched, reduced
from adjoint.losses.cross_entropy import (
    check_indices,
    class_weights,
    classes_last,
    counted_ids,
    mean_divisor,
    without_classes,
)

__all__ = [
    "GaussianNLLLoss",
    "KLDivLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "gaussian_nll",
    "kl_div",
    "nll",
    "poisson_nll",
]


def nll(
    predictions: Value,
    targets: Value,
    weight: Value | np.ndarray | Sequence[float] | None = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
) -> Value:
    """``-weight[y] * predictions[y]`` for class indices y: the negative log-likelihood, given logarithms.

    Parameters
    ----------
    predictions : Value
        Logarithms of probabilities, as `ops.log_softmax` computes them: float, ``[N, C]``, ``[C]`` or ``[N, C, d1,
        ...]``.
    targets : Value
        Class indices, of any integer dtype and of the shape of `predictions` without its class axis.
    weight : Value, numpy.ndarray or sequence of float, optional
        One weight per class; "mean" divides by the sum of those of the targets.
    ignore_index : int or None, default -100
        Class index that contributes nothing.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `cross_entropy`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "nll_loss"
    check_reduction(name, reduction)
    rows = classes_last(predictions, name)
    check_indices(predictions, targets, name)
    weights = None if weight is None else class_weights(weight, rows, name)
    ids, valid = counted_ids(targets, rows.shape[-1], ignore_index)
    weight_of = None if weights is None else ops.take(weights, ids)
    losses = -ops.take_along_last(rows, ids)
    if weight_of is not None:
        losses = losses * weight_of
    if valid is not None:
        losses = ops.where(valid, losses, 0.0)
    divisor = mean_divisor(valid, weight_of, rows.dtype)
    if reduction == "mean" and divisor is not None:
        return ops.divide(ops.sum(losses), divisor)
    return reduced(losses, reduction)


def kl_div(predictions: Value, targets: Value, reduction: str = "mean", log_target: bool = False) -> Value:
    """``targets * (log(targets) - predictions)``, reduced: the divergence of Kullback and Leibler (1951).

    Parameters
    ----------
    predictions : Value
        Logarithms of probabilities.
    targets : Value
        Probabilities, of the same type; or their logarithms, if `log_target`.
    reduction : {"mean", "batchmean", "sum", "none"}, default "mean"
        "batchmean" divides the sum by the size of the first axis, which is the mathematical definition.
    log_target : bool, default False
        Whether targets are logarithms.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "kl_div"
    _check_kl(reduction)
    targets = matched(name, predictions, targets)
    if log_target:
        losses = ops.exp(targets) * (targets - predictions)
    else:
        positive = targets > 0.0
        logs = ops.log(ops.where(positive, targets, 1.0))
        losses = targets * (logs - predictions)
    if reduction == "batchmean":
        return ops.divide(ops.sum(losses), ops.count(losses, 0, losses.dtype) if losses.shape else 1.0)
    return reduced(losses, reduction)


def _check_kl(reduction: str) -> None:
    if reduction != "batchmean":
        check_reduction("kl_div", reduction)


def poisson_nll(
    predictions: Value,
    targets: Value,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Value:
    """The negative log-likelihood of counts that are Poisson distributed, reduced.

    ``exp(x) - y * x`` for predicted logarithms x of the rate and targets y, or ``x - y * log(x + eps)`` for rates x.

    Parameters
    ----------
    predictions : Value
        Logarithms of rates, or rates.
    targets : Value
        Counts, of the same shape.
    log_input : bool, default True
        Whether predictions are logarithms.
    full : bool, default False
        Whether Stirling's approximation of ``log(y!)`` is added for targets above 1.
    eps : float, default 1e-8
        Avoids the logarithm of 0.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "poisson_nll_loss"
    check_reduction(name, reduction)
    targets = matched(name, predictions, targets)
    if log_input:
        losses = ops.exp(predictions) - targets * predictions
    else:
        losses = predictions - targets * ops.log(predictions + eps)
    if full:
        many = ops.where(targets > 1.0, targets, 2.0)
        stirling = many * ops.log(many) - many + ops.log(many * (2 * pi)) * 0.5
        losses = losses + ops.where(targets > 1.0, stirling, 0.0)
    return reduced(losses, reduction)


def gaussian_nll(
    predictions: Value, targets: Value, var: Value, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Value:
    """``(log(var) + (predictions - targets)**2 / var) / 2``, reduced: for targets that are normally distributed.

    Parameters
    ----------
    predictions : Value
        Means, float.
    targets : Value
        Of a shape that broadcasts with that of the means.
    var : Value
        Variances, which broadcast to that shape too; less than `eps` counts as `eps`, with the gradient of the formula.
    full : bool, default False
        Whether the constant ``log(2 * pi) / 2`` is added.
    eps : float, default 1e-6
        The least variance.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "gaussian_nll_loss"
    check_reduction(name, reduction)
    targets = matched(name, *ops.broadcast(predictions, targets))
    least = ops.stop_gradient(ops.maximum(var, eps) - var)
    bounded = var + least
    losses = (ops.log(bounded) + (predictions - targets).square() / bounded) * 0.5
    return reduced(losses + 0.5 * log(2 * pi) if full else losses, reduction)


@dataclass(frozen=True)
class NLLLoss(Loss):
    """`nll` with its settings.

    Parameters
    ----------
    weight : sequence of float or numpy.ndarray, optional
        One weight per class, stored as a tuple.
    ignore_index : int or None, default -100
        Class index that contributes nothing.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `nll`.
    """

    name: ClassVar[str] = "nll_loss"
    weight: tuple[float, ...] | None = None
    ignore_index: int | None = -100
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)
        if self.weight is not None:
            object.__setattr__(self, "weight", tuple(np.asarray(self.weight, np.float64).tolist()))

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """Class indices, i64 of the shape of the predictions without their class axis."""
        return (outputs[0].with_shape(without_classes(outputs[0].shape)).with_dtype("i64"),)

    def __call__(self, *args: Any) -> Any:
        """``nll(predictions, targets)``."""
        self.check_count(len(args))
        return nll(args[0], args[1], self.weight, self.ignore_index, self.reduction)


@dataclass(frozen=True)
class KLDivLoss(PairLoss):
    """`kl_div` with its settings.

    Parameters
    ----------
    reduction : {"mean", "batchmean", "sum", "none"}, default "mean"
        As in `kl_div`.
    log_target : bool, default False
        Whether targets are logarithms.
    """

    name: ClassVar[str] = "kl_div"
    log_target: bool = False

    def __post_init__(self) -> None:
        _check_kl(self.reduction)

    def __call__(self, *args: Any) -> Any:
        """``kl_div(predictions, targets)``."""
        self.check_count(len(args))
        return kl_div(args[0], args[1], self.reduction, self.log_target)


@dataclass(frozen=True)
class PoissonNLLLoss(Loss):
    """`poisson_nll` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "poisson_nll_loss"
    log_input: bool = True
    full: bool = False
    eps: float = 1e-8
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """The type of the predictions."""
        return outputs[:1]

    def __call__(self, *args: Any) -> Any:
        """``poisson_nll(predictions, targets)``."""
        self.check_count(len(args))
        return poisson_nll(args[0], args[1], self.log_input, self.full, self.eps, self.reduction)


@dataclass(frozen=True)
class GaussianNLLLoss(Loss):
    """`gaussian_nll` with its settings, which are the parameters of the function.

    The variances are the third argument of the loss.
    """

    name: ClassVar[str] = "gaussian_nll_loss"
    arg_names: ClassVar[tuple[str, ...]] = ("predictions", "targets", "var")
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)
        if self.eps <= 0:
            raise InvalidValueError(f"{self.name}: eps must be positive, got {self.eps}; use 1e-6")

    def __call__(self, *args: Any) -> Any:
        """``gaussian_nll(predictions, targets, var)``."""
        self.check_count(len(args))
        return gaussian_nll(args[0], args[1], args[2], self.full, self.eps, self.reduction)
