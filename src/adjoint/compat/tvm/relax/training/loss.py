"""Losses: called with struct infos, they make functions."""

from typing import Any

from adjoint import losses
from adjoint.compat.tvm.relax.expr import Expr, TensorStructInfo, Var
from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import Value, is_integer
from adjoint.ops import cast

__all__ = ["CategoricalCrossEntropyLoss", "CrossEntropyLoss", "L1Loss", "Loss", "MSELoss"]
__getattr__ = uncovered(__name__, {}, "adjoint.losses")


def infos(given: Any) -> list[TensorStructInfo]:
    """The struct infos of the arguments of a loss."""
    found = [one.struct_info if isinstance(one, Expr) else one for one in given if one is not None]
    for one in found:
        if not isinstance(one, TensorStructInfo):
            raise TypeRuleError(
                f"a loss is called with struct infos, got {kind_of(one)}; write relax.TensorStructInfo(shape, dtype)"
            )
    return found


class Loss:
    """Base class of losses: a subclass has the loss of adjoint, and makes its function.

    Attributes
    ----------
    num_backbone_outputs : int
        How many outputs of the model it takes.
    native : adjoint.losses.Loss
        The loss in adjoint.
    """

    num_backbone_outputs = 1

    def __init__(self, native: losses.Loss) -> None:
        self.native = native

    def __call__(self, *arguments: Any) -> Function:
        """The function of the loss, for arguments with these struct infos."""
        found = infos(arguments)
        names = self.native.arg_names[: len(found)]
        return self._function([Var(name, info) for name, info in zip(names, found, strict=True)])

    def _function(self, params: list[Var]) -> Function:
        return Function(params, Expr(self.native(*(one.value for one in params))), self.native.name)


class L1Loss(Loss):
    """The mean, or sum, of absolute differences."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(losses.L1Loss(reduction=reduction))


class MSELoss(Loss):
    """The mean, or sum, of squared differences."""

    def __init__(self, reduction: str = "mean") -> None:
        super().__init__(losses.MSELoss(reduction=reduction))


class CrossEntropyLoss(Loss):
    """The cross entropy of scores and class indices, or of scores and rows of probabilities, such as one-hot ones.

    Rows of probabilities may be of an integer dtype, which TVM refuses.
    """

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__(_OneHot(reduction=reduction, ignore_index=ignore_index))


class CategoricalCrossEntropyLoss(Loss):
    """The cross entropy of scores and rows of probabilities."""

    def __init__(self, reduction: str = "mean", ignore_index: int = -100) -> None:
        super().__init__(_OneHot(reduction=reduction, ignore_index=ignore_index))


class _OneHot(losses.CrossEntropyLoss):
    """Cross entropy that takes rows of integers for rows of probabilities."""

    def __call__(self, predictions: Value, targets: Value, *weights: Value) -> Value:
        """The loss as a graph value."""
        if targets.shape == predictions.shape and is_integer(targets.dtype):
            targets = cast(targets, predictions.dtype)
        found: Value = super().__call__(predictions, targets, *weights)
        return found
