"""What `check_finite` refuses: NaN and infinity in batches and losses."""

from math import isfinite

import numpy as np

from adjoint.errors import DataError, InvalidValueError

__all__ = ["refuse_array", "refuse_loss"]


def refuse_array(method: str, name: str, array: np.ndarray) -> None:
    """Refuse floats that are not finite.

    Raises
    ------
    DataError
        Naming the first one's place.
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
    """Refuse a loss that is not finite.

    Raises
    ------
    InvalidValueError
        The parameters have been updated already.
    """
    if not isfinite(loss):
        raise InvalidValueError(
            f"{method}: the loss is {loss} after this step, which has updated the parameters; lower the learning "
            "rate and load the last good parameters"
        )
