"""Writing the elements of a tensor from an array, outside of recorded programs."""

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir import TensorType
from adjoint.tensor.aliases import leave_group, refresh_views
from adjoint.tensor.plan import run_trace
from adjoint.tensor.storage import is_exported
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import Trace, forget_entry, state

__all__ = ["assign"]


def assign(tensor: Tensor, array: np.ndarray) -> None:
    """Give a leaf other elements, which may have another shape and dtype; it stays the same tensor.

    What has been recorded with it keeps the old elements.

    Parameters
    ----------
    tensor : Tensor
        A leaf.
    array : numpy.ndarray
        The elements, which are copied.

    Raises
    ------
    TypeRuleError
        If a function is being traced.
    """
    if state.trace.outer is not None:
        raise TypeRuleError(
            f"the elements of a tensor cannot be written while a function is traced, got {tensor._spec.type}; write "
            "them outside of the function"
        )
    storage = tensor.elements()
    if TensorType(array.shape, array.dtype) != tensor._spec.type:
        tensor.replace_elements(array)
        leave_group(tensor)
        return
    if not is_exported(storage) or not storage.array.flags.writeable:
        tensor.replace_elements(array)
        refresh_views([tensor])
        return
    owner = tensor._trace
    if isinstance(owner, Trace) and not owner.done:
        run_trace(owner)
    storage.array[...] = array  # so that NumPy arrays that share the memory show it
    tensor._trace = None
    forget_entry(tensor)
    refresh_views([tensor])
