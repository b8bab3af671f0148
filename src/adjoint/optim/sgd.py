"""Stochastic gradient descent, with momentum, dampening, Nesterov's variant and weight decay."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.optim.base import Optimizer, StateSpec, Values, check_range, hyper_dtype

__all__ = ["SGD"]


@dataclass(frozen=True)
class SGD(Optimizer):
    """``p -= lr * d``, where ``d`` is the gradient with decay and momentum; `torch.optim.SGD`.

    ::

        d = g + weight_decay * p
        b = momentum * b + (1 - dampening) * d        # without dampening in the first step: b = d
        d = d + momentum * b  if nesterov else  b
        p = p - lr * d

    Parameters
    ----------
    lr : float
        Learning rate.
    momentum : float, default 0.0
        If 0, the graph contains no momentum and no state for it.
    dampening : float, default 0.0
        If 0, the graph contains none; otherwise the state has ``step``, an i64 that counts the updates.
    weight_decay : float, default 0.0
        If 0, the graph contains none.
    nesterov : bool, default False
        Requires momentum, and no dampening.

    Raises
    ------
    InvalidValueError
        If a setting is negative or not finite, or `nesterov` is combined with no momentum or with dampening.

    Notes
    -----
    Hyperparameters, which can be changed between steps without recompilation: ``lr``, and those of ``momentum``,
    ``dampening`` and ``weight_decay`` that are not 0 here. State: ``<parameter>_momentum_buffer``.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("momentum_buffer",)
    lr: float
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        for name in ("lr", "momentum", "dampening", "weight_decay"):
            check_range("SGD", name, getattr(self, name))
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise InvalidValueError(
                f"SGD: nesterov requires momentum above 0 and dampening 0, got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )

    def slots(self) -> tuple[str, ...]:
        """``momentum_buffer``, if there is momentum."""
        return self.slot_names if self.momentum else ()

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The learning rate, and those of the others that are not 0; f32, or f64 if any parameter is f64."""
        used = {"lr": self.lr}
        if self.momentum:
            used["momentum"] = self.momentum
            if self.dampening:
                used["dampening"] = self.dampening
        if self.weight_decay:
            used["weight_decay"] = self.weight_decay
        type_ = TensorType((), hyper_dtype(params))
        return tuple(StateSpec(name, type_, float(value)) for name, value in used.items())

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, needed with dampening because the first update differs."""
        counts = self.momentum and self.dampening
        return (StateSpec("step", TensorType((), DTYPES["i64"]), 0.0),) if counts else ()

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The hyperparameters unchanged, except that dampening becomes ``fresh``, the weight of the new gradient."""
        scalars = dict(hyper)
        if "dampening" not in scalars:
            return scalars, {}
        step = shared["step"]
        damped = 1.0 - scalars.pop("dampening")
        scalars["fresh"] = ops.where(ops.equal(step, 0), 1.0, damped).named("fresh")
        return scalars, {"step": (step + 1).named("step_new")}

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """The elementwise update of one parameter."""
        direction, updated = grad, {}
        if self.weight_decay:
            direction = direction + scalars["weight_decay"] * param
        if self.momentum:
            fresh = scalars["fresh"] * direction if self.dampening else direction
            gathered = scalars["momentum"] * slots["momentum_buffer"] + fresh
            gathered = gathered.named(f"{param.label}_momentum_buffer_new")
            updated["momentum_buffer"] = gathered
            direction = direction + scalars["momentum"] * gathered if self.nesterov else gathered
        return param - scalars["lr"] * direction, updated
