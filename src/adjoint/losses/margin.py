"""Losses of similarities and distances, which are zero beyond a margin."""

from typing import ClassVar

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import ConfiguredLoss, check_predictions, check_reduction, matched, reduced

__all__ = [
    "CosineEmbeddingLoss",
    "HingeEmbeddingLoss",
    "MarginRankingLoss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "cosine_embedding",
    "hinge_embedding",
    "margin_ranking",
    "soft_margin",
    "triplet_margin",
    "triplet_of_distances",
]

#: PyTorch's summand that keeps the derivative of a norm finite at 0.
_SMALL = 1e-12


def cosine_embedding(x1: Value, x2: Value, targets: Value, margin: float = 0.0, reduction: str = "mean") -> Value:
    """``1 - cos(x1, x2)`` where targets are 1, and ``max(cos(x1, x2) - margin, 0)`` where they are -1, reduced.

    Parameters
    ----------
    x1, x2 : Value
        Vectors, float, shape ``[N, D]`` or ``[D]``.
    targets : Value
        1 or -1, shape ``[N]`` or ``[]``.
    margin : float, default 0.0
        From -1 to 1.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "cosine_embedding_loss"
    check_reduction(name, reduction)
    x2 = matched(name, x1, x2)
    if targets.shape != x1.shape[:-1]:
        raise TypeRuleError(f"{name}: there must be one target per vector of {x1.type}, got {targets.type}; reshape it")
    norms = ops.sqrt(((x1.square()).sum(-1) + _SMALL) * (x2.square().sum(-1) + _SMALL))
    cosine = (x1 * x2).sum(-1) / norms
    same = ops.greater(targets, 0)
    return reduced(ops.where(same, 1.0 - cosine, ops.relu(cosine - margin)), reduction)


def hinge_embedding(x: Value, targets: Value, margin: float = 1.0, reduction: str = "mean") -> Value:
    """`x` where targets are 1, and ``max(margin - x, 0)`` where they are -1, reduced.

    Parameters
    ----------
    x : Value
        Distances, float.
    targets : Value
        1 or -1, of the same shape.
    margin : float, default 1.0
        The distance beyond which there is no loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "hinge_embedding_loss"
    check_reduction(name, reduction)
    targets = matched(name, x, targets)
    similar, different = (ops.equal(targets, sign) for sign in (1.0, -1.0))
    # PyTorch's result for targets that are neither is the sum of both.
    return reduced(ops.where(similar, 0.0, ops.relu(margin - x)) + ops.where(different, 0.0, x), reduction)


def margin_ranking(x1: Value, x2: Value, targets: Value, margin: float = 0.0, reduction: str = "mean") -> Value:
    """``max(-targets * (x1 - x2) + margin, 0)``, reduced.

    Parameters
    ----------
    x1, x2 : Value
        Scores, float, of the same shape.
    targets : Value
        1 where the first should be ranked higher and -1 otherwise, of the same shape.
    margin : float, default 0.0
        The difference beyond which there is no loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "margin_ranking_loss"
    check_reduction(name, reduction)
    x2, targets = matched(name, x1, x2), matched(name, x1, targets)
    return reduced(ops.relu(-targets * (x1 - x2) + margin), reduction)


def soft_margin(x: Value, targets: Value, reduction: str = "mean") -> Value:
    """``log(1 + exp(-targets * x))``, reduced.

    Parameters
    ----------
    x : Value
        Scores, float.
    targets : Value
        1 or -1, of the same shape.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "soft_margin_loss"
    check_reduction(name, reduction)
    return reduced(ops.softplus(-matched(name, x, targets) * x), reduction)


def triplet_margin(
    anchor: Value,
    positive: Value,
    negative: Value,
    margin: float = 1.0,
    p: float = 2.0,
    eps: float = 1e-6,
    swap: bool = False,
    reduction: str = "mean",
) -> Value:
    """``max(d(anchor, positive) - d(anchor, negative) + margin, 0)``, reduced.

    The distance d is ``sum(abs(x - y + eps)**p)**(1/p)`` over the last axis.

    Parameters
    ----------
    anchor, positive, negative : Value
        Vectors, float, of the same shape.
    margin : float, default 1.0
        The difference beyond which there is no loss.
    p : float, default 2.0
        The exponent.
    eps : float, default 1e-6
        Keeps the derivative of the distance finite.
    swap : bool, default False
        Whether the negative is compared with the positive, where they are closer than the anchor and the negative.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "triplet_margin_loss"
    check_reduction(name, reduction)
    check_predictions(name, anchor)
    positive, negative = (matched(name, anchor, x) for x in (positive, negative))
    near, far = _distance(anchor, positive, p, eps), _distance(anchor, negative, p, eps)
    between = _distance(positive, negative, p, eps) if swap else None
    return triplet_of_distances(near, far, between, margin, reduction)


def triplet_of_distances(
    near: Value, far: Value, between: Value | None = None, margin: float = 1.0, reduction: str = "mean"
) -> Value:
    """``max(near - far + margin, 0)``, reduced: `triplet_margin` for distances of any kind.

    Parameters
    ----------
    near, far : Value
        The distances of the anchor from the positive and from the negative, float.
    between : Value, optional
        The distances of the positive from the negative, which take the place of `far` where they are less.
    margin : float, default 1.0
        The difference beyond which there is no loss.
    reduction : {"mean", "sum", "none"}, default "mean"
        As in `mse`.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    """
    name = "triplet_margin_loss"
    check_reduction(name, reduction)
    far = matched(name, near, far)
    if between is not None:
        far = ops.minimum(far, matched(name, near, between))
    return reduced(ops.relu(near - far + margin), reduction)


def _distance(x: Value, y: Value, p: float, eps: float) -> Value:
    gap = ops.abs(x - y + eps)
    return ops.sqrt(gap.square().sum(-1)) if p == 2 else ops.power(ops.power(gap, float(p)).sum(-1), 1.0 / p)


@dataclass(frozen=True)
class CosineEmbeddingLoss(ConfiguredLoss):
    """`cosine_embedding` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "cosine_embedding_loss"
    arg_names: ClassVar[tuple[str, ...]] = ("x1", "x2", "targets")
    num_backbone_results: ClassVar[int] = 2
    build = staticmethod(cosine_embedding)
    margin: float = 0.0
    reduction: str = "mean"


@dataclass(frozen=True)
class HingeEmbeddingLoss(ConfiguredLoss):
    """`hinge_embedding` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "hinge_embedding_loss"
    build = staticmethod(hinge_embedding)
    margin: float = 1.0
    reduction: str = "mean"


@dataclass(frozen=True)
class MarginRankingLoss(ConfiguredLoss):
    """`margin_ranking` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "margin_ranking_loss"
    arg_names: ClassVar[tuple[str, ...]] = ("x1", "x2", "targets")
    num_backbone_results: ClassVar[int] = 2
    build = staticmethod(margin_ranking)
    margin: float = 0.0
    reduction: str = "mean"


@dataclass(frozen=True)
class SoftMarginLoss(ConfiguredLoss):
    """`soft_margin` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "soft_margin_loss"
    build = staticmethod(soft_margin)
    reduction: str = "mean"


@dataclass(frozen=True)
class TripletMarginLoss(ConfiguredLoss):
    """`triplet_margin` with its settings, which are the parameters of the function."""

    name: ClassVar[str] = "triplet_margin_loss"
    arg_names: ClassVar[tuple[str, ...]] = ("anchor", "positive", "negative")
    num_backbone_results: ClassVar[int] = 3
    build = staticmethod(triplet_margin)
    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    reduction: str = "mean"
