"""A loss whose examples have weights."""

from typing import Any, ClassVar

from adjoint import ops
from adjoint.errors import TypeRuleError, described
from adjoint.ir import TensorType
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import Loss, check_reduction, matched

__all__ = ["SampleWeighted"]


@dataclass(frozen=True)
class SampleWeighted(Loss):
    """A loss with one weight per example, or per element of the result of that loss without a reduction.

    Its last argument are the weights. "mean" divides the weighted sum by the sum of the weights, so that weights which
    are all equal give the mean of the loss, and examples of weight 0 are as if they were not there. (For
    `CrossEntropyLoss` with class weights or ignored labels, whose own mean divides by those, use the sum of the weights
    that count.)

    Parameters
    ----------
    loss : Loss
        The loss, with ``reduction="none"``, such as ``CrossEntropyLoss(reduction="none")``.
    reduction : {"mean", "sum", "none"}, default "mean"
        How the weighted losses are combined.

    Raises
    ------
    TypeRuleError
        If it is not a loss without a reduction, or in a call, if shapes or dtypes do not match.
    """

    name: ClassVar[str] = "sample_weighted"
    loss: Loss
    reduction: str = "mean"

    def __post_init__(self) -> None:
        check_reduction(self.name, self.reduction)
        if not isinstance(self.loss, Loss) or getattr(self.loss, "reduction", None) != "none":
            raise TypeRuleError(
                f"{self.name}: the loss must be one with reduction='none', got {described(self.loss)}; make it so, as "
                "MSELoss(reduction='none')"
            )
        required = self.loss.arg_names[: len(self.loss.arg_names) - self.loss.num_optional]
        object.__setattr__(self, "arg_names", (*required, "sample_weights"))
        object.__setattr__(self, "num_backbone_results", self.loss.num_backbone_results)

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """Those of the loss, and the type of its result."""
        targets = self.loss.target_types(*outputs)
        return *targets, self.loss.function(*outputs, *targets).results[0].type

    def __call__(self, *args: Any) -> Any:
        """The weighted loss of the arguments of the loss and the weights."""
        self.check_count(len(args))
        losses = self.loss(*args[:-1])
        weights = matched(self.name, losses, args[-1])
        if self.reduction == "none":
            return losses * weights
        total = ops.sum(losses * weights)
        return total if self.reduction == "sum" else ops.divide(total, ops.sum(weights))
