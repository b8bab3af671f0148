"""NAdam, RAdam and Adamax: variants of Adam."""

from collections.abc import Mapping
from typing import Any, ClassVar

from adjoint import ops
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_range, hyper_dtype
from adjoint.optim.descent import F64, Descent, step_spec
from adjoint.optim.direction import Direction, Quotient, Scale
from adjoint.optim.scaling import checked_betas
from adjoint.optim.transform import Transform

__all__ = ["Adamax", "NAdam", "RAdam", "scale_by_adamax", "scale_by_nadam", "scale_by_radam"]

#: The base of NAdam's schedule of momenta, which PyTorch and Dozat's report have as a constant.
_NADAM_BASE = 0.96


class _Moments(Transform):
    """Two running moments, whose decay rates and their powers are f64; `adjoint.optim.Adam` says why."""

    slot_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq")
    betas: tuple[float, float]
    eps: float

    def __post_init__(self) -> None:
        owner = type(self).__name__
        object.__setattr__(self, "betas", checked_betas(owner, self.betas))
        check_range(owner, "eps", self.eps)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``beta1`` and ``beta2``, which are f64, and ``eps``."""
        return (
            StateSpec("beta1", F64, float(self.betas[0])),
            StateSpec("beta2", F64, float(self.betas[1])),
            StateSpec("eps", TensorType((), hyper_dtype(params)), float(self.eps)),
        )

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, and the products of their betas."""
        return (step_spec(), StateSpec("beta1_power", F64, 1.0), StateSpec("beta2_power", F64, 1.0))

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """Bias corrections and the weights of old and new values in the moments, all in f64."""
        power1 = (shared["beta1_power"] * hyper["beta1"]).named("beta1_power_new")
        power2 = (shared["beta2_power"] * hyper["beta2"]).named("beta2_power_new")
        scalars = {
            "bias": 1.0 - power1,
            "correction": (1.0 - power2).rsqrt().named("correction"),
            "fresh1": (1.0 - hyper["beta1"]).named("fresh1"),
            "fresh2": (1.0 - hyper["beta2"]).named("fresh2"),
            "beta2": hyper["beta2"],
            "eps": hyper["eps"],
        }
        step = (shared["step"] + 1).named("step_new")
        return scalars, {"step": step, "beta1_power": power1, "beta2_power": power2}

    def moments(self, param: Value, direction: Value, slots: Values, scalars: Values) -> tuple[Value, Value]:
        """The new running means of the direction and of its square."""
        old1, old2 = slots["exp_avg"], slots["exp_avg_sq"]
        new1 = old1 + scalars["fresh1"] * (direction - old1)
        new2 = scalars["beta2"] * old2 + scalars["fresh2"] * (direction * direction)
        return new1.named(f"{param.label}_exp_avg_new"), new2.named(f"{param.label}_exp_avg_sq_new")


@dataclass(frozen=True)
class scale_by_nadam(_Moments):  # noqa: N801
    """The direction of Dozat (2016), "Incorporating Nesterov momentum into Adam".

    With Adam's moments ``m`` and ``v``, at update ``t = 1, 2, ...``::

        mu(t) = beta1 * (1 - 0.5 * 0.96 ** (t * momentum_decay))
        n = mu(t + 1) * m / (1 - mu(1) * ... * mu(t + 1)) + (1 - mu(t)) * d / (1 - mu(1) * ... * mu(t))
        d = n / (sqrt(v) / sqrt(1 - beta2**t) + eps)

    Parameters
    ----------
    betas : pair of float, default (0.9, 0.999)
        Hyperparameters ``beta1`` and ``beta2``, at least 0 and below 1.
    eps : float, default 1e-8
        Hyperparameter ``eps``.
    momentum_decay : float, default 4e-3
        Hyperparameter ``momentum_decay``.

    Raises
    ------
    InvalidValueError
        If a number is out of range.

    Notes
    -----
    State: ``step``, ``beta2_power`` and ``mu_product``, then ``<parameter>_exp_avg`` and ``<parameter>_exp_avg_sq``.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    momentum_decay: float = 4e-3

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("scale_by_nadam", "momentum_decay", self.momentum_decay)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``beta1``, ``beta2`` and ``momentum_decay``, which are f64, and ``eps``."""
        return (*super().hyper(params), StateSpec("momentum_decay", F64, float(self.momentum_decay)))

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, and the products of ``beta2`` and of the momenta."""
        return (step_spec(), StateSpec("beta2_power", F64, 1.0), StateSpec("mu_product", F64, 1.0))

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The weights of direction and moment, all in f64."""
        step = (shared["step"] + 1).named("step_new")
        power2 = (shared["beta2_power"] * hyper["beta2"]).named("beta2_power_new")
        now, following = (self._momentum(step + later, hyper) for later in (0, 1))
        product = (shared["mu_product"] * now).named("mu_product_new")
        scalars = {
            "correction": (1.0 - power2).rsqrt().named("correction"),
            "fresh1": (1.0 - hyper["beta1"]).named("fresh1"),
            "fresh2": (1.0 - hyper["beta2"]).named("fresh2"),
            "beta2": hyper["beta2"],
            "eps": hyper["eps"],
            "of_direction": ((1.0 - now) / (1.0 - product)).named("of_direction"),
            "of_moment": (following / (1.0 - product * following)).named("of_moment"),
        }
        return scalars, {"step": step, "beta2_power": power2, "mu_product": product}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The weighted sum of direction and moment, over the root of the second moment."""
        new1, new2 = self.moments(param, direction, slots, scalars)
        ahead = scalars["of_direction"] * direction + scalars["of_moment"] * new1
        below = new2.sqrt() * scalars["correction"] + scalars["eps"]
        return Quotient(ahead, below), {"exp_avg": new1, "exp_avg_sq": new2}

    def _momentum(self, step: Value, hyper: Values) -> Value:
        """The momentum at an update."""
        exponent = ops.cast(step, "f64") * hyper["momentum_decay"]
        return hyper["beta1"] * (1.0 - 0.5 * ops.power(_NADAM_BASE, exponent))


@dataclass(frozen=True)
class scale_by_radam(_Moments):  # noqa: N801
    """The direction of Liu et al. (2020), "On the variance of the adaptive learning rate and beyond".

    With Adam's moments ``m`` and ``v``, at update ``t = 1, 2, ...``, ``r = 2 / (1 - beta2) - 1`` and ``s = r - 2 * t *
    beta2**t / (1 - beta2**t)``::

        m = m / (1 - beta1**t)
        c = sqrt((s - 4) * (s - 2) * r / ((r - 4) * (r - 2) * s))
        d = m * c * sqrt(1 - beta2**t) / (sqrt(v) + eps)  if s > 5 else  m

    Parameters, errors and state as for `scale_by_adam` without `amsgrad`.
    """

    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """Bias corrections and the rectification, all in f64."""
        scalars, new = super().prepare(hyper, shared)
        limit = 2.0 / scalars["fresh2"] - 1.0
        power2 = new["beta2_power"]
        length = limit - 2.0 * ops.cast(new["step"], "f64") * power2 / (1.0 - power2)
        rectifies = ops.greater(length, 5.0)
        ratio = (length - 4.0) * (length - 2.0) * limit / ((limit - 4.0) * (limit - 2.0) * length)
        factor = (ops.where(rectifies, ratio, 1.0) * (1.0 - power2)).sqrt()
        scalars["bias"] = ops.where(rectifies, scalars["bias"] / factor, scalars["bias"])
        scalars["rectifies"] = ops.where(rectifies, ops.full_like(length, 1.0), 0.0)
        del scalars["correction"]
        return scalars, new

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The first moment, over the root of the second where that is reliable."""
        new1, new2 = self.moments(param, direction, slots, scalars)
        below = ops.where(ops.greater(scalars["rectifies"], 0.5), new2.sqrt() + scalars["eps"], 1.0)
        return Quotient(new1, below), {"exp_avg": new1, "exp_avg_sq": new2}

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The bias correction and the rectification."""
        return scale.divided_by(scalars["bias"])


@dataclass(frozen=True)
class scale_by_adamax(_Moments):  # noqa: N801
    """The quotient of Adamax: section 7.1 of Kingma and Ba (2015), "Adam: a method for stochastic optimization".

    At update ``t = 1, 2, ...``, elementwise::

        m = m + (1 - beta1) * (d - m)
        u = max(beta2 * u, abs(d) + eps)
        d = m / (1 - beta1**t) / u

    Parameters and errors as for `scale_by_adam` without `amsgrad`. State: ``step`` and ``beta1_power``, then
    ``<parameter>_exp_avg`` (m) and ``<parameter>_exp_inf`` (u).
    """

    slot_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_inf")
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, and the product of ``beta1``."""
        return (step_spec(), StateSpec("beta1_power", F64, 1.0))

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The bias correction and the weights, in f64."""
        power1 = (shared["beta1_power"] * hyper["beta1"]).named("beta1_power_new")
        fresh1 = (1.0 - hyper["beta1"]).named("fresh1")
        scalars = {"bias": 1.0 - power1, "fresh1": fresh1, "beta2": hyper["beta2"], "eps": hyper["eps"]}
        return scalars, {"step": (shared["step"] + 1).named("step_new"), "beta1_power": power1}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The first moment over the decaying maximum."""
        old = slots["exp_avg"]
        new = (old + scalars["fresh1"] * (direction - old)).named(f"{param.label}_exp_avg_new")
        top = ops.maximum(scalars["beta2"] * slots["exp_inf"], abs(direction) + scalars["eps"])
        top = top.named(f"{param.label}_exp_inf_new")
        return Quotient(new, top), {"exp_avg": new, "exp_inf": top}

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The first moment's bias correction."""
        return scale.divided_by(scalars["bias"])


_OPTIONS: dict[str, Any] = {"foreach": None, "capturable": False, "differentiable": False}


@dataclass(frozen=True)
class NAdam(Descent):
    """Adam with Nesterov's momentum: Dozat (2016), "Incorporating Nesterov momentum into Adam"; `torch.optim.NAdam`.

    It is ``chain(add_decayed_weights(...), scale_by_nadam(...), scale_by_learning_rate(...))``; the formulas are those
    of `scale_by_nadam`.

    Parameters
    ----------
    lr : float, default 2e-3
        Learning rate.
    betas : pair of float, default (0.9, 0.999)
        Decay rates of the running moments, at least 0 and below 1.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    momentum_decay : float, default 4e-3
        How fast the momentum approaches ``beta1``.
    decoupled_weight_decay : bool, default False
        Shrink the parameter instead, as `AdamW` does.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = _OPTIONS
    exported: ClassVar[tuple[str, ...]] = ("step", "mu_product")
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum_decay: float = 4e-3
    decoupled_weight_decay: bool = False
    maximize: bool = False

    def is_decoupled(self) -> bool:
        """Whether weight decay shrinks the parameter."""
        return self.decoupled_weight_decay

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_nadam`."""
        return (scale_by_nadam(self.betas, self.eps, self.momentum_decay),)


@dataclass(frozen=True)
class RAdam(Descent):
    """Rectified Adam: Liu et al. (2020), "On the variance of the adaptive learning rate and beyond".

    `torch.optim.RAdam`. It is ``chain(add_decayed_weights(...), scale_by_radam(...), scale_by_learning_rate(...))``;
    the formulas are those of `scale_by_radam`.

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
    decoupled_weight_decay : bool, default False
        Shrink the parameter instead, as `AdamW` does.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = _OPTIONS
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decoupled_weight_decay: bool = False
    maximize: bool = False

    def is_decoupled(self) -> bool:
        """Whether weight decay shrinks the parameter."""
        return self.decoupled_weight_decay

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_radam`."""
        return (scale_by_radam(self.betas, self.eps),)


@dataclass(frozen=True)
class Adamax(Descent):
    """Adam with the infinity norm: section 7.1 of Kingma and Ba (2015); `torch.optim.Adamax`.

    It is ``chain(add_decayed_weights(...), scale_by_adamax(...), scale_by_learning_rate(...))``; the formulas are those
    of `scale_by_adamax`.

    Parameters
    ----------
    lr : float, default 2e-3
        Learning rate.
    betas : pair of float, default (0.9, 0.999)
        Decay rates of the running mean and of the maximum, at least 0 and below 1.
    eps : float, default 1e-8
        Added to the magnitude of the gradient.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = _OPTIONS
    lr: float = 2e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    maximize: bool = False

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_adamax`."""
        return (scale_by_adamax(self.betas, self.eps),)
