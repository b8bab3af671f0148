"""Passes over modules under the names that Relax users know."""

from collections.abc import Sequence
from dataclasses import dataclass

from adjoint.ir import Function, IRModule
from adjoint.transforms.append_loss import append_loss
from adjoint.transforms.differentiate import gradient

__all__ = ["AppendLoss", "Gradient"]


@dataclass(frozen=True, slots=True)
class AppendLoss:
    """Add a function that computes a loss of another one's outputs: ``AppendLoss("backbone", loss)(module)``.

    Parameters
    ----------
    func_name : str
        The function whose outputs the loss takes; it stays in the module.
    loss_function : Function
        The loss, such as ``CrossEntropyLoss().function(...)``, with one result.
    num_backbone_results : int, default 1
        How many of its first parameters are outputs of the backbone; the others become parameters of the result.
    new_func_name : str, optional
        Name of the new function; default: `func_name` with ``_loss``.
    """

    func_name: str
    loss_function: Function
    num_backbone_results: int = 1
    new_func_name: str | None = None

    def __call__(self, module: IRModule) -> IRModule:
        """The module with the new function: ``(loss, results that are no outputs...)``."""
        name = self.new_func_name or f"{self.func_name}_loss"
        return module.with_function(
            append_loss(module[self.func_name], self.loss_function, self.num_backbone_results, name=name)
        )


@dataclass(frozen=True, slots=True)
class Gradient:
    """Add a function that computes gradients as well: ``Gradient("backbone_loss", ["w0"])(module)``.

    Parameters
    ----------
    func_name : str
        The function to differentiate.
    require_grads : str or sequence of str, optional
        Names of the parameters that gradients are wanted of; default: all of a float dtype.
    target_index : int, default 0
        Which of its results is differentiated: a float scalar.
    """

    func_name: str
    require_grads: str | Sequence[str] | None = None
    target_index: int = 0

    def __call__(self, module: IRModule) -> IRModule:
        """The module with ``<func_name>_adjoint``: the results of the function, then the gradients."""
        return module.with_function(gradient(module[self.func_name], self.require_grads, self.target_index))
