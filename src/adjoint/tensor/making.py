"""Tensors with elements: from arrays."""

from typing import TYPE_CHECKING

import numpy as np

from adjoint.tensor.storage import storage_of
from adjoint.tensor.structure import spec_of_array
from adjoint.tensor.trace import Recorded

if TYPE_CHECKING:
    from adjoint.tensor.tensor import Tensor

__all__ = ["from_array"]


def from_array(array: np.ndarray, *, copy: bool = True, requires_grad: bool = False) -> "Tensor":
    """A tensor with the elements of an array, of the array's dtype.

    Parameters
    ----------
    array : numpy.ndarray
        The elements.
    copy : bool, default True
        Whether they are copied; otherwise the tensor shares the memory of the array if that is C-contiguous, aligned
        and writeable.
    requires_grad : bool, default False
        Whether gradients flow to it.
    """
    made: Tensor = Recorded.result.__new__(Recorded.result)
    made._storage = storage_of(array, copy=copy)
    made._spec = spec_of_array(array, requires_grad)
    # Found faster here than in the class, and looked at in every iteration of a loop.
    made._alias = made._hooks = None
    made._deferrable = False
    return made
