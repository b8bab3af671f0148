"""Schedules that are formulas of the number of updates, and those that are made of others."""

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.schedules.base import Schedule, number, require_order

__all__ = [
    "Constant",
    "Exponential",
    "InverseSqrt",
    "Linear",
    "MultiStep",
    "Piecewise",
    "Polynomial",
    "Sequential",
    "Step",
    "Warmup",
]


@dataclass(frozen=True)
class Constant(Schedule):
    """`factor` for `total_iters` updates, then 1; `torch.optim.lr_scheduler.ConstantLR`."""

    factor: float = 1 / 3
    total_iters: int = 5

    def __call__(self, t: Value) -> Value:
        """The factor, or 1."""
        return ops.where(ops.less(t, self.total_iters), number(t, self.factor), 1.0)


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
        return ops.power(number(t, self.gamma), ops.floor(t / self.step_size))


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
        found = number(t, 1.0)
        for milestone in self.milestones:
            found = found * ops.where(ops.greater_equal(t, milestone), number(t, self.gamma), 1.0)
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
        return ops.power(number(t, self.gamma), t)


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
class Warmup(Schedule):
    """``(t + 1) / steps`` for `steps` updates, then another schedule, which begins at 0 then; default: 1."""

    steps: int
    then: Schedule | None = None

    def positive(self) -> tuple[str, ...]:
        """The number of updates."""
        return ("steps",)

    def __call__(self, t: Value) -> Value:
        """The line, or the other schedule."""
        rising = (t + 1.0) / self.steps
        later = number(t, 1.0) if self.then is None else self.then(ops.maximum(t - self.steps, 0.0))
        return ops.where(ops.less(t, self.steps), rising, later)


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
        require_order("Piecewise", "boundaries", self.boundaries)
        if len(self.values) != len(self.boundaries) + 1:
            raise InvalidValueError(
                f"Piecewise: values must be one more than boundaries, got {len(self.values)} and "
                f"{len(self.boundaries)}; add the value before the first boundary"
            )

    def __call__(self, t: Value) -> Value:
        """The value of the current piece."""
        found = number(t, self.values[0])
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
        require_order("Sequential", "milestones", self.milestones)
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
