"""RMSprop, Adagrad and Adadelta: gradients divided by the root of a sum or mean of their squares."""

from collections.abc import Mapping
from typing import Any, ClassVar

from adjoint import ops
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_range
from adjoint.optim.descent import F64, Descent, step_spec
from adjoint.optim.direction import Direction, Quotient, Scale
from adjoint.optim.scaling import trace
from adjoint.optim.transform import Transform

__all__ = ["Adadelta", "Adagrad", "RMSprop", "scale_by_adadelta", "scale_by_adagrad", "scale_by_rms"]


@dataclass(frozen=True)
class scale_by_rms(Transform):  # noqa: N801
    """The quotient of RMSprop: Tieleman and Hinton (2012), lecture 6.5 of "Neural networks for machine learning".

    ::

        v = alpha * v + (1 - alpha) * d * d
        a = a + (1 - alpha) * (d - a)          # if centered
        d = d / (sqrt(v - a * a) + eps)        # without a if not centered

    Parameters
    ----------
    alpha : float, default 0.99
        Hyperparameter ``alpha``, at least 0 and below 1.
    eps : float, default 1e-8
        Hyperparameter ``eps``.
    centered : bool, default False
        Subtract the square of the running mean, as in Graves (2013), "Generating sequences with recurrent neural
        networks". The difference is at least 0, even where it is rounded.

    Raises
    ------
    InvalidValueError
        If a number is out of range.

    Notes
    -----
    State: ``step`` (i64), then ``<parameter>_square_avg`` (v), and with `centered` ``<parameter>_grad_avg`` (a).
    """

    slot_names: ClassVar[tuple[str, ...]] = ("square_avg", "grad_avg")
    alpha: float = 0.99
    eps: float = 1e-8
    centered: bool = False

    def __post_init__(self) -> None:
        check_range("scale_by_rms", "alpha", self.alpha, high=1.0)
        check_range("scale_by_rms", "eps", self.eps)

    def slots(self) -> tuple[str, ...]:
        """The mean of squares, and the mean with `centered`."""
        return self.slot_names if self.centered else self.slot_names[:1]

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``alpha``, which is f64, and ``eps``."""
        return _with_f64(super().hyper(params), "alpha")

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (step_spec(),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The hyperparameters, and the weight of the new square."""
        scalars = {**hyper, "fresh": (1.0 - hyper["alpha"]).named("fresh")}
        return scalars, {"step": (shared["step"] + 1).named("step_new")}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The quotient and the means."""
        squares = scalars["alpha"] * slots["square_avg"] + scalars["fresh"] * (direction * direction)
        squares = squares.named(f"{param.label}_square_avg_new")
        updated = {"square_avg": squares}
        if self.centered:
            old = slots["grad_avg"]
            mean = (old + scalars["fresh"] * (direction - old)).named(f"{param.label}_grad_avg_new")
            updated["grad_avg"] = mean
            squares = ops.maximum(squares - mean * mean, 0.0)
        return Quotient(direction, squares.sqrt() + scalars["eps"]), updated


@dataclass(frozen=True)
class scale_by_adagrad(Transform):  # noqa: N801
    """The quotient of Duchi, Hazan and Singer (2011), "Adaptive subgradient methods for online learning".

    At update ``t = 0, 1, ...``::

        s = s + d * d
        d = d / (sqrt(s) + eps) / (1 + t * lr_decay)

    Parameters
    ----------
    lr_decay : float, default 0.0
        Hyperparameter ``lr_decay``. If 0, the graph contains none.
    initial_accumulator_value : float, default 0.0
        The initial sum.
    eps : float, default 1e-10
        Hyperparameter ``eps``.

    Raises
    ------
    InvalidValueError
        If a number is negative or not finite.

    Notes
    -----
    State: ``step`` (i64), then ``<parameter>_sum`` (s).
    """

    slot_names: ClassVar[tuple[str, ...]] = ("sum",)
    lr_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10

    def __post_init__(self) -> None:
        for name in ("lr_decay", "initial_accumulator_value", "eps"):
            check_range("scale_by_adagrad", name, getattr(self, name))

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``eps``, and ``lr_decay`` unless it is 0."""
        names = ("lr_decay", "eps") if self.lr_decay else ("eps",)
        return _with_f64([spec for spec in super().hyper(params) if spec.name in names], "lr_decay")

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``step``, and the sums with their initial value."""
        first = float(self.initial_accumulator_value)
        step, *sums = super().init(params)
        return (step, *(StateSpec(spec.name, spec.type, first) for spec in sums))

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (step_spec(),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The hyperparameters, and the divisor of the learning rate."""
        step = shared["step"]
        scalars = {"eps": hyper["eps"]}
        if self.lr_decay:
            scalars["divisor"] = 1.0 + ops.cast(step, "f64") * hyper["lr_decay"]
        return scalars, {"step": (step + 1).named("step_new")}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The quotient and the sum."""
        total = (slots["sum"] + direction * direction).named(f"{param.label}_sum_new")
        return Quotient(direction, total.sqrt() + scalars["eps"]), {"sum": total}

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The decay of the learning rate."""
        return scale.divided_by(scalars["divisor"]) if self.lr_decay else scale


@dataclass(frozen=True)
class scale_by_adadelta(Transform):  # noqa: N801
    """The direction of Zeiler (2012), "ADADELTA: an adaptive learning rate method".

    ::

        v = rho * v + (1 - rho) * d * d
        d = sqrt(u + eps) / sqrt(v + eps) * d
        u = rho * u + (1 - rho) * d * d        # of the new d

    Parameters
    ----------
    rho : float, default 0.9
        Hyperparameter ``rho``, at least 0 and below 1.
    eps : float, default 1e-6
        Hyperparameter ``eps``.

    Raises
    ------
    InvalidValueError
        If a number is out of range.

    Notes
    -----
    State: ``step`` (i64), then ``<parameter>_square_avg`` (v) and ``<parameter>_acc_delta`` (u).
    """

    slot_names: ClassVar[tuple[str, ...]] = ("square_avg", "acc_delta")
    rho: float = 0.9
    eps: float = 1e-6

    def __post_init__(self) -> None:
        check_range("scale_by_adadelta", "rho", self.rho, high=1.0)
        check_range("scale_by_adadelta", "eps", self.eps)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``rho``, which is f64, and ``eps``."""
        return _with_f64(super().hyper(params), "rho")

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (step_spec(),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The hyperparameters, and the weight of the new square."""
        scalars = {**hyper, "fresh": (1.0 - hyper["rho"]).named("fresh")}
        return scalars, {"step": (shared["step"] + 1).named("step_new")}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction and both means of squares."""
        rho, fresh, eps = scalars["rho"], scalars["fresh"], scalars["eps"]
        squares = (rho * slots["square_avg"] + fresh * (direction * direction)).named(f"{param.label}_square_avg_new")
        delta = (slots["acc_delta"] + eps).sqrt() / (squares + eps).sqrt() * direction
        deltas = (rho * slots["acc_delta"] + fresh * (delta * delta)).named(f"{param.label}_acc_delta_new")
        return delta, {"square_avg": squares, "acc_delta": deltas}


@dataclass(frozen=True)
class RMSprop(Descent):
    """Tieleman and Hinton (2012), lecture 6.5 of "Neural networks for machine learning"; `torch.optim.RMSprop`.

    It is ``chain(add_decayed_weights(...), scale_by_rms(...), trace(...), scale_by_learning_rate(...))``; the formulas
    are those of `scale_by_rms` and `trace`.

    Parameters
    ----------
    lr : float, default 1e-2
        Learning rate.
    alpha : float, default 0.99
        Decay rate of the mean of squares, at least 0 and below 1.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    momentum : float, default 0.0
        If 0, the graph contains none.
    centered : bool, default False
        Divide by an estimate of the standard deviation.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = {
        "capturable": False,
        "foreach": None,
        "differentiable": False,
    }
    numbers: ClassVar[tuple[str, ...]] = ("lr", "eps", "weight_decay", "momentum")
    lr: float = 1e-2
    alpha: float = 0.99
    eps: float = 1e-8
    weight_decay: float = 0.0
    momentum: float = 0.0
    centered: bool = False
    maximize: bool = False

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_rms`, and `trace` unless the momentum is 0."""
        scaled = scale_by_rms(self.alpha, self.eps, self.centered)
        return (scaled, trace(self.momentum)) if self.momentum else (scaled,)


@dataclass(frozen=True)
class Adagrad(Descent):
    """Duchi, Hazan and Singer (2011), "Adaptive subgradient methods for online learning"; `torch.optim.Adagrad`.

    It is ``chain(add_decayed_weights(...), scale_by_adagrad(...), scale_by_learning_rate(...))``; the formulas are
    those of `scale_by_adagrad`.

    Parameters
    ----------
    lr : float, default 1e-2
        Learning rate.
    lr_decay : float, default 0.0
        The rate is divided by ``1 + t * lr_decay`` at update ``t = 0, 1, ...``. If 0, the graph contains none.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    initial_accumulator_value : float, default 0.0
        The initial sum of squares.
    eps : float, default 1e-10
        Added to the denominator.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = {"foreach": None, "differentiable": False, "fused": None}
    lr: float = 1e-2
    lr_decay: float = 0.0
    weight_decay: float = 0.0
    initial_accumulator_value: float = 0.0
    eps: float = 1e-10
    maximize: bool = False

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_adagrad`."""
        return (scale_by_adagrad(self.lr_decay, self.initial_accumulator_value, self.eps),)


@dataclass(frozen=True)
class Adadelta(Descent):
    """Zeiler (2012), "ADADELTA: an adaptive learning rate method"; `torch.optim.Adadelta`.

    It is ``chain(add_decayed_weights(...), scale_by_adadelta(...), scale_by_learning_rate(...))``; the formulas are
    those of `scale_by_adadelta`.

    Parameters
    ----------
    lr : float, default 1.0
        Learning rate.
    rho : float, default 0.9
        Decay rate of the means of squares, at least 0 and below 1.
    eps : float, default 1e-6
        Added to the means.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = {
        "capturable": False,
        "foreach": None,
        "differentiable": False,
    }
    lr: float = 1.0
    rho: float = 0.9
    eps: float = 1e-6
    weight_decay: float = 0.0
    maximize: bool = False

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_adadelta`."""
        return (scale_by_adadelta(self.rho, self.eps),)


def _with_f64(specs: "tuple[StateSpec, ...] | list[StateSpec]", name: str) -> tuple[StateSpec, ...]:
    """The hyperparameters, of which one is f64: its difference from 1 loses four digits in f32."""
    return tuple(StateSpec(s.name, F64, s.initial) if s.name == name else s for s in specs)
