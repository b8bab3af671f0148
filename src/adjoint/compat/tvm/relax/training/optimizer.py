"""Optimizers: functions of tuples of parameters, gradients and states."""

from typing import Any

import numpy as np

from adjoint import optim
from adjoint.compat.tvm.relax.expr import Var
from adjoint.compat.tvm.relax.function import Function
from adjoint.compat.tvm.runtime import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.ir import Function as Graph
from adjoint.ir import TensorType, numbered, param
from adjoint.ops import constant
from adjoint.optim.base import Optimizer as Native

__all__ = ["SGD", "Adam", "MomentumSGD", "Optimizer"]
__getattr__ = uncovered(__name__, {}, "adjoint.optim")


class Optimizer:
    """Base class of optimizers.

    Attributes
    ----------
    native : adjoint.optim.Optimizer
        The optimizer in adjoint.
    name : str
        Name of the function.
    state : tuple of Tensor
        The state, after `init`; what the function returns takes its place.
    """

    def __init__(self, native: Native, name: str) -> None:
        self.native, self.name = native, name
        self.state: tuple[Any, ...] = ()
        self._types: dict[str, TensorType] | None = None

    def init(self, params: Var | list[Var] | tuple[Var, ...]) -> "Optimizer":
        """Prepare for parameters, and make their state."""
        given = [params] if isinstance(params, Var) else list(params)
        self._types = {one.name_hint: one.struct_info.native for one in given}
        specs = self.native.init(self._types)
        self.state = tuple(Tensor(np.array(spec.array())) for spec in specs)
        return self

    def get_function(self) -> Function:
        """The function ``(params, gradients, states) -> (params, states)`` of tuples."""
        if self._types is None:
            raise InvalidValueError(f"{self.name}: init(params) must come before get_function(), got none; call it")
        types = self._types
        params = {name: param(name, t.shape, t.dtype) for name, t in types.items()}
        grads = {name: param(f"{name}_gradient", t.shape, t.dtype) for name, t in types.items()}
        states = {s.name: param(s.name, s.type.shape, s.type.dtype) for s in self.native.init(types)}
        hyper = {s.name: constant(np.asarray(s.initial, s.type.dtype)) for s in self.native.hyper(types)}
        new_params, new_states = self.native.apply(params, grads, states, hyper)
        inputs = (*params.values(), *grads.values(), *states.values())
        graph = numbered(Graph(self.name, inputs, (*new_params.values(), *(new_states[name] for name in states))))
        groups = [_group(name, items) for name, items in (("params", params), ("gradients", grads), ("states", states))]
        count = len(params)
        outputs = (tuple(range(count)), tuple(range(count, count + len(states))))
        return Function.of(graph, groups, outputs)


def _group(name: str, items: dict[str, Any]) -> Var:
    """A tuple of parameters of a graph as one variable."""
    made = Var.__new__(Var)
    made.name_hint = name
    made.value = tuple(_variable(value) for value in items.values())
    return made


def _variable(value: Any) -> Var:
    made = Var.__new__(Var)
    made.name_hint, made.value = value.label, value
    return made


class SGD(Optimizer):
    """Stochastic gradient descent: ``p -= lr * (g + weight_decay * p)``."""

    def __init__(self, lr: float, weight_decay: float = 0) -> None:
        super().__init__(optim.SGD(lr, weight_decay=weight_decay), "SGD")


class MomentumSGD(Optimizer):
    """SGD with momentum; unlike in PyTorch, dampening applies to the first step too.

    ``v = momentum * v + (1 - dampening) * g`` with ``v = 0`` at first is `adjoint.optim.SGD` with the learning rate
    ``(1 - dampening) * lr``, whose buffer is ``v / (1 - dampening)``.
    """

    def __init__(
        self, lr: float, momentum: float, dampening: float = 0, weight_decay: float = 0, nesterov: bool = False
    ) -> None:
        if nesterov and dampening:
            raise InvalidValueError(
                f"MomentumSGD: dampening must be 0 with nesterov, got {dampening}; leave one of them out"
            )
        native = optim.SGD((1 - dampening) * lr, momentum, nesterov=nesterov, weight_decay=weight_decay)
        super().__init__(native, "MomentumSGD")


class Adam(Optimizer):
    """Adam (Kingma and Ba, 2015), with weight decay added to the gradient."""

    def __init__(
        self, lr: float, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0
    ) -> None:
        super().__init__(optim.Adam(lr, betas, eps, weight_decay), "Adam")
