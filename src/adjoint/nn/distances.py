"""Distances of vectors as layers, and a loss of any distance."""

from collections.abc import Callable
from typing import Any

from adjoint.losses.base import check_reduction
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812

__all__ = ["CosineSimilarity", "PairwiseDistance", "TripletMarginWithDistanceLoss"]


class CosineSimilarity(Module):
    """The cosine of the angle between vectors: `nn.functional.cosine_similarity`.

    Parameters
    ----------
    dim : int, default 1
        The axis of the vectors.
    eps : float, default 1e-8
        The least norm, which avoids a division by 0.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """The cosines, without the axis of the vectors."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The norm of the difference of vectors: `nn.functional.pairwise_distance`.

    Parameters
    ----------
    p : float, default 2.0
        The exponent of the norm.
    eps : float, default 1e-6
        Added to the difference.
    keepdim : bool, default False
        Whether the axis of the vectors is kept, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """The distances, without the last axis."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)


class TripletMarginWithDistanceLoss(Module):
    """`nn.functional.triplet_margin_with_distance_loss` with its settings, which are the parameters of the function.

    Parameters
    ----------
    distance_function : callable, optional
        Maps two tensors to distances; default: `PairwiseDistance`. A module's parameters are those of the loss.
    margin : float, default 1.0
        The difference beyond which there is no loss.
    swap : bool, default False
        Whether the negative is compared with the positive, where they are closer than the anchor and the negative.
    reduction : {"mean", "sum", "none"}, default "mean"
        Whether losses are averaged, added or returned.

    Raises
    ------
    InvalidValueError
        If the reduction is unknown.
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Any, Any], Any] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__()
        check_reduction("triplet_margin_with_distance_loss", reduction)
        self.distance_function = PairwiseDistance() if distance_function is None else distance_function
        self.margin, self.swap, self.reduction = margin, swap, reduction

    def forward(self, anchor: Any, positive: Any, negative: Any) -> Any:
        """The loss."""
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )
