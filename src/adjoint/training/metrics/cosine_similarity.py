"""The angle between vectors."""

from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.regression import Regression

__all__ = ["CosineSimilarity"]

#: The least product of norms, as in PyTorch's ``cosine_similarity``.
_LEAST = 1e-8


class CosineSimilarity(Regression):
    """The mean cosine of the angles between outputs and targets, vectors along an axis of ``[N, ...]``.

    Parameters
    ----------
    axis : int, default -1
        The axis of the vectors; the others count them.
    name : str, default "cosine_similarity"
        The key in results.
    """

    name = "cosine_similarity"
    higher_is_better = True
    sum: Tensor
    count: Tensor

    def __init__(self, axis: int = -1, *, name: str | None = None) -> None:
        super().__init__(name=name)
        self.axis = axis
        self.add_sum("sum")
        self.add_count("count")

    def update(self, outputs: Any, targets: Any) -> None:
        """Add the cosines of a batch."""
        rank = len(outputs.shape)
        if rank < 2 or not -rank <= self.axis < rank or self.axis % rank == 0:
            raise InvalidValueError(
                f"CosineSimilarity: outputs must have rows and an axis {self.axis} of vectors, got "
                f"{outputs._spec.type}; pass [N, C]"
            )
        x, y, _ = self.read(outputs, targets, None)
        norms = (x.square().sum(self.axis) * y.square().sum(self.axis)).sqrt().clamp(min=_LEAST)
        cosines = (x * y).sum(self.axis) / norms
        self.sum.add_(cosines.sum())
        self.count.add_((cosines == cosines).sum())

    def result(self) -> float:
        """The mean cosine."""
        return self.ratio("sum", "count")
