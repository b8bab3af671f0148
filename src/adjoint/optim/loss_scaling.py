"""`scale_loss`: keeps the gradients of half floats away from zero within a trainer's step."""

from collections.abc import Hashable, Mapping
from math import inf
from typing import Any, ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_grads, check_range
from adjoint.optim.norms import wide
from adjoint.optim.wrappers import Around, all_finite, chosen

__all__ = ["next_scale", "scale_loss"]


@dataclass(frozen=True)
class scale_loss(Around):  # noqa: N801
    """An optimizer for gradients of a loss that is multiplied by a scale; `SetupTrainer` multiplies it.

    The gradients are divided by the scale before the optimizer gets them. A step in which one of them has an infinity
    or NaN changes no parameter and multiplies the scale by `backoff_factor`; after `growth_interval` steps without, it
    is multiplied by `growth_factor`. All of this happens within the compiled step. Micikevicius et al. (2018), "Mixed
    precision training".

    Parameters
    ----------
    optimizer : Optimizer
        What updates the parameters.
    init_scale : float, default 65536.0
        The initial scale, above 0.
    growth_factor : float, default 2.0
        Above 1.
    backoff_factor : float, default 0.5
        Above 0 and below 1.
    growth_interval : int, optional, default 2000
        The number of consecutive steps with finite gradients; None for a scale that stays as it is.

    Raises
    ------
    TypeRuleError
        If the optimizer is something else.
    InvalidValueError
        If a number is out of range.

    Notes
    -----
    State: that of the optimizer, then ``loss_scale`` (f32), and ``growth_tracker`` (i32), the number of steps since the
    last change of the scale. The scale of an f16 loss is limited by that dtype, whose largest number is 65504; a loss
    is f32 with `mixed_precision`.
    """

    #: The state that the loss is multiplied by.
    SCALE: ClassVar[str] = "loss_scale"
    _TRACKER: ClassVar[str] = "growth_tracker"
    init_scale: float = 65536.0
    growth_factor: float = 2.0
    backoff_factor: float = 0.5
    growth_interval: int | None = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        check_range("scale_loss", "init_scale", self.init_scale)
        if not self.init_scale > 0.0:
            raise InvalidValueError(f"scale_loss: init_scale must be above 0, got {self.init_scale}")
        if not 1.0 < self.growth_factor < inf:
            raise InvalidValueError(f"scale_loss: growth_factor must be finite and above 1, got {self.growth_factor}")
        if not 0.0 < self.backoff_factor < 1.0:
            raise InvalidValueError(
                f"scale_loss: backoff_factor must be above 0 and below 1, got {self.backoff_factor}"
            )
        interval = self.growth_interval
        if interval is not None and (type(interval) is not int or interval < 1):
            raise InvalidValueError(f"scale_loss: growth_interval must be an int of at least 1, got {interval!r}")

    def structure(self) -> Hashable:
        """With the factors, which are part of the graph."""
        return (super().structure(), self.growth_factor, self.backoff_factor, self.growth_interval)

    def options(self) -> dict[str, Any]:
        """None: an optimizer that is bound to parameters does not compute the loss."""
        raise InvalidValueError(
            "scale_loss is for the step of SetupTrainer, got parameters to bind it to; use amp.GradScaler"
        )

    def elementwise(self) -> bool:
        """Whether the update of a parameter depends on its own gradient alone: no."""
        return False

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The state of the optimizer, the scale and the count."""
        scale = StateSpec(self.SCALE, TensorType((), DTYPES["f32"]), float(self.init_scale))
        return (*self.optimizer.init(params), scale, StateSpec(self._TRACKER, TensorType((), DTYPES["i32"]), 0.0))

    def apply(
        self, params: Values, grads: Values, state: Values, hyper: Values
    ) -> tuple[dict[str, Value], dict[str, Value]]:
        """The optimizer's update with the unscaled gradients, or what was there before."""
        check_grads(params, grads)
        scale, tracker = state[self.SCALE], state[self._TRACKER]
        finite = all_finite([grads[name] for name in params]).named("finite")
        inverse = 1.0 / scale
        plain = {}
        for name in params:
            wider = wide(grads[name])
            plain[name] = ops.cast(wider * ops.cast(inverse, wider.dtype), grads[name].dtype)
        inner = {name: value for name, value in state.items() if name not in (self.SCALE, self._TRACKER)}
        new_params, new_state = self.optimizer.apply(params, plain, inner, hyper)
        new_scale, new_tracker = scale, tracker
        if self.growth_interval is not None:
            factors = (float(self.growth_factor), float(self.backoff_factor), self.growth_interval)
            new_scale, new_tracker = next_scale(ops.logical_not(finite), scale, tracker, *factors)
        kept = {**chosen(finite, new_state, state), self.SCALE: new_scale, self._TRACKER: new_tracker}
        return chosen(finite, new_params, params), kept


def next_scale(
    found: Value, scale: Value, tracker: Value, growth: float, backoff: float, interval: int
) -> tuple[Value, Value]:
    """The next scale of losses, and the number of steps since the last change of it.

    Parameters
    ----------
    found : Value
        A bool scalar: whether a gradient has an infinity or NaN.
    scale, tracker : Value
        The scale, and the number of steps since its last change.
    growth, backoff : float
        The factors after `interval` clean steps, and after one that is not.
    interval : int
        See `growth`.
    """
    count = tracker + 1
    grows = ops.equal(count, interval)
    larger = scale * growth
    # A scale that has become infinite would never come back.
    grown = ops.where(ops.logical_and(grows, ops.less(larger, inf)), larger, scale)
    zero = ops.full_like(tracker, 0)
    return (
        ops.where(found, scale * backoff, grown).named("scale_new"),
        ops.where(ops.logical_or(found, grows), zero, count).named("growth_tracker_new"),
    )
