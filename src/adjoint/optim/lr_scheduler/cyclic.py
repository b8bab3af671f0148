"""A schedule that goes up and down again and again."""

from collections.abc import Callable
from math import floor

from adjoint.errors import InvalidValueError
from adjoint.optim.base import Optimizer
from adjoint.optim.lr_scheduler.base import LRScheduler
from adjoint.optim.lr_scheduler.cosine import per_group, set_momentum

__all__ = ["CyclicLR"]


class CyclicLR(LRScheduler):
    """The rate goes from `base_lr` to `max_lr` along a line and back, in cycles.

    Smith (2017), "Cyclical learning rates for training neural networks"; `torch.optim.lr_scheduler.CyclicLR`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    base_lr, max_lr : float or list of float
        The smallest and the largest rate, of all groups or of each.
    step_size_up : int, default 2000
        The number of steps on the way up.
    step_size_down : int, optional
        The number of steps on the way down; default: as many.
    mode : {"triangular", "triangular2", "exp_range"}, default "triangular"
        Whether the height above `base_lr` stays, is halved after each cycle, or is multiplied by ``gamma ** step``.
    gamma : float, default 1.0
        See `mode`.
    scale_fn : callable, optional
        The factor of the height in place of `mode`: a function of the number of the cycle, from 1, or of the step.
    scale_mode : {"cycle", "iterations"}, default "cycle"
        Which of them `scale_fn` takes.
    cycle_momentum : bool, default True
        Let momentum, or ``beta1``, go the other way, from `max_momentum` down and back.
    base_momentum, max_momentum : float or list of float, default 0.8 and 0.9
        The smallest and the largest momentum.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If the mode is unknown, or `cycle_momentum` is set for an optimizer without momentum.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | list[float],
        max_lr: float | list[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Callable[[float], float] | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.8,
        max_momentum: float | list[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        if scale_fn is None and mode not in ("triangular", "triangular2", "exp_range"):
            raise InvalidValueError(
                f"CyclicLR: mode must be 'triangular', 'triangular2' or 'exp_range', got {mode!r}; or pass scale_fn"
            )
        groups = optimizer.param_groups
        lows = per_group("CyclicLR", "base_lr", base_lr, len(groups))
        self.max_lrs = per_group("CyclicLR", "max_lr", max_lr, len(groups))
        self.step_size_up = step_size_up
        self.step_size_down = step_size_up if step_size_down is None else step_size_down
        self.mode = mode
        self.gamma = gamma
        self.scale_fn = scale_fn
        self.scale_mode = scale_mode
        self.cycle_momentum = cycle_momentum
        self.base_momentums = per_group("CyclicLR", "base_momentum", base_momentum, len(groups))
        self.max_momentums = per_group("CyclicLR", "max_momentum", max_momentum, len(groups))
        if cycle_momentum and not all("momentum" in group or "betas" in group for group in groups):
            raise InvalidValueError(
                f"CyclicLR: cycle_momentum needs an optimizer with momentum or betas, got "
                f"{type(optimizer).__name__}; pass cycle_momentum=False"
            )
        if last_epoch == -1:
            for group, low in zip(groups, lows, strict=True):
                group["initial_lr"] = group["lr"] = low
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def get_lr(self) -> list[float]:
        """The rates on the way up or down; sets the momenta too."""
        total = self.step_size_up + self.step_size_down
        cycle = floor(1 + self.last_epoch / total)
        part = 1.0 + self.last_epoch / total - cycle
        turn = self.step_size_up / total
        height = part / turn if part <= turn else (part - 1) / (turn - 1)
        height *= self._factor(cycle)
        if self.cycle_momentum:
            ends = zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True)
            for group, low, high in ends:
                set_momentum(group, high - (high - low) * height)
        return [low + (high - low) * height for low, high in zip(self.base_lrs, self.max_lrs, strict=True)]

    def _factor(self, cycle: int) -> float:
        """The factor of the height."""
        if self.scale_fn is not None:
            return self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "exp_range":
            return float(self.gamma**self.last_epoch)
        return float(0.5 ** (cycle - 1)) if self.mode == "triangular2" else 1.0
