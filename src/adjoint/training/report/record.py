"""What a report is made of."""

import os
import platform
from dataclasses import field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np

from adjoint.compiler import host
from adjoint.lazy_dataclass import dataclass
from adjoint.training.report.predictions import Confusion, Predictions
from adjoint.version import __version__

__all__ = ["Epoch", "Record", "machine"]

#: Packages whose versions can change results or speed.
_PACKAGES = ("numpy", "llvmlite")


@dataclass(frozen=True, slots=True)
class Epoch:
    """The results of an epoch.

    Parameters
    ----------
    epoch, step : int
        Its number, counted from 1, and the number of steps at its end.
    train_loss : float
        The mean training loss.
    metrics : dict
        Results of evaluation that are numbers; empty without it.
    learning_rate : float or None
        The learning rate at its end.
    seconds : float
        The seconds of training since the beginning.
    """

    epoch: int
    step: int
    train_loss: float
    metrics: dict[str, float]
    learning_rate: float | None
    seconds: float


@dataclass(slots=True)
class Record:
    """The data of a report.

    Parameters
    ----------
    title : str
        The title of the page.
    outcome : str
        How the run ended.
    losses : numpy.ndarray
        f32 [steps]: the loss of each step, NaN if it is not known.
    epochs : list of Epoch
        The results of epochs.
    rates : list of (int, float)
        Steps and learning rates.
    steps : int
        The number of steps.
    seconds, compile_seconds : float
        The seconds of training, and of compilation in this process.
    batch_size : int or None
        The number of rows of a batch.
    parameters : int
        The number of numbers that are trained.
    config : dict
        The configuration.
    machine : dict of str to str
        The machine and versions.
    network : str
        The network as text.
    confusion : Confusion or None
        A confusion matrix.
    predictions : Predictions or None
        Predictions of validation rows.
    profile : object or None
        An `adjoint.profiling.StepProfile`.
    notes : list of str
        What is missing, and why.
    """

    title: str
    outcome: str = ""
    losses: np.ndarray = field(default_factory=lambda: np.zeros(0, np.float32))
    epochs: list[Epoch] = field(default_factory=list)
    rates: list[tuple[int, float]] = field(default_factory=list)
    steps: int = 0
    seconds: float = 0.0
    compile_seconds: float = 0.0
    batch_size: int | None = None
    parameters: int = 0
    config: dict[str, Any] = field(default_factory=dict)
    machine: dict[str, str] = field(default_factory=dict)
    network: str = ""
    confusion: Confusion | None = None
    predictions: Predictions | None = None
    profile: Any = None
    notes: list[str] = field(default_factory=list)


def machine() -> dict[str, str]:
    """The machine and the versions, by name."""
    target = host()
    found = {
        "computer": platform.node(),
        "processor": f"{target.cpu}, {os.cpu_count()} logical cores, {8 * target.vector_bytes}-bit vectors",
        "system": platform.platform(),
        "Python": platform.python_version(),
        "adjoint": __version__,
    }
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:  # pragma: no cover
            found[package] = "unknown"
    return found
