"""Schedules along cosines and in cycles."""

from itertools import pairwise

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.schedules.base import Schedule, annealed, line, number

__all__ = ["Cosine", "CosineRestarts", "Cyclic", "OneCycle"]

#: The most restarts of `CosineRestarts` that are distinguished; periods that double have passed any number of updates.
_MOST_RESTARTS = 48


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
        return annealed(1.0, self.least, ops.minimum(t, self.t_max) / self.t_max)


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
            return annealed(1.0, self.least, done - ops.floor(done))
        start, period, length = number(t, 0.0), number(t, float(self.t_0)), float(self.t_0)
        reached = 0.0
        for _ in range(_MOST_RESTARTS):
            reached += length
            length *= self.t_mult
            passed = ops.greater_equal(t, reached)
            start, period = ops.where(passed, reached, start), ops.where(passed, length, period)
            if reached > 2.0**53:  # beyond the largest number of updates that f64 counts
                break
        return annealed(1.0, self.least, (t - start) / period)


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
        way = line if self.linear else annealed
        found: Value | None = None
        for (start, end), (before, after) in zip(pairwise(ends), pairwise(values), strict=True):
            done = ops.minimum(ops.maximum((t - start) / (end - start), 0.0), 1.0) if end > start else number(t, 1.0)
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
            height = height * ops.power(number(t, 0.5), cycle)
        if self.mode == "exp_range":
            height = height * ops.power(number(t, self.gamma), t)
        return self.low + (1.0 - self.low) * height
