"""Averages of the parameters of a model, with the names of ``torch.optim.swa_utils``."""

from collections.abc import Callable, Iterable
from copy import deepcopy
from math import cos, pi
from typing import TYPE_CHECKING, Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.missing import missing_name
from adjoint.modules import Module
from adjoint.optim.base import Optimizer
from adjoint.optim.lr_scheduler.base import LRScheduler
from adjoint.optim.lr_scheduler.cosine import per_group
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array

__all__ = [
    "SWALR",
    "AveragedModel",
    "get_ema_avg_fn",
    "get_ema_multi_avg_fn",
    "get_swa_avg_fn",
    "get_swa_multi_avg_fn",
    "update_bn",
]


class AveragedModel(Module):
    """A copy of a model whose parameters are averages of the model's: `torch.optim.swa_utils.AveragedModel`.

    ::

        averaged = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
        ...
        optimizer.step()
        averaged.update_parameters(model)

    The averages are computed in the program of the training step. Izmailov et al. (2018), "Averaging weights leads to
    wider optima and better generalization".

    Parameters
    ----------
    model : Module
        The model; it is copied.
    device : object, optional
        Accepted for compatibility.
    avg_fn : callable, optional
        The new average of one parameter from the old one, the parameter and the number of updates so far; default: the
        mean of all.
    multi_avg_fn : callable, optional
        The same for lists of averages, which it changes in place, and of parameters.
    use_buffers : bool, default False
        Average the buffers too, instead of copying them.

    Raises
    ------
    InvalidValueError
        If both functions are given.
    """

    n_averaged: Any

    def __init__(
        self,
        model: Module,
        device: Any = None,  # noqa: ARG002
        avg_fn: Callable[[Any, Any, Any], Any] | None = None,
        multi_avg_fn: Callable[[list[Any], list[Any], Any], None] | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise InvalidValueError("AveragedModel takes one of avg_fn and multi_avg_fn, got both; omit one")
        self.module = deepcopy(model)
        self.register_buffer("n_averaged", from_array(np.asarray(0, np.int64)))
        #: Whether the averages are known to have begun, so that the count need not be read.
        self._begun = False
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args: Any, **keywords: Any) -> Any:
        """The result of the copy."""
        return self.module(*args, **keywords)

    def update_parameters(self, model: Module) -> None:
        """Take the parameters of the model into the averages; the first time, copy them.

        Parameters
        ----------
        model : Module
            The model that has been trained further.
        """
        with no_grad():
            averages: list[Any] = list(self.module.parameters())
            current: list[Any] = list(model.parameters())
            kept, buffers = list(self.module.buffers()), list(model.buffers())
            if self.use_buffers:
                averages, current = [*averages, *kept], [*current, *buffers]
            else:
                for old, new in zip(kept, buffers, strict=True):
                    old.copy_(new)
            self._average(averages, [new.detach() for new in current])
            self.n_averaged += 1

    def _average(self, averages: list[Any], current: list[Any]) -> None:
        """Change averages in place."""
        begun = self._begun or int(self.n_averaged) > 0
        self._begun = True
        if not begun:
            for old, new in zip(averages, current, strict=True):
                old.copy_(new)
        elif self.multi_avg_fn is not None:
            self.multi_avg_fn(averages, current, self.n_averaged)
        else:
            average = get_swa_avg_fn() if self.avg_fn is None else self.avg_fn
            for old, new in zip(averages, current, strict=True):
                old.copy_(average(old, new, self.n_averaged))


def get_swa_avg_fn() -> Callable[[Any, Any, Any], Any]:
    """The mean of all parameters so far, for `AveragedModel`."""

    def mean(average: Any, current: Any, count: Any) -> Any:
        return average + (current - average) / (count + 1)

    return mean


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], Any]:
    """The exponential moving average with this decay, for `AveragedModel`.

    Parameters
    ----------
    decay : float, default 0.999
        From 0 to 1.

    Raises
    ------
    InvalidValueError
        If it is out of range.
    """
    _require_decay("get_ema_avg_fn", decay)

    def moving(average: Any, current: Any, _count: Any) -> Any:
        return decay * average + (1 - decay) * current

    return moving


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[list[Any], list[Any], Any], None]:
    """`get_ema_avg_fn` for the `multi_avg_fn` of `AveragedModel`; parameters and errors as there."""
    _require_decay("get_ema_multi_avg_fn", decay)

    def moving(averages: list[Any], current: list[Any], _count: Any) -> None:
        for old, new in zip(averages, current, strict=True):
            old.copy_(decay * old + (1 - decay) * new)

    return moving


def get_swa_multi_avg_fn() -> Callable[[list[Any], list[Any], Any], None]:
    """`get_swa_avg_fn` for the `multi_avg_fn` of `AveragedModel`."""
    mean = get_swa_avg_fn()

    def means(averages: list[Any], current: list[Any], count: Any) -> None:
        for old, new in zip(averages, current, strict=True):
            old.copy_(mean(old, new, count))

    return means


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:  # noqa: ARG001
    """Compute the running statistics of batch normalization anew, as the means over all batches of some data.

    The averaged parameters of `AveragedModel` have never been used in training, so that the statistics, which are those
    of other parameters, do not fit them.

    Parameters
    ----------
    loader : iterable
        The batches; of one that is a tuple or list, the first element is the input of the model.
    model : Module
        The model. It is trained or not afterwards as before.
    device : object, optional
        Accepted for compatibility.
    """
    layers = [module for module in model.modules() if hasattr(module, "reset_running_stats")]
    if not layers:
        return
    momenta, was_training = [layer.momentum for layer in layers], model.training
    model.train()
    for layer in layers:
        layer.reset_running_stats()
        layer.momentum = None
    with no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, list | tuple) else batch)
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """From the current rate to another one in some epochs, where it stays: `torch.optim.swa_utils.SWALR`.

    Parameters
    ----------
    optimizer : Optimizer
        The optimizer.
    swa_lr : float or list of float
        The last rate, of all groups or of each.
    anneal_epochs : int, default 10
        The number of steps, at least 0.
    anneal_strategy : {"cos", "linear"}, default "cos"
        Along half a cosine, or along a line.
    last_epoch : int, default -1
        See `LRScheduler`.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        if anneal_strategy not in ("cos", "linear"):
            raise InvalidValueError(f"SWALR: anneal_strategy must be 'cos' or 'linear', got {anneal_strategy!r}")
        if type(anneal_epochs) is not int or anneal_epochs < 0:
            raise InvalidValueError(f"SWALR: anneal_epochs must be an int of at least 0, got {anneal_epochs!r}")
        groups = optimizer.param_groups
        for group, rate in zip(groups, per_group("SWALR", "swa_lr", swa_lr, len(groups)), strict=True):
            group["swa_lr"] = rate
        self.anneal_epochs = anneal_epochs
        self.anneal_strategy = anneal_strategy
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        """The current rates, moved on towards the last ones."""
        step = max(1, self.last_epoch) if self.anneal_epochs == 0 else self.last_epoch
        before, now = self._done(step - 1), self._done(step)
        rates = []
        for group in self.optimizer.param_groups:
            end = group["swa_lr"]
            start = end if before == 1 else (group["lr"] - before * end) / (1 - before)
            rates.append(end * now + start * (1 - now))
        return rates

    def _done(self, step: int) -> float:
        """The share of the way after some steps."""
        part = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - cos(pi * part)) / 2 if self.anneal_strategy == "cos" else part


def _require_decay(owner: str, decay: float) -> None:
    if not 0.0 <= decay <= 1.0:
        raise InvalidValueError(f"{owner}: decay must be from 0 to 1, got {decay}")


if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
