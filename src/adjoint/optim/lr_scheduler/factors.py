"""Schedules that multiply the initial rate by a formula of the number of steps."""

from bisect import bisect_right
from collections.abc import Iterable

from adjoint.errors import InvalidValueError
from adjoint.optim.base import Optimizer
from adjoint.optim.lr_scheduler.base import LRScheduler

__all__ = ["ConstantLR", "ExponentialLR", "Factor", "LinearLR", "MultiStepLR", "PolynomialLR", "StepLR"]


class Factor(LRScheduler):
    """Base class: a subclass defines `factor`."""

    def factor(self, epoch: int) -> float:
        """What the initial rate is multiplied by after a number of steps."""
        raise NotImplementedError

    def get_lr(self) -> list[float]:
        """The current rates times the quotient of this factor and the last, so that other schedules keep theirs."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        now, before = self.factor(self.last_epoch), self.factor(self.last_epoch - 1) if self.last_epoch else 1.0
        if now == before:
            return rates
        if before == 0.0:
            return self.rates_at()
        return [rate * (now / before) for rate in rates]

    def rates_at(self) -> list[float]:
        """The initial rates times the factor."""
        return [base * self.factor(self.last_epoch) for base in self.base_lrs]


class StepLR(Factor):
    """The rate times `gamma` every `step_size` steps: ``lr = initial_lr * gamma ** (epoch // step_size)``.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    step_size : int
        The number of steps with the same rate.
    gamma : float, default 0.1
        The factor.
    last_epoch : int, default -1
        See `LRScheduler`.
    """

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        self.step_size = step_size
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """``gamma ** (epoch // step_size)``."""
        return float(self.gamma ** (epoch // self.step_size))


class MultiStepLR(Factor):
    """The rate times `gamma` at each of the `milestones`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    milestones : iterable of int
        Numbers of steps. One that occurs twice multiplies twice.
    gamma : float, default 0.1
        The factor.
    last_epoch : int, default -1
        See `LRScheduler`.
    """

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones = sorted(milestones)
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """`gamma` to the number of milestones reached."""
        return float(self.gamma ** bisect_right(self.milestones, epoch))


class ExponentialLR(Factor):
    """``lr = initial_lr * gamma ** epoch``.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    gamma : float
        The factor.
    last_epoch : int, default -1
        See `LRScheduler`.
    """

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """``gamma ** epoch``."""
        return float(self.gamma**epoch)

    def get_lr(self) -> list[float]:
        """The current rates times `gamma`, which does not underflow as its power does."""
        return [group["lr"] * (self.gamma if self.last_epoch else 1.0) for group in self.optimizer.param_groups]


class ConstantLR(Factor):
    """``factor * initial_lr`` for `total_iters` steps, then the initial rate.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    factor : float, default 1/3
        From 0 to 1.
    total_iters : int, default 5
        The number of steps with the other rate.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If the factor is out of range.
    """

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise InvalidValueError(f"ConstantLR: factor must be from 0 to 1, got {factor}")
        self.first = factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """The factor, or 1."""
        return self.first if epoch < self.total_iters else 1.0


class LinearLR(Factor):
    """``lr = initial_lr * f``, where ``f`` goes linearly from `start_factor` to `end_factor` in `total_iters` steps.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    start_factor : float, default 1/3
        Above 0, at most 1.
    end_factor : float, default 1.0
        From 0 to 1.
    total_iters : int, default 5
        The number of steps in which the rate changes.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If a factor is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1:
            raise InvalidValueError(f"LinearLR: start_factor must be above 0 and at most 1, got {start_factor}")
        if not 0 <= end_factor <= 1:
            raise InvalidValueError(f"LinearLR: end_factor must be from 0 to 1, got {end_factor}")
        self.start_factor = start_factor
        self.end_factor = end_factor
        self.total_iters = total_iters
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """The line between the two factors, then the last."""
        if epoch >= self.total_iters:
            return self.end_factor
        return self.start_factor + (self.end_factor - self.start_factor) * epoch / self.total_iters


class PolynomialLR(Factor):
    """``lr = initial_lr * (1 - epoch / total_iters) ** power``, then 0.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    total_iters : int, default 5
        The number of steps to 0.
    power : float, default 1.0
        The power.
    last_epoch : int, default -1
        See `LRScheduler`.
    """

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        self.total_iters = total_iters
        self.power = power
        super().__init__(optimizer, last_epoch)

    def factor(self, epoch: int) -> float:
        """``(1 - epoch / total_iters) ** power``, at least 0."""
        return float((1.0 - min(self.total_iters, epoch) / self.total_iters) ** self.power)
