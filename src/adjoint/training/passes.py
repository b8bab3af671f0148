"""Module passes with the names of their Relax counterparts."""

from collections.abc import Callable, Sequence

from adjoint.ir import Function, IRModule, TensorType, Value, numbered
from adjoint.lazy_dataclass import dataclass
from adjoint.losses import Loss, as_loss
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
    loss_function : Function, Loss or callable
        The loss: a Function with one result, or, as in `SetupTrainer`, a Loss or a function of graph values.
    num_backbone_results : int, optional
        Number of its first parameters that are outputs of the backbone; the others become parameters of the result.
        Default: 1 for a Function, what the Loss takes, and for a function of graph values all results that are not
        states.
    new_func_name : str, optional
        Name of the new function; default: `func_name` followed by ``_loss``.
    loss_args : sequence of TensorType, optional
        Types of the arguments of a Loss or a function of graph values, as in `SetupTrainer`.
    """

    func_name: str
    loss_function: Function | Loss | Callable[..., Value]
    num_backbone_results: int | None = None
    new_func_name: str | None = None
    loss_args: Sequence[TensorType] | None = None

    def __call__(self, module: IRModule) -> IRModule:
        """The module with the new function, which returns the loss and the results that are not outputs.

        Values of the model have the same names in it.
        """
        name = self.new_func_name or f"{self.func_name}_loss"
        backbone, given, count = numbered(module[self.func_name]), self.loss_function, self.num_backbone_results
        if not isinstance(given, Function):
            states = module.attrs.get("state_num", 0)
            every = len(backbone.results) - (states if isinstance(states, int) else 0)
            loss = as_loss(given, every if count is None else count)
            count = loss.num_backbone_results if count is None else count
            outputs = [r.type for r in backbone.results[:count]]
            args = (*outputs, *loss.target_types(*outputs)) if self.loss_args is None else self.loss_args
            given = loss.function(*args)
        made = append_loss(backbone, given, 1 if count is None else count, name=name)
        return module.with_function(numbered(made))


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
        """The module with ``<func_name>_adjoint``, which returns the function's results, then the gradients.

        Values of the function have the same names in it.
        """
        made = gradient(numbered(module[self.func_name]), self.require_grads, self.target_index)
        return module.with_function(numbered(made))
