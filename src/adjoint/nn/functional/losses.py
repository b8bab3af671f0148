"""Losses under PyTorch's names; `adjoint.losses` defines them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from adjoint import losses
from adjoint.errors import located, user_line
from adjoint.losses.ctc import lengths_as_tensors
from adjoint.nn.functional.recording import Array, recorded
from adjoint.nn.functional.shapes import pairwise_distance
from adjoint.tensor.autocasting import full_precision
from adjoint.tensor.trace import Recorded

__all__ = [
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding_loss",
    "cross_entropy",
    "ctc_loss",
    "dice_loss",
    "gaussian_nll_loss",
    "hinge_embedding_loss",
    "huber_loss",
    "kl_div",
    "l1_loss",
    "margin_ranking_loss",
    "mse_loss",
    "multi_margin_loss",
    "multilabel_margin_loss",
    "multilabel_soft_margin_loss",
    "nll_loss",
    "poisson_nll_loss",
    "sigmoid_focal_loss",
    "smooth_l1_loss",
    "soft_margin_loss",
    "triplet_margin_loss",
    "triplet_margin_with_distance_loss",
]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def _loss(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Record a loss, with the user's lines rather than those of `adjoint.losses` on its values."""

    @wraps(function)
    def built(*args: _P.args, **keywords: _P.kwargs) -> _R:
        with located(user_line() or ""):
            return function(*args, **keywords)

    return full_precision(recorded(built))


@_loss
def cross_entropy(
    input: Array,
    target: Array,
    weight: Any = None,
    ignore_index: int | None = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Array:
    """Negative log-likelihood of targets under ``softmax(input)``: `adjoint.losses.cross_entropy`.

    Parameters
    ----------
    input : Tensor
        Logits, ``[N, C]``, ``[C]`` or ``[N, C, d1, ...]``.
    target : Tensor
        Class indices, of the shape of `input` without its class axis, or probabilities of the same shape.
    weight : Tensor, optional
        One weight per class.
    ignore_index : int or None, default -100
        Class index that contributes nothing.
    reduction : {"mean", "sum", "none"}, default "mean"
        Whether losses are averaged, added or returned.
    label_smoothing : float, default 0.0
        The part of each target that is distributed evenly over the classes.
    """
    return losses.cross_entropy(input, target, weight, ignore_index, label_smoothing, reduction)


@_loss
def nll_loss(
    input: Array, target: Array, weight: Any = None, ignore_index: int | None = -100, reduction: str = "mean"
) -> Array:
    """``-input[target]``, for logarithms of probabilities: `adjoint.losses.nll`."""
    return losses.nll(input, target, weight, ignore_index, reduction)


_ctc = _loss(losses.ctc)


def ctc_loss(
    log_probs: Array,
    targets: Array,
    input_lengths: Any,
    target_lengths: Any,
    blank: int = 0,
    reduction: str = "mean",
    zero_infinity: bool = False,
) -> Array:
    """The negative log-likelihood of sequences of labels, whatever their alignment: `adjoint.losses.ctc`.

    Parameters
    ----------
    log_probs : Tensor
        Logarithms of probabilities, ``[T, N, C]`` or ``[T, C]``.
    targets : Tensor
        Class indices, ``[N, S]``, or all targets one after the other.
    input_lengths, target_lengths : Tensor or sequence of int
        The number of steps and of labels of each sequence. With targets one after the other and `target_lengths` as a
        tensor, the loss needs memory for targets of the length of all together.
    blank : int, default 0
        The class that stands for no label.
    reduction : {"mean", "sum", "none"}, default "mean"
        "mean" divides each loss by the length of its target before averaging.
    zero_infinity : bool, default False
        Whether the loss of a target without an alignment is 0.
    """
    longest = None
    if isinstance(log_probs, Recorded):
        log_probs, targets, input_lengths, target_lengths, longest = lengths_as_tensors(
            log_probs, targets, input_lengths, target_lengths
        )
    return _ctc(log_probs, targets, input_lengths, target_lengths, blank, reduction, zero_infinity, longest)


@_loss
def binary_cross_entropy(input: Array, target: Array, weight: Any = None, reduction: str = "mean") -> Array:
    """The cross-entropy of two classes, given probabilities: `adjoint.losses.binary_cross_entropy`."""
    return losses.binary_cross_entropy(input, target, weight, reduction)


@_loss
def binary_cross_entropy_with_logits(
    input: Array, target: Array, weight: Any = None, reduction: str = "mean", pos_weight: Any = None
) -> Array:
    """The cross-entropy of two classes, given logits: `adjoint.losses.binary_cross_entropy_with_logits`."""
    return losses.binary_cross_entropy_with_logits(input, target, weight, reduction, pos_weight)


@_loss
def mse_loss(input: Array, target: Array, reduction: str = "mean", weight: Any = None) -> Array:
    """``(input - target)**2``: `adjoint.losses.mse`."""
    return losses.mse(input, target, reduction, weight)


@_loss
def l1_loss(input: Array, target: Array, reduction: str = "mean", weight: Any = None) -> Array:
    """``abs(input - target)``: `adjoint.losses.l1`."""
    return losses.l1(input, target, reduction, weight)


@_loss
def smooth_l1_loss(input: Array, target: Array, reduction: str = "mean", beta: float = 1.0) -> Array:
    """The absolute error, squared below `beta`: `adjoint.losses.smooth_l1`."""
    return losses.smooth_l1(input, target, reduction, beta)


@_loss
def huber_loss(input: Array, target: Array, reduction: str = "mean", delta: float = 1.0, weight: Any = None) -> Array:
    """The absolute error times `delta`, squared below `delta`: `adjoint.losses.huber`."""
    return losses.huber(input, target, reduction, delta, weight)


@_loss
def kl_div(input: Array, target: Array, reduction: str = "mean", log_target: bool = False) -> Array:
    """``target * (log(target) - input)``: `adjoint.losses.kl_div`."""
    return losses.kl_div(input, target, reduction, log_target)


@_loss
def poisson_nll_loss(
    input: Array,
    target: Array,
    log_input: bool = True,
    full: bool = False,
    eps: float = 1e-8,
    reduction: str = "mean",
) -> Array:
    """The negative log-likelihood of Poisson distributed counts: `adjoint.losses.poisson_nll`."""
    return losses.poisson_nll(input, target, log_input, full, eps, reduction)


@_loss
def gaussian_nll_loss(
    input: Array, target: Array, var: Array, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Array:
    """The negative log-likelihood of normally distributed targets: `adjoint.losses.gaussian_nll`."""
    return losses.gaussian_nll(input, target, var, full, eps, reduction)


@_loss
def cosine_embedding_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    """One minus the cosine of the angle of similar vectors: `adjoint.losses.cosine_embedding`."""
    return losses.cosine_embedding(input1, input2, target, margin, reduction)


@_loss
def hinge_embedding_loss(input: Array, target: Array, margin: float = 1.0, reduction: str = "mean") -> Array:
    """The distances of similar pairs, and what others lack of a margin: `adjoint.losses.hinge_embedding`."""
    return losses.hinge_embedding(input, target, margin, reduction)


@_loss
def margin_ranking_loss(
    input1: Array, input2: Array, target: Array, margin: float = 0.0, reduction: str = "mean"
) -> Array:
    """``max(-target * (input1 - input2) + margin, 0)``: `adjoint.losses.margin_ranking`."""
    return losses.margin_ranking(input1, input2, target, margin, reduction)


@_loss
def soft_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """``log(1 + exp(-target * input))``: `adjoint.losses.soft_margin`."""
    return losses.soft_margin(input, target, reduction)


@_loss
def triplet_margin_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    """How much closer the negative is than the positive, plus a margin: `adjoint.losses.triplet_margin`."""
    return losses.triplet_margin(anchor, positive, negative, margin, p, eps, swap, reduction)


_triplet_of_distances = _loss(losses.triplet_of_distances)


def triplet_margin_with_distance_loss(
    anchor: Array,
    positive: Array,
    negative: Array,
    *,
    distance_function: Callable[[Any, Any], Any] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Array:
    """`triplet_margin_loss` with a distance of one's own.

    Parameters
    ----------
    anchor, positive, negative : Tensor
        What the function takes.
    distance_function : callable, optional
        Maps two of them to distances; default: `pairwise_distance`.
    margin : float, default 1.0
        The difference beyond which there is no loss.
    swap : bool, default False
        Whether the negative is compared with the positive, where they are closer than the anchor and the negative.
    reduction : {"mean", "sum", "none"}, default "mean"
        Whether losses are averaged, added or returned.
    """
    distance = pairwise_distance if distance_function is None else distance_function
    near, far = distance(anchor, positive), distance(anchor, negative)
    between = distance(positive, negative) if swap else None
    return _triplet_of_distances(near, far, between, margin, reduction)


@_loss
def multi_margin_loss(
    input: Array, target: Array, p: int = 1, margin: float = 1.0, weight: Any = None, reduction: str = "mean"
) -> Array:
    """How much less than a margin the right class is above the others: `adjoint.losses.multi_margin`."""
    return losses.multi_margin(input, target, p, margin, weight, reduction)


@_loss
def multilabel_margin_loss(input: Array, target: Array, reduction: str = "mean") -> Array:
    """How much less than a margin the right classes are above the others: `adjoint.losses.multilabel_margin`."""
    return losses.multilabel_margin(input, target, reduction)


@_loss
def multilabel_soft_margin_loss(input: Array, target: Array, weight: Any = None, reduction: str = "mean") -> Array:
    """The mean binary cross-entropy of several classes: `adjoint.losses.multilabel_soft_margin`."""
    return losses.multilabel_soft_margin(input, target, weight, reduction)


@_loss
def sigmoid_focal_loss(
    input: Array, target: Array, alpha: float = 0.25, gamma: float = 2.0, reduction: str = "none"
) -> Array:
    """The binary cross-entropy of logits, less where they are right: `adjoint.losses.focal`, as in torchvision."""
    return losses.focal(input, target, alpha, gamma, reduction)


@_loss
def dice_loss(input: Array, target: Array, smooth: float = 1.0, reduction: str = "mean") -> Array:
    """One minus the overlap of probabilities and targets: `adjoint.losses.dice`."""
    return losses.dice(input, target, smooth, reduction)
