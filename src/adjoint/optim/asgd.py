"""ASGD: gradient descent that also averages the parameters."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import Optimizer, StateSpec, Values, check_range
from adjoint.optim.descent import F64, step_spec

__all__ = ["ASGD"]


@dataclass(frozen=True)
class ASGD(Optimizer):
    """Averaged gradient descent: Polyak and Juditsky (1992), "Acceleration of stochastic approximation by averaging".

    `torch.optim.ASGD`. At update ``t = 1, 2, ...``::

        g = g + weight_decay * p
        p = (1 - lambd * eta) * p - eta * g
        a = a + mu * (p - a)
        eta = lr / (1 + lambd * lr * t) ** alpha        # lr before the first update
        mu = 1 / max(1, t - t0)                         # 1 before the first update

    The averages are the state ``ax`` of each parameter; the model itself has the last parameters.

    Parameters
    ----------
    lr : float, default 1e-2
        Learning rate.
    lambd : float, default 1e-4
        Decay of parameters and rate.
    alpha : float, default 0.75
        Exponent of the rate's decay.
    t0 : float, default 1e6
        The update at which averaging starts.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is negative or not finite.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("ax",)
    implementation_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "differentiable": False,
        "capturable": False,
    }
    lr: float = 1e-2
    lambd: float = 1e-4
    alpha: float = 0.75
    t0: float = 1e6
    weight_decay: float = 0.0
    maximize: bool = False

    def __post_init__(self) -> None:
        for name in ("lr", "lambd", "alpha", "t0", "weight_decay"):
            check_range("ASGD", name, getattr(self, name))

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The settings, which are f64, without a weight decay of 0."""
        specs = super().hyper(params)
        return tuple(StateSpec(s.name, F64, s.initial) for s in specs if s.name != "weight_decay" or self.weight_decay)

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, the rate, and the weight of the new parameter in the average."""
        return (step_spec(), StateSpec("eta", F64, float(self.lr)), StateSpec("mu", F64, 1.0))

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The rate and weights of this update, and those of the next."""
        step = (shared["step"] + 1).named("step_new")
        count = ops.cast(step, "f64")
        scalars = {"eta": shared["eta"], "mu": shared["mu"], "keep": 1.0 - hyper["lambd"] * shared["eta"]}
        if self.weight_decay:
            scalars["weight_decay"] = hyper["weight_decay"]
        eta = hyper["lr"] / ops.power(1.0 + hyper["lambd"] * hyper["lr"] * count, hyper["alpha"])
        mu = 1.0 / ops.maximum(count - hyper["t0"], 1.0)
        return scalars, {"step": step, "eta": eta.named("eta_new"), "mu": mu.named("mu_new")}

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """The parameter and its average."""
        grad = -grad if self.maximize else grad
        if self.weight_decay:
            grad = grad + scalars["weight_decay"] * param
        new = scalars["keep"] * param - scalars["eta"] * grad
        average = slots["ax"] + scalars["mu"] * (new - slots["ax"])
        return new, {"ax": average.named(f"{param.label}_ax_new")}

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``step``, ``eta`` and ``mu``, which PyTorch keeps as floats."""
        return {name: np.asarray(value, np.float32) for name, value in shared.items()}
