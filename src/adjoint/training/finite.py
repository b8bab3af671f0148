"""The checks of `check_finite`: NaN and infinity in batches and losses."""

from math import isfinite

import numpy as np

from adjoint.errors import DataError, InvalidValueError

__all__ = ["refuse_array", "refuse_loss"]


def refuse_array(method: str, name: str, array: np.ndarray) -> None:
    """Raise if an array contains floats that are not finite.

    Raises
    ------
    DataError
        With the position of the first one.
    """
    if array.dtype.kind != "f":
        return
    finite = np.isfinite(array)
    if not finite.all():
        where = tuple(int(i) for i in np.argwhere(~finite)[0])
        raise DataError(
            f"{method}: {name} must be finite with check_finite, got {array[where]} at {where}; clean the data"
        )


def refuse_loss(method: str, loss: float) -> None:
    """Raise if a loss is not finite.

    Raises
    ------
    InvalidValueError
        Always after the parameters have been updated.
    """
    if not isfinite(loss):
        raise InvalidValueError(
            f"{method}: the loss is {loss} after this step, which has updated the parameters; lower the learning "
            "rate and load the last good parameters"
        )
