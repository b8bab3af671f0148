"""Optimizers with Keras' formulas and defaults, and learning rates that follow a schedule."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint import optim as native
from adjoint.compat.tensorflow.gradients import Recording
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError, NameLookupError, kind_of
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.nn.utils import clip_grad_norm_, clip_grad_value_
from adjoint.optim import schedules as native_schedules
from adjoint.optim.base import StateSpec, Values
from adjoint.tensor.tensor import Tensor

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop", "get", "schedules"]
__getattr__ = uncovered(__name__, {}, "adjoint.optim")

_COUNT = TensorType((), np.dtype(np.int64))


@dataclass(frozen=True)
class _Adam(native.Optimizer):
    """Kingma and Ba (2015), in the order of the end of its section 2: eps is added before the bias is corrected.

    ``p -= lr * sqrt(1 - beta2**t) / (1 - beta1**t) * m / (sqrt(v) + eps)``
    """

    slot_names: ClassVar[tuple[str, ...]] = ("m", "v")
    lr: float = 1e-3
    beta1: float = 0.9
    beta2: float = 0.999
    eps: float = 1e-7
    decay: float = 0.0

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The hyperparameters, without decay if it is 0."""
        return tuple(spec for spec in super().hyper(params) if spec.name != "decay" or self.decay)

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (StateSpec("count", _COUNT, 0.0),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The corrected learning rate."""
        t = ops.cast(shared["count"] + 1, "f64")
        b1, b2, lr = (ops.cast(hyper[name], "f64") for name in ("beta1", "beta2", "lr"))
        step = lr * ops.sqrt(1.0 - ops.power(b2, t)) / (1.0 - ops.power(b1, t))
        scalars = {"step": step, "beta1": hyper["beta1"], "beta2": hyper["beta2"], "eps": hyper["eps"]}
        if self.decay:
            scalars["kept"] = 1.0 - lr * ops.cast(hyper["decay"], "f64")
        return scalars, {"count": shared["count"] + 1}

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """The update of one parameter."""
        m = slots["m"] + (grad - slots["m"]) * (1.0 - scalars["beta1"])
        v = slots["v"] + (ops.square(grad) - slots["v"]) * (1.0 - scalars["beta2"])
        param = param * scalars["kept"] if self.decay else param
        return param - scalars["step"] * m / (ops.sqrt(v) + scalars["eps"]), {"m": m, "v": v}


@dataclass(frozen=True)
class _RMSprop(native.Optimizer):
    """``v = rho * v + (1 - rho) * g * g``, ``p -= lr * g / sqrt(v + eps)``."""

    slot_names: ClassVar[tuple[str, ...]] = ("v",)
    lr: float = 1e-3
    rho: float = 0.9
    eps: float = 1e-7

    def update(self, param: Value, grad: Value, slots: Values, scalars: Values) -> tuple[Value, dict[str, Value]]:
        """The update of one parameter."""
        v = scalars["rho"] * slots["v"] + (1.0 - scalars["rho"]) * ops.square(grad)
        return param - scalars["lr"] * grad * ops.rsqrt(v + scalars["eps"]), {"v": v}


class Optimizer:
    """An optimizer that is bound to the weights that it is first given.

    Parameters
    ----------
    native_of : callable
        Makes the optimizer of adjoint, of a rate; the second argument says whether a schedule follows it.
    learning_rate : float or schedule
        The learning rate.
    clipnorm, clipvalue, global_clipnorm : float, optional
        Limits of the gradients: the norm of each, their elements, the norm of all together.
    """

    def __init__(
        self, native_of: Callable[[float, bool], native.Optimizer], learning_rate: Any, clipnorm: float | None = None,
        clipvalue: float | None = None, global_clipnorm: float | None = None, name: str | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        if settings:
            raise InvalidValueError(f"{type(self).__name__} does not take {', '.join(settings)}; leave it out")
        self.name = name or type(self).__name__.lower()
        self._rate = learning_rate
        rate = learning_rate.initial if isinstance(learning_rate, _Schedule) else float(learning_rate)
        scheduled = isinstance(learning_rate, _Schedule)
        made = native_of(rate, scheduled)
        if scheduled:
            made = native.chain(made, native.scale_by_schedule(learning_rate.factor))
        self.unbound = made
        self.bound: Any = None
        self._limits = clipnorm, clipvalue, global_clipnorm

    def build(self, variables: Iterable[Tensor]) -> None:
        """Bind it to weights."""
        if self.bound is None:
            self.bound = self.unbound.bind(list(variables))

    def clip(self, tensors: list[Tensor]) -> None:
        """Limit the gradients."""
        norm, value, together = self._limits
        if norm is not None:
            for one in tensors:
                clip_grad_norm_([one], norm)
        if value is not None:
            clip_grad_value_(tensors, value)
        if together is not None:
            clip_grad_norm_(tensors, together)

    def apply_gradients(self, grads_and_vars: Iterable[tuple[Any, Tensor]], **_: Any) -> None:
        """Update weights with their gradients; those without one stay as they are."""
        pairs = list(grads_and_vars)
        self.build(one for _, one in pairs)
        for grad, one in pairs:
            one.grad = grad.detach() if isinstance(grad, Tensor) else grad
        self.clip([one for _, one in pairs if one.grad is not None])
        self.bound.step()
        for _, one in pairs:
            one.grad = None

    apply = apply_gradients

    def minimize(self, loss: Callable[[], Tensor], var_list: list[Tensor]) -> None:
        """One step on the loss that a function computes."""
        with Recording():
            value = loss()
        value.backward()
        self.apply_gradients([(one.grad, one) for one in var_list])

    @property
    def learning_rate(self) -> Any:
        """The learning rate."""
        return self._rate if self.bound is None else self.bound.param_groups[0]["lr"]

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._rate = float(value)
        if self.bound is not None:
            for group in self.bound.param_groups:
                group["lr"] = float(value)
        else:
            raise InvalidValueError(
                "learning_rate is set after the first step, got it before; pass it to the optimizer"
            )

    lr = learning_rate


class SGD(Optimizer):
    """Stochastic gradient descent with momentum."""

    def __init__(
        self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False,
        weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        if weight_decay:
            raise InvalidValueError(f"SGD: weight_decay must be None, got {weight_decay}; use AdamW")
        super().__init__(lambda lr, _: native.SGD(lr, momentum, nesterov=nesterov), learning_rate, **settings)


class Adam(Optimizer):
    """Adam; `epsilon` is added as Keras does."""

    def __init__(
        self, learning_rate: Any = 0.001, beta_1: float = 0.9, beta_2: float = 0.999, epsilon: float = 1e-7,
        amsgrad: bool = False, weight_decay: float | None = None, **settings: Any,
    ) -> None:  # fmt: skip
        if amsgrad:
            raise InvalidValueError("Adam: amsgrad must be False, got True; use adjoint.optim.Adam(amsgrad=True)")
        decay = weight_decay or 0.0

        def made(lr: float, scheduled: bool) -> native.Optimizer:
            # A schedule follows a chain: then epsilon is added as PyTorch does.
            if scheduled:
                return native.AdamW(lr, (beta_1, beta_2), epsilon, decay)
            return _Adam(lr, beta_1, beta_2, epsilon, decay)

        super().__init__(made, learning_rate, **settings)


class AdamW(Adam):
    """Adam with decoupled weight decay."""

    def __init__(self, learning_rate: Any = 0.001, weight_decay: float = 0.004, **settings: Any) -> None:
        super().__init__(learning_rate, weight_decay=weight_decay, **settings)


class RMSprop(Optimizer):
    """Division by the root of a running mean of squares."""

    def __init__(
        self, learning_rate: Any = 0.001, rho: float = 0.9, momentum: float = 0.0, epsilon: float = 1e-7,
        centered: bool = False, **settings: Any,
    ) -> None:  # fmt: skip
        if momentum or centered:
            raise InvalidValueError("RMSprop takes no momentum and is not centered here, got one; use adjoint.optim")

        def made(lr: float, scheduled: bool) -> native.Optimizer:
            return native.RMSprop(lr, rho, epsilon) if scheduled else _RMSprop(lr, rho, epsilon)

        super().__init__(made, learning_rate, **settings)


class Adagrad(Optimizer):
    """Division by the root of the sum of squares."""

    def __init__(
        self, learning_rate: Any = 0.001, initial_accumulator_value: float = 0.1, epsilon: float = 1e-7,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            lambda lr, _: native.Adagrad(lr, initial_accumulator_value=initial_accumulator_value, eps=epsilon),
            learning_rate, **settings,
        )  # fmt: skip


class _Schedule:
    """A learning rate that changes with the number of updates: a first one, and the factor of it."""

    def __init__(self, initial: float, factor: Callable[[Value], Value]) -> None:
        self.initial, self.factor = float(initial), factor


class schedules:  # noqa: N801
    """``tf.keras.optimizers.schedules``."""

    @staticmethod
    def ExponentialDecay(  # noqa: N802
        initial_learning_rate: float, decay_steps: int, decay_rate: float, staircase: bool = False
    ) -> _Schedule:
        """``rate * decay_rate ** (t / decay_steps)``."""

        def factor(t: Value) -> Value:
            place = t / float(decay_steps)
            return ops.power(decay_rate, ops.floor(place) if staircase else place)

        return _Schedule(initial_learning_rate, factor)

    @staticmethod
    def CosineDecay(initial_learning_rate: float, decay_steps: int, alpha: float = 0.0) -> _Schedule:  # noqa: N802
        """Half a cosine, to ``alpha`` times the rate."""
        cosine = native_schedules.Cosine(decay_steps)
        return _Schedule(initial_learning_rate, lambda t: cosine(t) * (1.0 - alpha) + alpha)


_BY_NAME: dict[str, Callable[[], Optimizer]] = {
    "sgd": SGD, "adam": Adam, "adamw": AdamW, "rmsprop": RMSprop, "adagrad": Adagrad,
}  # fmt: skip


def get(identifier: Any) -> Optimizer:
    """The optimizer of a name; objects are returned as they are."""
    if isinstance(identifier, Optimizer):
        return identifier
    if not isinstance(identifier, str) or identifier.lower() not in _BY_NAME:
        given = repr(identifier) if isinstance(identifier, str) else kind_of(identifier)
        raise NameLookupError(
            f"an optimizer must be one of {', '.join(_BY_NAME)} or an object, got {given}; choose one"
        )
    return _BY_NAME[identifier.lower()]()
