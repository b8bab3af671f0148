"""Schedules within a compiled step: factors of the learning rate as functions of the number of updates so far.

``chain(AdamW(1e-3), scale_by_schedule(schedules.Warmup(100, schedules.Cosine(900))))``. A schedule is called with a
graph value, the number of updates before this one as an f64 scalar, and returns the factor. They are the formulas of
PyTorch's schedulers, divided by the initial rate (by the largest one for `OneCycle` and `Cyclic`); those of
`adjoint.optim.lr_scheduler` set the rates of optimizers that are bound to parameters. Several `scale_by_schedule` in
one chain multiply their factors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, pi

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value

__all__ = [
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Cyclic",
    "Exponential",
    "InverseSqrt",
    "Linear",
    "MultiStep",
    "OneCycle",
    "Piecewise",
    "Polynomial",
    "Schedule",
    "Sequential",
    "Step",
    "Warmup",
]

#: The most restarts of `CosineRestarts` that are distinguished; periods that double have passed any number of updates.
_MOST_RESTARTS = 48


@dataclass(frozen=True)
class Schedule:
    """Base class: a subclass defines ``__call__``, and says in `positive` which settings are numbers above 0."""

    def __post_init__(self) -> None:
        for name in self.positive():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
                raise InvalidValueError(f"{type(self).__name__}: {name} must be above 0 and finite, got {value!r}")

    def positive(self) -> tuple[str, ...]:
        """The settings that must be above 0; default: none."""
        return ()

    def __call__(self, t: Value) -> Value:
        """The factor at update `t`, counted from 0.

        Parameters
        ----------
        t : Value
            An f64 scalar.
        """
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Schedule):
    """`factor` for `total_iters` updates, then 1; `torch.optim.lr_scheduler.ConstantLR`."""

    factor: float = 1 / 3
    total_iters: int = 5

    def __call__(self, t: Value) -> Value:
        """The factor, or 1."""
        return ops.where(ops.less(t, self.total_iters), _number(t, self.factor), 1.0)


@dataclass(frozen=True)
class Linear(Schedule):
    """From `start_factor` to `end_factor` in `total_iters` updates; `torch.optim.lr_scheduler.LinearLR`."""

    start_factor: float = 1 / 3
    end_factor: float = 1.0
    total_iters: int = 5

    def positive(self) -> tuple[str, ...]:
        """The number of updates."""
        return ("total_iters",)

    def __call__(self, t: Value) -> Value:
        """The line, then its end."""
        done = ops.minimum(t, self.total_iters) / self.total_iters
        return self.start_factor + (self.end_factor - self.start_factor) * done


@dataclass(frozen=True)
class Step(Schedule):
    """`gamma` to the number of `step_size` updates done; `torch.optim.lr_scheduler.StepLR`."""

    step_size: int
    gamma: float = 0.1

    def positive(self) -> tuple[str, ...]:
        """Both."""
        return ("step_size", "gamma")

    def __call__(self, t: Value) -> Value:
        """The power."""
        return ops.power(_number(t, self.gamma), ops.floor(t / self.step_size))


@dataclass(frozen=True)
class MultiStep(Schedule):
    """`gamma` to the number of `milestones` passed; `torch.optim.lr_scheduler.MultiStepLR`."""

    milestones: tuple[int, ...]
    gamma: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "milestones", tuple(self.milestones))

    def __call__(self, t: Value) -> Value:
        """The product of the factors."""
        found = _number(t, 1.0)
        for milestone in self.milestones:
            found = found * ops.where(ops.greater_equal(t, milestone), _number(t, self.gamma), 1.0)
        return found


@dataclass(frozen=True)
class Exponential(Schedule):
    """``gamma ** t``; `torch.optim.lr_scheduler.ExponentialLR`."""

    gamma: float

    def positive(self) -> tuple[str, ...]:
        """The base."""
        return ("gamma",)

    def __call__(self, t: Value) -> Value:
        """The power."""
        return ops.power(_number(t, self.gamma), t)


@dataclass(frozen=True)
class Polynomial(Schedule):
    """``(1 - t / total_iters) ** power``, then 0; `torch.optim.lr_scheduler.PolynomialLR`."""

    total_iters: int = 5
    power: float = 1.0

    def positive(self) -> tuple[str, ...]:
        """Both."""
        return ("total_iters", "power")

    def __call__(self, t: Value) -> Value:
        """The power, at least 0."""
        left = 1.0 - ops.minimum(t, self.total_iters) / self.total_iters
        return left if self.power == 1.0 else ops.power(left, self.power)


@dataclass(frozen=True)
class Cosine(Schedule):
    """From 1 to `least` along half a cosine in `t_max` updates; `torch.optim.lr_scheduler.CosineAnnealingLR`.

    Loshchilov and Hutter (2017), "SGDR: stochastic gradient descent with warm restarts". Unlike PyTorch's, which goes
    up again, it stays at `least` afterwards.
    """

    t_max: int
    least: float = 0.0

    def positive(self) -> tuple[str, ...]:
        """The number of updates."""
        return ("t_max",)

    def __call__(self, t: Value) -> Value:
        """The cosine, then its end."""
        return _annealed(1.0, self.least, ops.minimum(t, self.t_max) / self.t_max)


@dataclass(frozen=True)
class CosineRestarts(Schedule):
    """A cosine that starts again after `t_0` updates; `torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`.

    Loshchilov and Hutter (2017), "SGDR: stochastic gradient descent with warm restarts". Each period is `t_mult` times
    as long as the one before.
    """

    t_0: int
    t_mult: int = 1
    least: float = 0.0

    def positive(self) -> tuple[str, ...]:
        """The period and its factor."""
        return ("t_0", "t_mult")

    def __call__(self, t: Value) -> Value:
        """The cosine of the current period."""
        if self.t_mult == 1:
            done = t / self.t_0
            return _annealed(1.0, self.least, done - ops.floor(done))
        start, period, length = _number(t, 0.0), _number(t, float(self.t_0)), float(self.t_0)
        reached = 0.0
        for _ in range(_MOST_RESTARTS):
            reached += length
            length *= self.t_mult
            passed = ops.greater_equal(t, reached)
            start, period = ops.where(passed, reached, start), ops.where(passed, length, period)
            if reached > 2.0**53:  # beyond the largest number of updates that f64 counts
                break
        return _annealed(1.0, self.least, (t - start) / period)


@dataclass(frozen=True)
class Warmup(Schedule):
    """``(t + 1) / steps`` for `steps` updates, then another schedule, which begins at 0 then; default: 1."""

    steps: int
    then: Schedule | None = None

    def positive(self) -> tuple[str, ...]:
        """The number of updates."""
        return ("steps",)

    def __call__(self, t: Value) -> Value:
        """The line, or the other schedule."""
        line = (t + 1.0) / self.steps
        later = _number(t, 1.0) if self.then is None else self.then(ops.maximum(t - self.steps, 0.0))
        return ops.where(ops.less(t, self.steps), line, later)


@dataclass(frozen=True)
class InverseSqrt(Schedule):
    """``min((t + 1) / warmup, sqrt(warmup / (t + 1)))``, which is 1 at the end of the warm-up.

    Vaswani et al. (2017), "Attention is all you need", section 5.3.
    """

    warmup: int

    def positive(self) -> tuple[str, ...]:
        """The number of updates."""
        return ("warmup",)

    def __call__(self, t: Value) -> Value:
        """The smaller of both."""
        step = t + 1.0
        return ops.minimum(step / self.warmup, ops.sqrt(self.warmup / step))


@dataclass(frozen=True)
class Piecewise(Schedule):
    """``values[i]`` from update ``boundaries[i - 1]`` on; there is one value more than boundaries."""

    boundaries: tuple[int, ...]
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "boundaries", tuple(self.boundaries))
        object.__setattr__(self, "values", tuple(self.values))
        _require_order("Piecewise", "boundaries", self.boundaries)
        if len(self.values) != len(self.boundaries) + 1:
            raise InvalidValueError(
                f"Piecewise: values must be one more than boundaries, got {len(self.values)} and "
                f"{len(self.boundaries)}; add the value before the first boundary"
            )

    def __call__(self, t: Value) -> Value:
        """The value of the current piece."""
        found = _number(t, self.values[0])
        for boundary, value in zip(self.boundaries, self.values[1:], strict=True):
            found = ops.where(ops.greater_equal(t, boundary), value, found)
        return found


@dataclass(frozen=True)
class Sequential(Schedule):
    """``schedules[i]`` from update ``milestones[i - 1]`` on, which it counts as 0; like PyTorch's ``SequentialLR``."""

    schedules: tuple[Schedule, ...]
    milestones: tuple[int, ...]

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "schedules", tuple(self.schedules))
        object.__setattr__(self, "milestones", tuple(self.milestones))
        _require_order("Sequential", "milestones", self.milestones)
        if len(self.schedules) != len(self.milestones) + 1:
            raise InvalidValueError(
                f"Sequential: schedules must be one more than milestones, got {len(self.schedules)} and "
                f"{len(self.milestones)}; add the schedule before the first milestone"
            )

    def __call__(self, t: Value) -> Value:
        """The value of the current schedule."""
        found = self.schedules[0](t)
        for milestone, schedule in zip(self.milestones, self.schedules[1:], strict=True):
            later = schedule(ops.maximum(t - milestone, 0.0))
            found = ops.where(ops.greater_equal(t, milestone), later, found)
        return found


@dataclass(frozen=True)
class OneCycle(Schedule):
    """Up to 1 and down again, as a share of the largest rate; `torch.optim.lr_scheduler.OneCycleLR`.

    Smith and Topin (2019), "Super-convergence: very fast training of neural networks using large learning rates". The
    optimizer's rate is the largest one, ``max_lr``; it stays at the last one after `total_steps`. Momentum does not
    change.

    Parameters
    ----------
    total_steps : int
        The number of updates of the cycle.
    pct_start : float, default 0.3
        The share of the cycle in which the rate increases.
    linear : bool, default False
        Along lines instead of cosines.
    div_factor : float, default 25.0
        The first factor is ``1 / div_factor``.
    final_div_factor : float, default 1e4
        The last factor is the first divided by this.
    three_phase : bool, default False
        Down to the first factor in as many steps as up, then to the last.
    """

    total_steps: int
    pct_start: float = 0.3
    linear: bool = False
    div_factor: float = 25.0
    final_div_factor: float = 1e4
    three_phase: bool = False

    def positive(self) -> tuple[str, ...]:
        """All numbers."""
        return ("total_steps", "pct_start", "div_factor", "final_div_factor")

    def __call__(self, t: Value) -> Value:
        """The factor on the way between the ends of a phase."""
        first, peak = 1.0 / self.div_factor, self.pct_start * self.total_steps - 1
        ends = [0.0, peak, *([2 * peak] if self.three_phase else []), self.total_steps - 1.0]
        values = [first, 1.0, *([first] if self.three_phase else []), first / self.final_div_factor]
        way = _line if self.linear else _annealed
        found: Value | None = None
        for (start, end), (before, after) in zip(pairwise(ends), pairwise(values), strict=True):
            done = ops.minimum(ops.maximum((t - start) / (end - start), 0.0), 1.0) if end > start else _number(t, 1.0)
            here = way(before, after, done)
            found = here if found is None else ops.where(ops.greater(t, start), here, found)
        assert found is not None
        return found


@dataclass(frozen=True)
class Cyclic(Schedule):
    """From `low` to 1 and back again and again, along lines; `torch.optim.lr_scheduler.CyclicLR`.

    Smith (2017), "Cyclical learning rates for training neural networks". The optimizer's rate is the largest one,
    ``max_lr``, and `low` is ``base_lr / max_lr``.

    Parameters
    ----------
    low : float
        The smallest factor.
    step_size_up : int, default 2000
        The number of updates from `low` to 1.
    step_size_down : int, optional
        The number of updates back; default: as many.
    mode : {"triangular", "triangular2", "exp_range"}, default "triangular"
        Whether the height above `low` stays, is halved after each cycle, or is multiplied by ``gamma ** t``.
    gamma : float, default 1.0
        See `mode`.
    """

    low: float
    step_size_up: int = 2000
    step_size_down: int | None = None
    mode: str = "triangular"
    gamma: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.mode not in ("triangular", "triangular2", "exp_range"):
            raise InvalidValueError(
                f"Cyclic: mode must be 'triangular', 'triangular2' or 'exp_range', got {self.mode!r}"
            )

    def positive(self) -> tuple[str, ...]:
        """The numbers of updates, and the base."""
        return ("step_size_up", "gamma", *(["step_size_down"] if self.step_size_down is not None else []))

    def __call__(self, t: Value) -> Value:
        """The factor on the way up or down."""
        up = float(self.step_size_up)
        down = up if self.step_size_down is None else float(self.step_size_down)
        cycle = ops.floor(t / (up + down))
        here = t - cycle * (up + down)
        height = ops.where(ops.less_equal(here, up), here / up, (up + down - here) / down)
        if self.mode == "triangular2":
            height = height * ops.power(_number(t, 0.5), cycle)
        if self.mode == "exp_range":
            height = height * ops.power(_number(t, self.gamma), t)
        return self.low + (1.0 - self.low) * height


def _number(t: Value, number: float) -> Value:
    """A number as a graph value of the type of the count."""
    return ops.full_like(t, number)


def _line(start: float, end: float, done: Value) -> Value:
    """The value on a line."""
    return start + (end - start) * done


def _annealed(start: float, end: float, done: Value) -> Value:
    """The value on half a cosine."""
    return end + (start - end) * 0.5 * (1.0 + ops.cos(done * pi))


def _require_order(owner: str, name: str, given: Sequence[int]) -> None:
    if any(a >= b for a, b in pairwise(given)):
        raise InvalidValueError(f"{owner}: {name} must increase, got {tuple(given)}; sort them")
