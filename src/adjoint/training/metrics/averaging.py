"""From figures per class to one figure."""

import numpy as np

from adjoint.errors import InvalidValueError

__all__ = ["AVERAGES", "averaged", "check_average"]

#: What the option `average` may be, besides None.
AVERAGES = ("macro", "micro", "weighted")


def check_average(owner: str, average: str | None, allowed: tuple[str, ...] = AVERAGES) -> None:
    """Raise unless an average is one of the allowed ones or None."""
    if average is not None and average not in allowed:
        words = ", ".join(map(repr, allowed))
        raise InvalidValueError(f"{owner}: average must be {words} or None, got {average!r}; choose one of them")


def averaged(
    numerators: np.ndarray, denominators: np.ndarray, support: np.ndarray, present: np.ndarray, average: str | None
) -> "float | np.ndarray":
    """A ratio per class, or its average over classes; 0 where the denominator is 0.

    Parameters
    ----------
    numerators, denominators : numpy.ndarray
        Of each class, ``[C]``.
    support : numpy.ndarray
        The number of targets of each class, by which "weighted" weights it.
    present : numpy.ndarray
        Whether each class is among targets or predictions; "macro" is the mean over these.
    average : {"macro", "micro", "weighted"} or None
        None for the ratios themselves; "micro" is the ratio of the sums.
    """
    if average == "micro":
        bottom = denominators.sum()
        return float(numerators.sum() / bottom) if bottom else 0.0
    ratios: np.ndarray = np.divide(numerators, denominators, out=np.zeros(denominators.shape), where=denominators != 0)
    if average is None:
        return ratios
    weights = present.astype(np.float64) if average == "macro" else support.astype(np.float64)
    return float((ratios * weights).sum() / weights.sum()) if weights.any() else 0.0
