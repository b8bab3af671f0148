"""`SetupTrainer`: from a model to a module that trains it."""

from collections.abc import Sequence
from typing import Any

from adjoint import training
from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.tvm.relax.module import IRModule
from adjoint.compat.tvm.relax.training.loss import Loss, infos
from adjoint.compat.tvm.relax.training.optimizer import Optimizer
from adjoint.compat.tvm.relax.transform import Pass
from adjoint.compat.uncovered import uncovered
from adjoint.errors import TypeRuleError, kind_of

__all__ = ["SetupTrainer"]
__getattr__ = uncovered(__name__, {}, "adjoint.SetupTrainer")


class SetupTrainer(Pass):
    """A pass: the module that trains a model, `adjoint.SetupTrainer`.

    The model is a module with the function ``backbone`` and the attributes ``param_num`` and ``state_num``.

    Parameters
    ----------
    loss : Loss
        The loss.
    optimizer : Optimizer
        The optimizer.
    loss_args : sequence of TensorStructInfo
        Those of the outputs of the model, then of the targets.
    legalize : bool, default True
        Without effect.
    """

    def __init__(self, loss: Loss, optimizer: Optimizer, loss_args: Sequence[Any], legalize: bool = True) -> None:
        del legalize
        for what, given, kind in (("loss", loss, Loss), ("optimizer", optimizer, Optimizer)):
            if not isinstance(given, kind):
                raise TypeRuleError(
                    f"SetupTrainer: {what} must be a {kind.__name__}, got {kind_of(given)}; call its class"
                )
        self._types = [info.native for info in infos(loss_args)]
        self._setup = training.SetupTrainer(loss.native, optimizer.native, self._types)

    def __call__(self, mod: IRModule) -> IRModule:
        """The module that trains `mod`."""
        backbone, native = mod["backbone"], mod.native
        inference = backbone.in_inference()
        if inference is not None:
            count = len(inference.native.results) - int(mod.attrs.get("state_num", 0))
            graph = inference.native
            predict = type(graph)("backbone_inference", graph.params, graph.results[:count])
            native = native.with_function(predict)
        made = self._setup(native)
        functions = {f.name: mod[f.name] if f.name in mod and f.name != "backbone" else Function.of(f) for f in made}
        return IRModule({**functions, "backbone": backbone}, made.attrs)
