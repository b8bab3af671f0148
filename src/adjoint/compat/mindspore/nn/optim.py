"""`mindspore.nn.optim`: chains of adjoint's transforms with MindSpore's arguments and defaults."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint import optim as native
from adjoint.compat.mindspore.common.parameter import ParameterTuple
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values
from adjoint.optim.bindable import Binding
from adjoint.optim.bound import Bound
from adjoint.optim.chaining import Chain
from adjoint.optim.transform import Transform
from adjoint.tensor.tensor import Tensor

__all__ = [
    "SGD",
    "AdaMax",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamWeightDecay",
    "Lamb",
    "Momentum",
    "Optimizer",
    "RMSProp",
]


@dataclass(frozen=True)
class _Divide(Transform):
    """``d = d / loss_scale``."""

    loss_scale: float

    def update(self, param: Value, direction: Value, slots: Any, scalars: Any) -> tuple[Any, dict[str, Value]]:  # noqa: ARG002
        """The gradient of the loss itself."""
        return direction / scalars["loss_scale"], {}


class _Adam(native.scale_by_adam):
    """Adam's quotient with ``eps`` added before the second moment's bias is corrected, as MindSpore does."""

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The scalars, with the correction in ``eps`` as well."""
        scalars, new = super().prepare(hyper, shared)
        return scalars | {"eps": scalars["eps"] * ops.cast(scalars["correction"], scalars["eps"].dtype)}, new


@dataclass(frozen=True)
class _PlainAdam(Transform):
    """``d = m / (sqrt(v) + eps) + weight_decay * p``, Adam's quotient without corrections of the bias."""

    slot_names: ClassVar[tuple[str, ...]] = ("m", "v")
    beta1: float
    beta2: float
    eps: float

    def update(self, param: Value, direction: Value, slots: Any, scalars: Any) -> tuple[Any, dict[str, Value]]:  # noqa: ARG002
        """The moments and their quotient."""
        m = slots["m"] * scalars["beta1"] + direction * (1.0 - scalars["beta1"])
        v = slots["v"] * scalars["beta2"] + direction * direction * (1.0 - scalars["beta2"])
        return m / (v.sqrt() + scalars["eps"]), {"m": m, "v": v}


@dataclass(frozen=True)
class _RootMeanSquare(Transform):
    """``d = d / sqrt(v - a * a + eps)``, where ``a``, the mean, is only there if `centered`."""

    decay: float
    epsilon: float
    centered: bool

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """Ones for the mean square, zeros for the mean."""
        found = super().init(params)
        return tuple(replace(spec, initial=1.0) if spec.name.endswith("_ms") else spec for spec in found)

    def slots(self) -> tuple[str, ...]:
        """The mean square, and the mean."""
        return ("ms", "mg") if self.centered else ("ms",)

    def update(self, param: Value, direction: Value, slots: Any, scalars: Any) -> tuple[Any, dict[str, Value]]:  # noqa: ARG002
        """The quotient."""
        fresh = 1.0 - scalars["decay"]
        new = {"ms": slots["ms"] * scalars["decay"] + direction * direction * fresh}
        square = new["ms"]
        if self.centered:
            new["mg"] = slots["mg"] * scalars["decay"] + direction * fresh
            square = square - new["mg"] * new["mg"]
        return direction / (square + scalars["epsilon"]).sqrt(), new


class _Groups(Binding):
    """Binds an optimizer to parameters or groups of them, in MindSpore's form."""

    def __call__(cls, params: Any, *args: Any, **options: Any) -> Any:  # noqa: N805
        items = [params] if isinstance(params, Tensor) else list(params)
        if not items:
            raise InvalidValueError(f"{cls.__name__}: at least one parameter is required, got none")
        ordered = [item for item in items if isinstance(item, Mapping) and "order_params" in item]
        items = [item for item in items if not (isinstance(item, Mapping) and "order_params" in item)]
        made: Any = object.__new__(cls)  # type: ignore[arg-type]
        object.__setattr__(made, "_decays", any(isinstance(x, Mapping) and x.get("weight_decay") for x in items))
        made.__init__(*args, **options)
        members = [p for item in items for p in (item["params"] if isinstance(item, Mapping) else [item])]
        wanted = list(ordered[0]["order_params"]) if ordered else members
        object.__setattr__(made, "parameters", ParameterTuple(wanted))
        object.__setattr__(made, "_bound", Bound(made, _groups(made, items), {}))
        return made


class Optimizer(Chain, metaclass=_Groups):
    """What MindSpore's optimizers share: a chain of transforms that is called with gradients.

    Parameters
    ----------
    learning_rate : float, Tensor, list of float, or LearningRateSchedule
        A list has a number for every update; the last one holds afterwards.
    parts : sequence of Transform
        What is done with the gradients before they are multiplied by it.
    weight_decay : float
        Added to gradients, times the parameter; not for those called ``beta`` or ``gamma``.
    loss_scale : float
        What gradients are divided by.
    """

    parameters: ParameterTuple
    _decays: bool

    def __init__(
        self,
        learning_rate: Any,
        parts: Sequence[Transform] = (),
        weight_decay: float = 0.0,
        loss_scale: float = 1.0,
        decoupled: bool = False,
    ) -> None:
        decay = [native.add_decayed_weights(weight_decay)] if weight_decay or self._decays else []
        super().__init__(
            *([_Divide(float(loss_scale))] if loss_scale != 1.0 else []),
            *([] if decoupled else decay),
            *parts,
            *(decay if decoupled else []),
            *_rate(type(self).__name__, learning_rate),
        )

    def __call__(self, gradients: Iterable[Any]) -> bool:
        """Update the parameters with gradients in their order.

        Returns
        -------
        bool
            True, for `ops.depend`.
        """
        given = tuple(gradients)
        if len(given) != len(self.parameters):
            raise InvalidValueError(
                f"{type(self).__name__}: there must be a gradient for each of {len(self.parameters)} parameters, got "
                f"{len(given)}; differentiate with respect to optimizer.parameters"
            )
        for parameter, gradient in zip(self.parameters, given, strict=True):
            parameter.grad = gradient
        self.step()
        self.zero_grad()
        return True

    def get_lr(self) -> Any:
        """The learning rate of the first group."""
        return self.param_groups[0].get("lr")


def _rate(owner: str, given: Any) -> list[Transform]:
    """The transforms that multiply by a learning rate."""
    if isinstance(given, Tensor):
        given = given.tolist()
    if isinstance(given, int | float) and not isinstance(given, bool):
        return [native.scale_by_learning_rate(float(given))]
    if callable(given):
        schedule: Callable[[Value], Value] = lambda t: ops.cast(given(t), "f64")  # noqa: E731
    elif isinstance(given, Iterable):
        table = np.asarray(list(given), np.float64)

        def schedule(t: Value) -> Value:
            """The number of the update."""
            place = ops.cast(ops.minimum(t, ops.full_like(t, len(table) - 1)), DTYPES["i64"])
            return ops.take(ops.constant(table), place)
    else:
        raise TypeRuleError(
            f"{owner}: learning_rate must be a number, a list of numbers or a LearningRateSchedule, got "
            f"{kind_of(given)}; pass one"
        )
    return [native.scale_by_learning_rate(1.0), native.scale_by_schedule(schedule)]


def _groups(made: Optimizer, items: Sequence[Any]) -> list[Any]:
    """The groups of parameters, those without decay in one of their own."""
    if isinstance(items[0], Mapping):
        return [
            {
                "params": list(item["params"]),
                **({"lr": float(item["lr"])} if "lr" in item else {}),
                **({"weight_decay": item["weight_decay"]} if "weight_decay" in item else {}),
            }
            for item in items
        ]
    names = [getattr(p, "name", "") for p in items]
    bare = [p for p, name in zip(items, names, strict=True) if "beta" in name or "gamma" in name]
    if "weight_decay" not in made.options() or not bare:
        return list(items)
    rest = [p for p, name in zip(items, names, strict=True) if "beta" not in name and "gamma" not in name]
    return [*([{"params": rest}] if rest else []), {"params": bare, "weight_decay": 0.0}]


class Momentum(Optimizer):
    """``Momentum(params, learning_rate, momentum, weight_decay=0.0, loss_scale=1.0, use_nesterov=False)``."""

    def __init__(
        self, learning_rate: Any, momentum: float, weight_decay: float = 0.0, loss_scale: float = 1.0,
        use_nesterov: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(
            learning_rate, [native.trace(momentum, nesterov=use_nesterov)] if momentum else [], weight_decay, loss_scale
        )


class SGD(Optimizer):
    """``SGD(params, learning_rate=0.1, momentum=0.0, dampening=0.0, weight_decay=0.0, nesterov=False)``."""

    def __init__(
        self, learning_rate: Any = 0.1, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0,
        nesterov: bool = False, loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        parts = [native.trace(momentum, dampening, nesterov)] if momentum else []
        super().__init__(learning_rate, parts, weight_decay, loss_scale)


class Adam(Optimizer):
    """``Adam(params, learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-8)``."""

    def __init__(
        self, learning_rate: Any = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
        use_locking: bool = False, use_nesterov: bool = False, weight_decay: float = 0.0, loss_scale: float = 1.0,
        use_amsgrad: bool = False,
    ) -> None:  # fmt: skip
        if use_nesterov or use_locking:
            raise InvalidValueError("Adam: use_nesterov and use_locking are not covered; use adjoint.optim.NAdam")
        parts = [_Adam((beta1, beta2), eps, use_amsgrad)]
        super().__init__(learning_rate, parts, weight_decay, loss_scale)


class AdamWeightDecay(Optimizer):
    """``AdamWeightDecay(params, learning_rate=1e-3, beta1=0.9, beta2=0.999, eps=1e-6)``, without corrected bias."""

    def __init__(
        self, learning_rate: Any = 1e-3, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6,
        weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, [_PlainAdam(beta1, beta2, eps)], weight_decay, decoupled=True)


class RMSProp(Optimizer):
    """``RMSProp(params, learning_rate=0.1, decay=0.9, momentum=0.0, epsilon=1e-10)``."""

    def __init__(
        self, learning_rate: Any = 0.1, decay: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-10,
        use_locking: bool = False, centered: bool = False, loss_scale: float = 1.0, weight_decay: float = 0.0,  # noqa: ARG002
    ) -> None:  # fmt: skip
        parts: list[Transform] = [_RootMeanSquare(decay, epsilon, centered)]
        super().__init__(
            learning_rate, [*parts, *([native.trace(momentum)] if momentum else [])], weight_decay, loss_scale
        )


class Adagrad(Optimizer):
    """``Adagrad(params, accum=0.1, learning_rate=0.001)``."""

    def __init__(
        self, accum: float = 0.1, learning_rate: Any = 0.001, update_slots: bool = True, loss_scale: float = 1.0,  # noqa: ARG002
        weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        parts = [native.scale_by_adagrad(initial_accumulator_value=accum, eps=0.0)]
        super().__init__(learning_rate, parts, weight_decay, loss_scale)


class Adadelta(Optimizer):
    """``Adadelta(params, learning_rate=1.0, rho=0.9, epsilon=1e-6)``."""

    def __init__(
        self, learning_rate: Any = 1.0, rho: float = 0.9, epsilon: float = 1e-6, loss_scale: float = 1.0,
        weight_decay: float = 0.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, [native.scale_by_adadelta(rho, epsilon)], weight_decay, loss_scale)


class AdaMax(Optimizer):
    """``AdaMax(params, learning_rate=0.001, beta1=0.9, beta2=0.999, eps=1e-8)``."""

    def __init__(
        self, learning_rate: Any = 0.001, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-8,
        weight_decay: float = 0.0, loss_scale: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(learning_rate, [native.scale_by_adamax((beta1, beta2), eps)], weight_decay, loss_scale)


class Lamb(Optimizer):
    """``Lamb(params, learning_rate, beta1=0.9, beta2=0.999, eps=1e-6, weight_decay=0.0)``."""

    def __init__(
        self, learning_rate: Any, beta1: float = 0.9, beta2: float = 0.999, eps: float = 1e-6, weight_decay: float = 0.0
    ) -> None:
        decay = [native.add_decayed_weights(weight_decay)] if weight_decay or self._decays else []
        parts = [native.scale_by_adam((beta1, beta2), eps), *decay, native.scale_by_trust_ratio()]
        object.__setattr__(self, "_decays", False)  # it is among the parts already
        super().__init__(learning_rate, parts)


__getattr__ = uncovered(
    __name__,
    {
        "FTRL": "use another optimizer of adjoint.optim",
        "LazyAdam": "use nn.Adam: gradients are dense",
        "LARS": "use adjoint.optim.LARS",
        "thor": "use adjoint.optim.Muon",
    },
    "adjoint.optim",
)
