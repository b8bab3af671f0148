"""Passes: callables from module to module."""

from collections.abc import Sequence
from typing import Any

from adjoint.compat.tvm.relax.expr import Var
from adjoint.compat.tvm.relax.function import Function, Outputs
from adjoint.compat.tvm.relax.module import GlobalVar, IRModule, name_of
from adjoint.compat.uncovered import uncovered
from adjoint.ir import numbered
from adjoint.transforms.append_loss import append_loss
from adjoint.transforms.differentiate import gradient

__all__ = [
    "AppendLoss", "DecomposeOpsForInference", "DecomposeOpsForTraining", "Gradient", "LegalizeOps", "Pass",
    "Sequential",
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {"FoldConstant": "leave it out, because compilation does it", "FuseOps": "leave it out, because compilation fuses"},
    "adjoint.transforms",
)


class Pass:
    """A pass: it is called with a module and returns another."""

    def __call__(self, mod: IRModule) -> IRModule:
        """The module after the pass."""
        raise NotImplementedError


class Sequential(Pass):
    """Passes one after the other."""

    def __init__(self, passes: Sequence[Any], opt_level: int = 0, name: str = "sequential") -> None:
        del opt_level
        self.passes, self.name = list(passes), name

    def __call__(self, mod: IRModule) -> IRModule:
        """The module after all passes."""
        for one in self.passes:
            mod = one(mod)
        return mod


class LegalizeOps(Pass):
    """The module as it is: operators become loops when it is compiled."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def __call__(self, mod: IRModule) -> IRModule:
        """The module itself."""
        return mod


class DecomposeOpsForTraining(LegalizeOps):
    """The module as it is: operators such as batch normalization compute what training needs."""


class DecomposeOpsForInference(Pass):
    """Operators such as batch normalization as inference computes them.

    Parameters
    ----------
    func_name : str, optional
        The function to change; default: all.
    """

    def __init__(self, func_name: str | None = None) -> None:
        self.func_name = func_name

    def __call__(self, mod: IRModule) -> IRModule:
        """The module with these functions changed."""
        changed = {
            name: function.in_inference() or function if self.func_name in (None, name) else function
            for name, function in ((name, mod[name]) for name in mod)
        }
        return IRModule(changed, mod.attrs)


class AppendLoss(Pass):
    """Add a function that computes a loss of another function's outputs.

    Parameters
    ----------
    func_name : str
        The function.
    loss_function : Function
        The loss, as a `Loss` makes it when it is called with struct infos.
    num_backbone_outputs : int, default 1
        How many of the function's outputs the loss takes.
    new_func_name : str, optional
        Name of the new function; default: `func_name` followed by ``_loss``.
    """

    def __init__(
        self, func_name: str, loss_function: Function, num_backbone_outputs: int = 1, new_func_name: str | None = None
    ) -> None:
        self.func_name, self.loss_function = func_name, loss_function
        self.num_backbone_outputs, self.new_func_name = num_backbone_outputs, new_func_name

    def __call__(self, mod: IRModule) -> IRModule:
        """The module with the new function."""
        name = self.new_func_name or f"{name_of(self.func_name)}_loss"
        made = with_loss(mod[self.func_name], self.loss_function, self.num_backbone_outputs, name)
        return IRModule({**mod.functions, GlobalVar(name): made}, mod.attrs)


def with_loss(func: Function, loss: Function, count: int = 1, name: str | None = None) -> Function:
    """The function with a loss of its first outputs in their place."""
    graph = append_loss(numbered(func.native), loss.native, count, name=name or f"{func.name}_loss")
    return Function.of(numbered(graph))


class Gradient(Pass):
    """Add ``<func_name>_adjoint``, which returns what the function returns, and a tuple of gradients.

    Parameters
    ----------
    func_name : str or GlobalVar
        The function.
    require_grads : Var or sequence of Var, optional
        The parameters to differentiate with respect to; default: all of float.
    target_index : int, default 0
        The result to differentiate.
    """

    def __init__(self, func_name: Any, require_grads: Any = None, target_index: int = 0) -> None:
        self.func_name, self.target_index = name_of(func_name), target_index
        given = [require_grads] if isinstance(require_grads, Var) else require_grads
        self.require_grads = None if given is None else [one.name_hint for one in given]

    def __call__(self, mod: IRModule) -> IRModule:
        """The module with the new function."""
        func = mod[self.func_name]
        graph = numbered(gradient(numbered(func.native), self.require_grads, self.target_index))
        results, own = len(graph.results), len(func.native.results)
        first: Outputs = func.outputs
        outputs = (first, tuple(range(own, results)))
        made = Function.of(graph, None, outputs)
        return IRModule({**mod.functions, GlobalVar(made.name): made}, mod.attrs)
