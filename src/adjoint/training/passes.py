"""Module passes with the names of their Relax counterparts."""

from collections.abc import Sequence
from dataclasses import dataclass

from adjoint.ir import Function, IRModule
from adjoint.transforms.append_loss import append_loss
from adjoint.transforms.differentiate import gradient

__all__ = ["AppendLoss", "Gradient"]


@dataclass(frozen=True, slots=True)
class AppendLoss:
    """Add a function that computes a loss of another function's outputs: ``AppendLoss("backbone", loss)(module)``.

    Parameters
    ----------
    func_name : str
        The function whose outputs are passed to the loss; it stays in the module.
    loss_function : Function
        The loss, for example ``CrossEntropyLoss().function(...)``, with one result.
    num_backbone_results : int, default 1
        Number of its first parameters that are outputs of the backbone; the others become parameters of the result.
    new_func_name : str, optional
        Name of the new function; default: `func_name` followed by ``_loss``.
    """

    func_name: str
    loss_function: Function
    num_backbone_results: int = 1
    new_func_name: str | None = None

    def __call__(self, module: IRModule) -> IRModule:
        """The module with the new function, which returns the loss and the results that are not outputs."""
        name = self.new_func_name or f"{self.func_name}_loss"
        return module.with_function(
            append_loss(module[self.func_name], self.loss_function, self.num_backbone_results, name=name)
        )


@dataclass(frozen=True, slots=True)
class Gradient:
    """Add a function that also computes gradients: ``Gradient("backbone_loss", ["w0"])(module)``.

    Parameters
    ----------
    func_name : str
        The function to differentiate.
    require_grads : str or sequence of str, optional
        Names of the parameters to differentiate with respect to; default: all float parameters.
    target_index : int, default 0
        Index of the result to differentiate, a float scalar.
    """

    func_name: str
    require_grads: str | Sequence[str] | None = None
    target_index: int = 0

    def __call__(self, module: IRModule) -> IRModule:
        """The module with ``<func_name>_adjoint``, which returns the function's results, then the gradients."""
        return module.with_function(gradient(module[self.func_name], self.require_grads, self.target_index))
