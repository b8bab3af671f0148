"""`StateSpec`: a description of an array that an optimizer keeps."""

import numpy as np

from adjoint.ir import TensorType
from adjoint.lazy_dataclass import dataclass

__all__ = ["StateSpec"]


@dataclass(frozen=True, slots=True)
class StateSpec:
    """Description of one array of the state, or of one hyperparameter.

    Parameters
    ----------
    name : str
        Name of the graph input.
    type : TensorType
        Its type.
    initial : float
        Initial value of all elements.
    """

    name: str
    type: TensorType
    initial: float

    def array(self) -> np.ndarray:
        """A new array filled with the initial value."""
        return np.full(self.type.shape, self.initial, self.type.dtype)
