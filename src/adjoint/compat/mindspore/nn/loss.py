"""`mindspore.nn.loss`: losses with MindSpore's arguments and defaults."""

from typing import Any

from adjoint.compat.mindspore.nn.cell import Cell
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.nn import functional

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "LossBase",
    "MAELoss",
    "MSELoss",
    "NLLLoss",
    "RMSELoss",
    "SmoothL1Loss",
    "SoftmaxCrossEntropyWithLogits",
]


class LossBase(Cell):
    """Base class of losses: a subclass returns ``self.get_loss(x)``, the mean, the sum or all elements."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__()
        reduction = "none" if reduction is None else reduction
        if reduction not in ("mean", "sum", "none"):
            raise InvalidValueError(
                f"{type(self).__name__}: reduction must be 'mean', 'sum' or 'none', got {reduction!r}"
            )
        self.reduction = reduction

    def get_loss(self, x: Any, weights: float = 1.0) -> Any:
        """Reduce elements, times weights."""
        x = x * weights
        return x.mean() if self.reduction == "mean" else x.sum() if self.reduction == "sum" else x


class MSELoss(LossBase):
    """``MSELoss(reduction="mean")``."""

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.mse_loss(logits, labels, reduction=self.reduction)


class RMSELoss(LossBase):
    """``RMSELoss()``: the root of the mean."""

    def __init__(self) -> None:
        super().__init__("mean")

    def construct(self, logits: Any, label: Any) -> Any:
        """The loss."""
        return functional.mse_loss(logits, label).sqrt()


class L1Loss(LossBase):
    """``L1Loss(reduction="mean")``."""

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.l1_loss(logits, labels, reduction=self.reduction)


class MAELoss(L1Loss):
    """``MAELoss(reduction="mean")``."""


class SmoothL1Loss(LossBase):
    """``SmoothL1Loss(beta=1.0, reduction="none")``."""

    def __init__(self, beta: float = 1.0, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.beta = beta

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.smooth_l1_loss(logits, labels, reduction=self.reduction, beta=self.beta)


class HuberLoss(LossBase):
    """``HuberLoss(reduction="mean", delta=1.0)``."""

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction)
        self.delta = delta

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.huber_loss(logits, labels, reduction=self.reduction, delta=self.delta)


class SoftmaxCrossEntropyWithLogits(LossBase):
    """``SoftmaxCrossEntropyWithLogits(sparse=False, reduction="none")``: labels are classes if `sparse`."""

    def __init__(self, sparse: bool = False, reduction: str = "none") -> None:
        super().__init__(reduction)
        self.sparse = sparse

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        if self.sparse:
            return functional.cross_entropy(logits, labels, reduction=self.reduction, ignore_index=None)
        return self.get_loss(-(functional.log_softmax(logits, -1) * labels).sum(-1))


class CrossEntropyLoss(LossBase):
    """``CrossEntropyLoss(weight=None, ignore_index=-100, reduction="mean", label_smoothing=0.0)``."""

    def __init__(
        self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean", label_smoothing: float = 0.0
    ) -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index, self.label_smoothing = weight, ignore_index, label_smoothing

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.cross_entropy(
            logits,
            labels,
            self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(LossBase):
    """``NLLLoss(weight=None, ignore_index=-100, reduction="mean")``."""

    def __init__(self, weight: Any = None, ignore_index: int = -100, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight, self.ignore_index = weight, ignore_index

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.nll_loss(
            logits, labels, self.weight, ignore_index=self.ignore_index, reduction=self.reduction
        )


class BCELoss(LossBase):
    """``BCELoss(weight=None, reduction="mean")``."""

    def __init__(self, weight: Any = None, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.weight = weight

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.binary_cross_entropy(logits, labels, self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(LossBase):
    """``BCEWithLogitsLoss(reduction="mean", weight=None, pos_weight=None)``."""

    def __init__(self, reduction: str = "mean", weight: Any = None, pos_weight: Any = None) -> None:
        super().__init__(reduction)
        self.weight, self.pos_weight = weight, pos_weight

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.binary_cross_entropy_with_logits(
            logits, labels, self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(LossBase):
    """``KLDivLoss(reduction="mean")``."""

    def construct(self, logits: Any, labels: Any) -> Any:
        """The loss."""
        return functional.kl_div(logits, labels, reduction=self.reduction)


class CosineEmbeddingLoss(LossBase):
    """``CosineEmbeddingLoss(margin=0.0, reduction="mean")``."""

    def __init__(self, margin: float = 0.0, reduction: str = "mean") -> None:
        super().__init__(reduction)
        self.margin = margin

    def construct(self, logits_x1: Any, logits_x2: Any, labels: Any) -> Any:
        """The loss."""
        return functional.cosine_embedding_loss(
            logits_x1, logits_x2, labels, margin=self.margin, reduction=self.reduction
        )


__getattr__ = uncovered(__name__, {}, "adjoint.losses")
