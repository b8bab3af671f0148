"""Transforms that scale directions, add weight decay to them, and gather them in momentum and moments."""

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, described
from adjoint.ir import DTYPES, Function, TensorType, Value, is_float, param
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.calls import evaluated
from adjoint.optim.base import StateSpec, Values, check_range, hyper_dtype
from adjoint.optim.direction import Direction, Quotient, Scale
from adjoint.optim.transform import Transform

__all__ = [
    "add_decayed_weights",
    "decoupled_weight_decay",
    "negate",
    "scale_by_adam",
    "scale_by_learning_rate",
    "scale_by_schedule",
    "trace",
]

_F64 = TensorType((), DTYPES["f64"])
_COUNT = TensorType((), DTYPES["i64"])


@dataclass(frozen=True)
class negate(Transform):  # noqa: N801
    """``d = -d``: ascent instead of descent, if it comes first."""

    def update(
        self,
        param: Value,  # noqa: ARG002
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,  # noqa: ARG002
    ) -> tuple[Direction, dict[str, Value]]:
        """The negative direction."""
        return -direction, {}


@dataclass(frozen=True)
class add_decayed_weights(Transform):  # noqa: N801
    """``d = d + weight_decay * p``; as the first transform, the gradient of an L2 penalty.

    Parameters
    ----------
    weight_decay : float
        Hyperparameter ``weight_decay``, at least 0.

    Raises
    ------
    InvalidValueError
        If it is negative or not finite.
    """

    weight_decay: float

    def __post_init__(self) -> None:
        check_range("add_decayed_weights", "weight_decay", self.weight_decay)

    def update(
        self,
        param: Value,
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction with the decay."""
        return direction + scalars["weight_decay"] * param, {}


@dataclass(frozen=True)
class decoupled_weight_decay(Transform):  # noqa: N801
    """``p = (1 - weight_decay) * p`` before the step, where later factors such as the learning rate multiply the decay.

    Loshchilov and Hutter (2019), "Decoupled weight decay regularization".

    Parameters
    ----------
    weight_decay : float
        Hyperparameter ``weight_decay``, at least 0.

    Raises
    ------
    InvalidValueError
        If it is negative or not finite.
    """

    weight_decay: float

    def __post_init__(self) -> None:
        check_range("decoupled_weight_decay", "weight_decay", self.weight_decay)

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The scale with the decay."""
        return scale.with_decay(scalars["weight_decay"])


@dataclass(frozen=True)
class trace(Transform):  # noqa: N801
    """Momentum: a decaying sum of directions.

    ::

        b = momentum * b + (1 - dampening) * d        # without dampening in the first step: b = d
        d = d + momentum * b  if nesterov else  b

    Parameters
    ----------
    momentum : float, default 0.9
        Hyperparameter ``momentum``, at least 0.
    dampening : float, default 0.0
        Hyperparameter ``dampening``. If 0, the graph contains none; otherwise the state has ``step``, an i64 that
        counts the updates.
    nesterov : bool, default False
        Nesterov's variant.

    Raises
    ------
    InvalidValueError
        If a number is negative or not finite.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("momentum_buffer",)
    momentum: float = 0.9
    dampening: float = 0.0
    nesterov: bool = False

    def __post_init__(self) -> None:
        for name in ("momentum", "dampening"):
            check_range("trace", name, getattr(self, name))

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``momentum``, and ``dampening`` unless it is 0."""
        return tuple(spec for spec in super().hyper(params) if spec.name == "momentum" or self.dampening)

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, needed with dampening because the first update differs."""
        return (StateSpec("step", _COUNT, 0.0),) if self.dampening else ()

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """``momentum``, and for dampening ``fresh``, the weight of the new direction."""
        scalars = {"momentum": hyper["momentum"]}
        if not self.dampening:
            return scalars, {}
        step = shared["step"]
        scalars["fresh"] = ops.where(ops.equal(step, 0), 1.0, 1.0 - hyper["dampening"]).named("fresh")
        return scalars, {"step": (step + 1).named("step_new")}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The buffer, or Nesterov's combination of the direction with it."""
        fresh = scalars["fresh"] * direction if self.dampening else direction
        gathered = scalars["momentum"] * slots["momentum_buffer"] + fresh
        gathered = gathered.named(f"{param.label}_momentum_buffer_new")
        new = direction + scalars["momentum"] * gathered if self.nesterov else gathered
        return new, {"momentum_buffer": gathered}


@dataclass(frozen=True)
class scale_by_adam(Transform):  # noqa: N801
    """The quotient of Kingma and Ba (2015), "Adam: a method for stochastic optimization".

    At update ``t = 1, 2, ...``, elementwise::

        m = m + (1 - beta1) * (d - m)
        v = beta2 * v + (1 - beta2) * d * d
        d = m / (1 - beta1**t) / (sqrt(v) / sqrt(1 - beta2**t) + eps)

    Parameters
    ----------
    betas : pair of float, default (0.9, 0.999)
        Hyperparameters ``beta1`` and ``beta2``, at least 0 and below 1.
    eps : float, default 1e-8
        Hyperparameter ``eps``.
    amsgrad : bool, default False
        Take the largest ``v`` so far in the quotient: Reddi, Kale and Kumar (2018), "On the convergence of Adam and
        beyond".

    Raises
    ------
    InvalidValueError
        If a number is out of range.

    Notes
    -----
    State: ``step`` (i64), ``beta1_power`` and ``beta2_power``, then ``<parameter>_exp_avg`` (m),
    ``<parameter>_exp_avg_sq`` (v) and, with `amsgrad`, ``<parameter>_max_exp_avg_sq``. `Adam` says why the powers are
    products, and why they and the betas are f64.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    amsgrad: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", checked_betas("scale_by_adam", self.betas))
        check_range("scale_by_adam", "eps", self.eps)

    def slots(self) -> tuple[str, ...]:
        """The moments, and the largest second one with `amsgrad`."""
        return self.slot_names if self.amsgrad else self.slot_names[:2]

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``beta1`` and ``beta2``, which are f64, and ``eps``."""
        return (
            StateSpec("beta1", _F64, float(self.betas[0])),
            StateSpec("beta2", _F64, float(self.betas[1])),
            StateSpec("eps", TensorType((), hyper_dtype(params)), float(self.eps)),
        )

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far, and the products of their betas."""
        return (
            StateSpec("step", _COUNT, 0.0),
            StateSpec("beta1_power", _F64, 1.0),
            StateSpec("beta2_power", _F64, 1.0),
        )

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

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The moments and their quotient, without the first one's bias correction."""
        name = param.label
        old1, old2 = slots["exp_avg"], slots["exp_avg_sq"]
        new1 = (old1 + scalars["fresh1"] * (direction - old1)).named(f"{name}_exp_avg_new")
        new2 = (scalars["beta2"] * old2 + scalars["fresh2"] * (direction * direction)).named(f"{name}_exp_avg_sq_new")
        updated = {"exp_avg": new1, "exp_avg_sq": new2}
        if self.amsgrad:
            new2 = ops.maximum(slots["max_exp_avg_sq"], new2).named(f"{name}_max_exp_avg_sq_new")
            updated["max_exp_avg_sq"] = new2
        return Quotient(new1, new2.sqrt() * scalars["correction"] + scalars["eps"]), updated

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The first moment's bias correction."""
        return scale.divided_by(scalars["bias"])


@dataclass(frozen=True)
class scale_by_learning_rate(Transform):  # noqa: N801
    """``d = lr * d``.

    Parameters
    ----------
    lr : float
        Hyperparameter ``lr``, at least 0.

    Raises
    ------
    InvalidValueError
        If it is negative or not finite.
    """

    lr: float

    def __post_init__(self) -> None:
        check_range("scale_by_learning_rate", "lr", self.lr)

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The scale times the learning rate."""
        return scale.times(scalars["lr"])


@dataclass(frozen=True)
class scale_by_schedule(Transform):  # noqa: N801
    """``d = schedule(t) * d`` at update ``t = 0, 1, ...``, computed in the step.

    ``chain(AdamW(1e-3), scale_by_schedule(lambda t: ops.minimum((t + 1) / 100, 1.0)))`` warms up for 100 updates; the
    learning rate, which can still be changed, is the factor's final value.

    Parameters
    ----------
    schedule : callable
        A function of a graph value, the number of updates so far as an f64 scalar, that returns a float scalar.

    Raises
    ------
    TypeRuleError
        If the schedule is not callable or returns something else.

    Notes
    -----
    State: ``count`` (i64).
    """

    schedule: Callable[[Value], Value]

    def __post_init__(self) -> None:
        if not callable(self.schedule):
            raise TypeRuleError(
                f"scale_by_schedule takes a function of the number of updates, got {described(self.schedule)}; use "
                "scale_by_learning_rate for a number"
            )

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (StateSpec("count", _COUNT, 0.0),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:  # noqa: ARG002
        """The schedule's value."""
        found = self._value(ops.cast(shared["count"], "f64"))
        return {"schedule": found.named("schedule")}, {"count": (shared["count"] + 1).named("count_new")}

    def factor(self, count: int) -> float:
        """The schedule's value after a number of updates."""
        return float(evaluated(self._graph, (np.array(count, np.float64),))[0])

    @cached_property
    def _graph(self) -> Function:
        count = param("count", (), "f64")
        return Function("schedule", (count,), (self._value(count),))

    def _value(self, count: Value) -> Value:
        found: object = self.schedule(count)
        if not isinstance(found, Value) or found.shape != () or not is_float(found.dtype):
            given = str(found.type) if isinstance(found, Value) else described(found)
            raise TypeRuleError(
                f"scale_by_schedule: the schedule must return a float scalar of the graph, got {given}; compute it "
                "from its argument with operators such as ops.cos"
            )
        return found

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """The scale times the schedule's value."""
        return scale.times(scalars["schedule"])


def checked_betas(owner: str, given: object) -> tuple[float, float]:
    """Two numbers that are at least 0 and below 1."""
    betas = tuple(given) if isinstance(given, Iterable) else ()
    if len(betas) != 2:
        raise InvalidValueError(f"{owner}: betas must be two numbers, got {given!r}; write betas=(0.9, 0.999)")
    for i, beta in enumerate(betas):
        check_range(owner, f"beta{i + 1}", beta, high=1.0)
    return betas
