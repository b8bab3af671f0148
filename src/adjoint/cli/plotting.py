"""Plots of a training run. Requires matplotlib, installed by the extra ``plot``."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from adjoint.errors import InvalidValueError

__all__ = ["check_plotting", "plot_training"]

_FORMATS = (".png", ".svg", ".pdf")


def check_plotting(path: Path) -> None:
    """Reject a plot that cannot be drawn, before the run starts.

    Raises
    ------
    InvalidValueError
        If matplotlib is not installed, or the file name does not end with a supported suffix.
    """
    if find_spec("matplotlib") is None:
        raise InvalidValueError("plots require matplotlib, which is not installed; run pip install 'adjoint[plot]'")
    if path.suffix.lower() not in _FORMATS:
        raise InvalidValueError(f"the name of a plot must end in {', '.join(_FORMATS)}, got {path.name}; rename it")


def plot_training(path: Path, losses: Sequence[float], accuracies: Sequence[tuple[int, float]]) -> None:
    """Draw the loss of every step and the accuracy after every epoch.

    Parameters
    ----------
    path : Path
        File to write: ``.png``, ``.svg`` or ``.pdf``.
    losses : sequence of float
        One per step. Their running mean is drawn too.
    accuracies : sequence of (int, float)
        Pairs of step and accuracy, from 0 to 1.

    Raises
    ------
    InvalidValueError
        As for `check_plotting`; also if the file cannot be written.
    """
    check_plotting(path)
    # Optional and slow to load. Figure is used without pyplot, so no window system is needed.
    from matplotlib.figure import Figure  # noqa: PLC0415

    figure = Figure(figsize=(8, 4.5), layout="constrained")
    left = figure.subplots()
    steps = np.arange(1, len(losses) + 1)
    left.plot(steps, losses, color="tab:blue", alpha=0.25, linewidth=0.6)
    width = max(1, len(losses) // 50)
    smooth = np.convolve(losses, np.full(width, 1 / width), mode="valid") if len(losses) else np.empty(0)
    left.plot(steps[width - 1 :], smooth, color="tab:blue", label=f"loss (mean of {width} steps)")
    left.set(xlabel="step", ylabel="training loss")
    left.set_ylim(bottom=0)
    right = left.twinx()
    if accuracies:
        right.plot(*zip(*accuracies, strict=True), "o-", color="tab:orange", label="test accuracy")
    right.set(ylabel="test accuracy")
    handles = [*left.get_legend_handles_labels()[0], *right.get_legend_handles_labels()[0]]
    left.legend(handles=handles, loc="center right")
    try:
        figure.savefig(path, dpi=150)
    except OSError as error:
        raise InvalidValueError(f"{path} cannot be written ({error.strerror}); choose another file") from error
