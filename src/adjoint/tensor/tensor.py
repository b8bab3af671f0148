"""`Tensor`: an array, or the result of recorded operations that have not run yet."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import TensorType, is_float
from adjoint.tensor.autograd import backward
from adjoint.tensor.methods import Methods
from adjoint.tensor.plan import run_trace
from adjoint.tensor.reading import Reading
from adjoint.tensor.resuming import revive
from adjoint.tensor.storage import Storage, storage_of
from adjoint.tensor.structure import spec_of
from adjoint.tensor.trace import Rebound, Recorded

__all__ = ["Parameter", "Tensor", "from_array"]


class Tensor(Methods, Reading):
    """A multi-dimensional array of one dtype, as in PyTorch.

    Operations on tensors are recorded, not run. Reading elements (``item()``, ``numpy()``, ``print``, ``bool``)
    compiles and runs what is pending; a program that was run before is found by its structure and not compiled again.

    Create tensors with `tensor`, `zeros`, `randn` and the like.

    Attributes
    ----------
    grad : Tensor or None
        For a leaf that requires a gradient: what backward passes have accumulated.
    """

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._spec.type.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the elements, a NumPy dtype."""
        return self._spec.type.dtype

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation that can be differentiated made it."""
        return self._spec.leaf

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to it. It can be set for leaves."""
        return self._spec.requires_grad

    @requires_grad.setter
    def requires_grad(self, wanted: bool) -> None:
        spec = self._spec
        if spec.requires_grad == wanted:
            return
        if not spec.leaf:
            raise InvalidValueError(
                f"requires_grad can be changed for leaves only, got a result of operations, {spec.type}; use detach()"
            )
        if wanted and not is_float(spec.type.dtype):
            raise TypeRuleError(
                f"only tensors of a float dtype can require gradients, got {spec.type}; convert it with float()"
            )
        self.elements()
        self._trace = None
        self._spec = spec_of(spec.type, wanted)

    def elements(self) -> Storage:
        """The memory with its elements, after running what is pending."""
        storage = self._storage
        if storage is not None:
            return storage
        trace: Any = self._trace
        if trace.__class__ is Rebound:
            trace = trace.trace
        elif trace.deferred is not None:
            revive((self,))
            trace = self._trace
        if trace.failure is not None:
            raise trace.failure
        if trace.outer is not None:
            raise TypeRuleError(
                f"a tensor has no elements while a function is traced, got {self._spec.type}; return it from the "
                "function and read it there"
            )
        run_trace(trace, (self,))
        storage = self._storage
        return self.elements() if storage is None else storage

    def backward(self, gradient: "Tensor | None" = None, retain_graph: bool = False) -> None:
        """Add the derivatives of this tensor to the ``grad`` of every leaf it depends on.

        Parameters
        ----------
        gradient : Tensor, optional
            The cotangent, of the same shape; not needed for a scalar.
        retain_graph : bool, default False
            Whether the same graph will be differentiated again.

        Raises
        ------
        InvalidValueError
            If it does not require a gradient, if it is not a scalar and there is no `gradient`, or if its graph has
            been used up by an earlier backward pass.
        """
        backward(self, gradient, retain_graph)


class Parameter(Tensor):
    """A tensor that a module trains: a leaf that requires a gradient.

    Parameters
    ----------
    data : Tensor
        Its elements.
    requires_grad : bool, default True
        Whether it is trained.
    """

    def __init__(self, data: Tensor, requires_grad: bool = True) -> None:
        self._storage = data.elements()
        self._spec = spec_of(data._spec.type, requires_grad)


Recorded.result = Tensor


def from_array(array: np.ndarray, *, copy: bool = True, requires_grad: bool = False) -> Tensor:
    """A tensor with the elements of an array, of the array's dtype."""
    made = Tensor.__new__(Tensor)
    made._storage = storage_of(array, copy=copy)
    made._spec = spec_of(TensorType(array.shape, array.dtype), requires_grad)
    return made
