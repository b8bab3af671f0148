"""Schedules along a cosine: annealing, with and without restarts, and the one-cycle policy."""

from math import cos, floor, log, pi
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.optim.base import Optimizer
from adjoint.optim.lr_scheduler.base import LRScheduler

__all__ = ["CosineAnnealingLR", "CosineAnnealingWarmRestarts", "OneCycleLR"]


class CosineAnnealingLR(LRScheduler):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * epoch / T_max)) / 2``.

    Loshchilov and Hutter (2017), "SGDR: stochastic gradient descent with warm restarts", without the restarts.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    T_max : int
        The number of steps to the smallest rate, from which the rate rises again.
    eta_min : float, default 0.0
        The smallest rate.
    last_epoch : int, default -1
        See `LRScheduler`.
    """

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        self.T_max = T_max
        self.eta_min = eta_min
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The current rates, moved along the cosine by one step."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.last_epoch == 0:
            return rates
        before = 1 + cos(pi * (self.last_epoch - 1) / self.T_max)
        if (self.last_epoch - 1 - self.T_max) % (2 * self.T_max) == 0:  # the quotient would be that of two zeros
            rise = (1 - cos(pi / self.T_max)) / 2
            return [rate + (base - self.eta_min) * rise for rate, base in zip(rates, self.base_lrs, strict=True)]
        quotient = (1 + cos(pi * self.last_epoch / self.T_max)) / before
        return [self.eta_min + quotient * (rate - self.eta_min) for rate in rates]

    def rates_at(self) -> list[float]:
        """The formula."""
        return [_annealed(base, self.eta_min, self.last_epoch / self.T_max) for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """``lr = eta_min + (initial_lr - eta_min) * (1 + cos(pi * t / T)) / 2``, with ``t`` from 0 again after ``T`` steps.

    Loshchilov and Hutter (2017), "SGDR: stochastic gradient descent with warm restarts".

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    T_0 : int
        The number of steps to the first restart.
    T_mult : int, default 1
        What ``T`` is multiplied by at a restart.
    eta_min : float, default 0.0
        The smallest rate.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If a number of steps is not a positive integer.
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        for name, value in (("T_0", T_0), ("T_mult", T_mult)):
            if not isinstance(value, int) or value < 1:
                raise InvalidValueError(
                    f"CosineAnnealingWarmRestarts: {name} must be an integer of at least 1, got {value!r}"
                )
        self.T_0 = T_0
        self.T_mult = T_mult
        self.eta_min = eta_min
        self.T_i = T_0
        self.T_cur: float = last_epoch
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The formula, for the steps since the last restart."""
        return [_annealed(base, self.eta_min, self.T_cur / self.T_i) for base in self.base_lrs]

    def step(self, epoch: float | None = None) -> None:
        """Set the rates of the next epoch.

        Parameters
        ----------
        epoch : float, optional
            The epoch, which may have a fraction, as in ``epoch + batch / batches``; default: the next one.

        Raises
        ------
        InvalidValueError
            If it is negative.
        """
        if epoch is None:
            epoch = self.last_epoch + 1
            self.T_cur += 1
            if self.T_cur >= self.T_i:
                self.T_cur -= self.T_i
                self.T_i *= self.T_mult
        elif epoch < 0:
            raise InvalidValueError(f"CosineAnnealingWarmRestarts: the epoch must be at least 0, got {epoch}")
        else:
            self.T_cur, self.T_i = self._position(epoch)
        self.last_epoch = floor(epoch)
        self._set(self.get_lr())

    def _position(self, epoch: float) -> tuple[float, int]:
        """The steps since the last restart, and those to the next from there."""
        if self.T_mult == 1:
            return epoch % self.T_0, self.T_0
        restarts = int(log(epoch / self.T_0 * (self.T_mult - 1) + 1, self.T_mult))
        first = self.T_0 * (self.T_mult**restarts - 1) / (self.T_mult - 1)
        return epoch - first, self.T_0 * self.T_mult**restarts


def _annealed(start: float, end: float, done: float) -> float:
    """The value between `start` and `end` at a part of half a cosine."""
    return end + (start - end) * (1 + cos(pi * done)) / 2


def _line(start: float, end: float, done: float) -> float:
    return start + (end - start) * done


class OneCycleLR(LRScheduler):
    """The rate rises to `max_lr` and falls to less than where it began, and momentum does the opposite.

    Smith and Topin (2019), "Super-convergence: very fast training of neural networks using large learning rates".

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    max_lr : float or list of float
        The largest rate, of all groups or of each.
    total_steps : int, optional
        The number of steps; default: ``epochs * steps_per_epoch``.
    epochs, steps_per_epoch : int, optional
        Needed without `total_steps`.
    pct_start : float, default 0.3
        The part of the steps in which the rate rises.
    anneal_strategy : {"cos", "linear"}, default "cos"
        Along what the rate changes.
    cycle_momentum : bool, default True
        Whether ``momentum``, or the first of ``betas``, changes too.
    base_momentum, max_momentum : float or list of float, default 0.85 and 0.95
        Its limits.
    div_factor : float, default 25.0
        The initial rate is ``max_lr / div_factor``.
    final_div_factor : float, default 1e4
        The last rate is the initial one divided by it.
    three_phase : bool, default False
        Whether the rate first falls as it rose, and only then to the last one.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If the number of steps is not given or a setting is out of range; later, if there are more steps.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | list[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float | list[float] = 0.85,
        max_momentum: float | list[float] = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None and epochs is not None and steps_per_epoch is not None:
            total_steps = epochs * steps_per_epoch
        if not isinstance(total_steps, int) or total_steps < 1:
            raise InvalidValueError(
                f"OneCycleLR: the number of steps must be a positive integer, got {total_steps!r}; pass total_steps, "
                "or epochs and steps_per_epoch"
            )
        if not 0 <= pct_start <= 1:
            raise InvalidValueError(f"OneCycleLR: pct_start must be from 0 to 1, got {pct_start}")
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidValueError(f"OneCycleLR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        groups = optimizer.param_groups
        self.total_steps = total_steps
        self.linear = anneal_strategy == "linear"
        self.cycle_momentum = cycle_momentum
        #: Where each phase ends, and the values there, of which the first is where the first phase begins.
        peak = pct_start * total_steps - 1
        self.ends = [0.0, peak, *([2 * peak] if three_phase else []), total_steps - 1.0]
        rates = []
        for group, top in zip(groups, per_group("OneCycleLR", "max_lr", max_lr, len(groups)), strict=True):
            first = top / div_factor
            if last_epoch == -1:
                group["initial_lr"] = first
            rates.append([first, top, *([first] if three_phase else []), first / final_div_factor])
        self.rates = rates
        low = per_group("OneCycleLR", "base_momentum", base_momentum, len(groups))
        high = per_group("OneCycleLR", "max_momentum", max_momentum, len(groups))
        self.momenta = [[h, b, h, *([h] if three_phase else [])] for b, h in zip(low, high, strict=True)]
        if cycle_momentum and not all("momentum" in group or "betas" in group for group in groups):
            raise InvalidValueError(
                f"OneCycleLR: cycle_momentum needs an optimizer with momentum or betas, got "
                f"{type(optimizer).__name__}; pass cycle_momentum=False"
            )
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The rates on the way between the ends of a phase; sets the momenta too."""
        if self.last_epoch > self.total_steps:
            raise InvalidValueError(
                f"OneCycleLR: the schedule has {self.total_steps} steps, got step {self.last_epoch}; raise total_steps"
            )
        if self.cycle_momentum:
            for group, values in zip(self.optimizer.param_groups, self.momenta, strict=True):
                set_momentum(group, self._between(values))
        return [self._between(values) for values in self.rates]

    def _between(self, values: list[float]) -> float:
        """The value at the current step, given those at the ends of the phases."""
        last = len(self.ends) - 2
        phase = next((i for i in range(last) if self.last_epoch <= self.ends[i + 1]), last)
        start, end = self.ends[phase], self.ends[phase + 1]
        way = _line if self.linear else _annealed
        done = (self.last_epoch - start) / (end - start) if end != start else 1.0
        return way(values[phase], values[phase + 1], done)


def set_momentum(group: dict[str, Any], value: float) -> None:
    """Set the momentum of a group, or its first beta."""
    if "betas" in group:
        group["betas"] = (value, *group["betas"][1:])
    else:
        group["momentum"] = value


def per_group(owner: str, name: str, given: float | list[float], count: int) -> list[float]:
    """A number for each group."""
    found = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(found) != count:
        raise InvalidValueError(
            f"{owner}: {name} must be a number, or a list with one for each of the {count} groups, got {given!r}"
        )
    return found
