"""Similarities and distances of vectors as modules; each calls the function of its name in `adjoint.nn.functional`."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812

__all__ = ["CosineSimilarity", "PairwiseDistance"]


class CosineSimilarity(Module):
    """The cosine of the angle between vectors along an axis.

    Parameters
    ----------
    dim : int, default 1
        The axis.
    eps : float, default 1e-8
        The least norm that is divided by.
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Any, x2: Any) -> Any:
        """The similarity of two tensors, which broadcast."""
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of the differences of vectors along the last axis.

    Parameters
    ----------
    p : float, default 2.0
        The order of the norm.
    eps : float, default 1e-6
        Added to the differences.
    keepdim : bool, default False
        Keep the axis, with size 1.
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Any, x2: Any) -> Any:
        """The distances of two tensors."""
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
