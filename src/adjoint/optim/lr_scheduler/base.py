"""The base class of schedules, and schedules from functions."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.optim.base import Optimizer

__all__ = ["LRScheduler", "LambdaLR", "MultiplicativeLR"]


class LRScheduler:
    """Base class of schedules: sets the learning rates when it is created, and at every `step`.

    A subclass defines `get_lr`, and `rates_at` if the rates follow from the number of steps alone.

    Parameters
    ----------
    optimizer : Optimizer
        An optimizer that is bound to parameters.
    last_epoch : int, default -1
        The number of steps so far, of a schedule that is continued; -1 starts one.

    Attributes
    ----------
    base_lrs : list of float
        The initial rate of each group.
    last_epoch : int
        The number of steps so far.

    Raises
    ------
    InvalidValueError
        If a schedule is continued, and the optimizer's groups have no ``initial_lr``.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        given: object = optimizer
        if not isinstance(given, Optimizer):
            raise TypeRuleError(f"{type(self).__name__} takes an optimizer, got {kind_of(given)}; pass SGD(...)")
        self.optimizer = optimizer
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", group["lr"])
            elif "initial_lr" not in group:
                raise InvalidValueError(
                    f"{type(self).__name__}: a schedule that is continued needs initial_lr in every group, got none in "
                    f"group {i}; load the optimizer's state_dict, or set it"
                )
        self.base_lrs: list[float] = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._last_lr: list[float] = []
        self.step()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`, from the current rates, so that schedules can be chained."""
        raise TypeRuleError(f"{type(self).__name__}: a schedule must define get_lr(self); add it")

    def rates_at(self) -> list[float] | None:
        """The rate of each group at `last_epoch`, from the initial rates; None if they depend on the current ones."""
        return None

    def step(self, epoch: int | None = None) -> None:
        """Set the rates of the next epoch.

        Parameters
        ----------
        epoch : int, optional
            The epoch; default: the next one.
        """
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        rates = None if epoch is None else self.rates_at()
        self._set(self.get_lr() if rates is None else rates)

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        self._last_lr = list(rates)

    def get_last_lr(self) -> list[float]:
        """The rates that were set last."""
        return self._last_lr

    def state_dict(self) -> dict[str, Any]:
        """All that the schedule depends on, except the optimizer and functions."""
        return {key: value for key, value in self.__dict__.items() if key != "optimizer" and not _is_function(value)}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Continue from what `state_dict` returned. The rates themselves are in the optimizer's state."""
        self.__dict__.update(state_dict)


def _is_function(value: object) -> bool:
    return callable(value) or (isinstance(value, list) and any(callable(each) for each in value))


def _per_group(owner: str, given: object, count: int) -> list[Callable[[int], float]]:
    """A function for each group."""
    found: list[Any] = list(given) if isinstance(given, list | tuple) else [given] * count
    if len(found) != count or not all(callable(each) for each in found):
        raise InvalidValueError(
            f"{owner}: lr_lambda must be a function of the epoch, or a list with one for each of the {count} groups, "
            f"got {given!r}; pass such as lambda epoch: 0.95 ** epoch"
        )
    return found


class LambdaLR(LRScheduler):
    """``lr = initial_lr * lr_lambda(epoch)``.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    lr_lambda : callable or list of callable
        A function of the number of steps, or one for each group.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If it is no function, or there is not one for each group.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        lr_lambda: Callable[[int], float] | list[Callable[[int], float]],
        last_epoch: int = -1,
    ) -> None:
        self.lr_lambdas = _per_group(type(self).__name__, lr_lambda, len(optimizer.param_groups))
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The initial rates times the functions' values."""
        return [base * f(self.last_epoch) for base, f in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(LambdaLR):
    """``lr = lr * lr_lambda(epoch)`` from the first step on; parameters and errors as for `LambdaLR`."""

    def get_lr(self) -> list[float]:
        """The current rates times the functions' values."""
        rates = [group["lr"] for group in self.optimizer.param_groups]
        if self.last_epoch == 0:
            return rates
        return [rate * f(self.last_epoch) for rate, f in zip(rates, self.lr_lambdas, strict=True)]
