"""`Tensor`: an array, or the result of recorded operations that have not run yet."""

from operator import attrgetter
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import TensorType, is_float
from adjoint.missing import MissingMethods
from adjoint.tensor.aliases import leave_group
from adjoint.tensor.autograd import backward
from adjoint.tensor.conversions import Conversions
from adjoint.tensor.environment import get_default_dtype
from adjoint.tensor.gradient_function import GradientFunction
from adjoint.tensor.hooks import Hook, Registration, register_hook, retain_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.methods import Methods
from adjoint.tensor.plan import run_trace
from adjoint.tensor.random import RandomMethods
from adjoint.tensor.random_distributions import DistributionMethods
from adjoint.tensor.reading import Reading
from adjoint.tensor.resuming import revive
from adjoint.tensor.size import Size
from adjoint.tensor.storage import Storage, storage_of
from adjoint.tensor.structure import spec_of
from adjoint.tensor.trace import Rebound, Recorded, Trace, forget_entry, fresh_trace
from adjoint.tensor.typed import typed
from adjoint.tensor.views import DETACH

__all__ = ["Parameter", "Tensor", "from_array"]


class Tensor(Methods, RandomMethods, DistributionMethods, Reading, Conversions, MissingMethods):
    """A multi-dimensional array of one dtype, as in PyTorch.

    Operations on tensors are recorded, not run. Reading elements (``item()``, ``numpy()``, ``print``, ``bool``)
    compiles and runs what is pending; a program that was run before is found by its structure and not compiled again.

    Create tensors with `tensor`, `zeros`, `randn` and the like.
    """

    def __init__(self, *data: Any, device: Any = None) -> None:
        """A tensor of the default dtype: of data, or of zeros with sizes, as the class ``torch.Tensor`` makes them."""
        made = typed(get_default_dtype(), data, device)
        self._storage, self._spec = made._storage, made._spec

    @property
    def shape(self) -> Size:
        """Sizes of the axes."""
        return self._spec.shape

    @property
    def dtype(self) -> np.dtype:
        """Dtype of the elements, a NumPy dtype."""
        return self._spec.type.dtype

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation that can be differentiated made it."""
        return self._spec.leaf

    @property
    def grad_fn(self) -> GradientFunction | None:
        """The operation that made it, if gradients flow through that; None for leaves."""
        return GradientFunction(self._node) if self._spec.requires_grad and not self._spec.leaf else None

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
        forget_entry(self)  # as a tensor of the other kind

    def _set_grad(self, new: Any) -> None:
        if new is not None:
            if not isinstance(new, Tensor):
                raise TypeRuleError(f"a gradient must be a tensor or None, got {kind_of(new)}; convert it")
            if new._spec.type != self._spec.type:
                raise TypeRuleError(
                    f"a gradient must have the shape and the dtype of its tensor, {self._spec.type}, got "
                    f"{new._spec.type}; reshape or convert it"
                )
        self._grad = new

    #: For a leaf that requires a gradient: what backward passes have accumulated, or None. It can be set.
    grad: Any = property(attrgetter("_grad"), _set_grad, doc="What backward passes have accumulated, or None.")

    @property
    def data(self) -> "Tensor":
        """The same elements without a history; changing it in place changes this tensor.

        It can be set: the tensor then has a copy of other elements, and tensors that shared its elements keep the old
        ones.
        """
        return self.detach()  # type: ignore[no-any-return]

    @data.setter
    def data(self, new: "Tensor") -> None:
        alias = new._alias
        if alias is not None and alias.group.base() is self and all(view is DETACH for view, _ in alias.steps):
            return  # as in `p.data += 1`, which has changed this tensor already
        self.replace_elements(new.elements().array)
        leave_group(self)

    def replace_elements(self, array: np.ndarray) -> None:
        """Copy the elements of an array, of any type, into new memory of this tensor, which becomes a leaf."""
        self._storage = storage_of(array, copy=True)
        self._trace = None
        self._spec = spec_of(TensorType(array.shape, array.dtype), self._spec.requires_grad)
        forget_entry(self)

    def elements(self) -> Storage:
        """The memory with its elements, after running what is pending."""
        storage = self._storage
        if storage is not None:
            return storage
        trace: Any = self._trace
        if trace.__class__ is Trace and not trace.done and trace.outer is None:
            run_trace(trace, (self,))
            storage = self._storage
            return self.elements() if storage is None else storage
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

    backward = backward

    def register_hook(self, hook: Hook) -> Registration:
        """Call a function with the gradient of this tensor in every backward pass; see `adjoint.tensor.hooks`."""
        return register_hook(self, hook)

    def retain_grad(self) -> None:
        """Let backward passes set ``grad`` of this result of operations too."""
        retain_grad(self)


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

    def __repr__(self) -> str:
        return f"Parameter containing:\n{super().__repr__()}"


Recorded.result = Tensor
fresh_trace()  # which knows the class
