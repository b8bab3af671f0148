"""Adam and AdamW: updates scaled by running moments of the gradient."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar

from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.optim.base import Optimizer, StateSpec, Values, check_range, hyper_dtype

__all__ = ["Adam", "AdamW"]

_F64 = TensorType((), DTYPES["f64"])


@dataclass(frozen=True)
class Adam(Optimizer):
    """Kingma and Ba (2015), "Adam: a method for stochastic optimization"; `torch.optim.Adam`.

    At update ``t = 1, 2, ...``, elementwise::

        g = g + weight_decay * p
        m = m + (1 - beta1) * (g - m)
        v = beta2 * v + (1 - beta2) * g * g
        p = p - lr / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)

    Parameters
    ----------
    lr : float, default 1e-3
        Learning rate.
    betas : pair of float, default (0.9, 0.999)
        Decay rates of the running moments, at least 0 and below 1.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.

    Notes
    -----
    Hyperparameters, which can be changed between steps without recompilation: ``lr``, ``beta1``, ``beta2``, ``eps``,
    and ``weight_decay`` unless it is 0 here. State: ``step`` (i64), ``beta1_power`` and ``beta2_power``, then
    ``<parameter>_exp_avg`` (m) and ``<parameter>_exp_avg_sq`` (v).

    ``beta1**t`` is maintained as a product of one factor per step, so if ``beta1`` changes, the correction is that of
    the betas actually used; PyTorch uses a power of the latest. Betas and their powers are f64, and the quantities
    common to all parameters are computed from them in f64, once per step. In f32, ``1 - 0.999`` loses four digits, and
    after 1000 steps at ``lr=0.01`` the parameters would differ from PyTorch's by 8e-6 instead of 5e-7.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")
    #: Whether weight decay shrinks the parameter (AdamW) instead of being added to the gradient.
    decoupled: ClassVar[bool] = False
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0

    def __post_init__(self) -> None:
        name = type(self).__name__
        for setting in ("lr", "eps", "weight_decay"):
            check_range(name, setting, getattr(self, setting))
        given: object = self.betas
        betas = tuple(given) if isinstance(given, Iterable) else ()
        if len(betas) != 2:
            raise InvalidValueError(f"{name}: betas must be two numbers, got {given!r}; write betas=(0.9, 0.999)")
        for i, beta in enumerate(betas):
            check_range(name, f"beta{i + 1}", beta, high=1.0)
        object.__setattr__(self, "betas", betas)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``lr``, ``beta1``, ``beta2``, ``eps`` and, unless 0, ``weight_decay``. The betas are f64."""
        plain = TensorType((), hyper_dtype(params))
        decay = (StateSpec("weight_decay", plain, float(self.weight_decay)),) if self.weight_decay else ()
        return (
            StateSpec("lr", plain, float(self.lr)),
            StateSpec("beta1", _F64, float(self.betas[0])),
            StateSpec("beta2", _F64, float(self.betas[1])),
            StateSpec("eps", plain, float(self.eps)),
            *decay,
        )

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, and the products of their betas."""
        return (
            StateSpec("step", TensorType((), DTYPES["i64"]), 0.0),
            StateSpec("beta1_power", _F64, 1.0),
            StateSpec("beta2_power", _F64, 1.0),
        )

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """Step size, bias correction and the weights of old and new values in the moments, all in f64."""
        power1 = (shared["beta1_power"] * hyper["beta1"]).named("beta1_power_new")
        power2 = (shared["beta2_power"] * hyper["beta2"]).named("beta2_power_new")
        lr = hyper["lr"].cast("f64")
        scalars = {
            "step_size": (lr / (1.0 - power1)).named("step_size"),
            "correction": (1.0 - power2).rsqrt().named("correction"),
            "fresh1": (1.0 - hyper["beta1"]).named("fresh1"),
            "fresh2": (1.0 - hyper["beta2"]).named("fresh2"),
            "beta2": hyper["beta2"],
            "eps": hyper["eps"],
        }
        if self.weight_decay and self.decoupled:
            scalars["keep"] = (1.0 - lr * hyper["weight_decay"].cast("f64")).named("keep")
        elif self.weight_decay:
            scalars["weight_decay"] = hyper["weight_decay"]
        step = (shared["step"] + 1).named("step_new")
        return scalars, {"step": step, "beta1_power": power1, "beta2_power": power2}

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """The elementwise update of one parameter."""
        name = param.label
        if self.weight_decay and self.decoupled:
            param = param * scalars["keep"]
        elif self.weight_decay:
            grad = grad + scalars["weight_decay"] * param
        old1, old2 = slots["exp_avg"], slots["exp_avg_sq"]
        new1 = (old1 + scalars["fresh1"] * (grad - old1)).named(f"{name}_exp_avg_new")
        new2 = (scalars["beta2"] * old2 + scalars["fresh2"] * (grad * grad)).named(f"{name}_exp_avg_sq_new")
        denominator = new2.sqrt() * scalars["correction"] + scalars["eps"]
        return param - scalars["step_size"] * new1 / denominator, {"exp_avg": new1, "exp_avg_sq": new2}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: ``p = (1 - lr * weight_decay) * p``, then Adam's step.

    Loshchilov and Hutter (2019), "Decoupled weight decay regularization"; `torch.optim.AdamW`. Parameters, state and
    errors as for `Adam`, except that `weight_decay` is 0.01 by default.
    """

    decoupled: ClassVar[bool] = True
    weight_decay: float = 1e-2
