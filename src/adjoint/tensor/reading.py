"""What reads the elements of tensors: numbers, lists, NumPy arrays, DLPack, text."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.tensor.dlpack import capsule_of
from adjoint.tensor.making import from_array
from adjoint.tensor.plan import run_trace
from adjoint.tensor.storage import Storage
from adjoint.tensor.structure import Spec
from adjoint.tensor.trace import Recorded, Trace, state

__all__ = ["Reading"]


def _compute_uses(tensor: Recorded) -> None:
    """Run the programs that a tensor has entered, before others can change its elements.

    If its gradient has been deferred, it is computed from the elements as they are, and with it all that have been
    deferred together.
    """
    gradient = tensor._grad
    source: Any = None if gradient is None or gradient._storage is not None else gradient._trace
    if source.__class__ is Trace and any(storage is tensor._storage for storage in source.storages):
        gradient.elements()
    owner = getattr(tensor._trace, "trace", tensor._trace)
    trace = state.trace
    if owner is not None and owner.outer is None and not owner.done:
        run_trace(owner)
    elif trace.outer is None and trace.known is not None and id(tensor) in trace.known:
        run_trace(trace)


def _constant(spec: Spec) -> TypeRuleError:
    return TypeRuleError(
        f"a compiled function cannot read the elements of a tensor while it is traced, got {spec.type}; return the "
        "tensor and read it outside of the function"
    )


class Reading(Recorded):
    """The part of `Tensor` that reads elements. Each method runs what is pending."""

    def elements(self) -> Storage:
        """The memory with the elements."""
        raise NotImplementedError

    def item(self) -> Any:
        """The only element as a Python number.

        Raises
        ------
        InvalidValueError
            If there are several elements, or none.
        """
        if state.trace.compiled:
            raise _constant(self._spec)
        storage = self._storage
        if storage is None:
            storage = self.elements()
        try:
            return storage.array.item()
        except ValueError:
            raise InvalidValueError(
                f"item() reads the only element of a tensor, got {self._spec.type}; use tolist() or numpy()"
            ) from None

    def tolist(self) -> Any:
        """The elements as nested lists of Python numbers; a number for a tensor without axes."""
        if state.trace.compiled:
            raise _constant(self._spec)
        return self.elements().array.tolist()

    def asnumpy(self) -> np.ndarray:
        """``numpy(force=True)``, under MindSpore's name."""
        return self.numpy(force=True)

    def numpy(self, *, force: bool = False) -> np.ndarray:
        """The elements as a NumPy array, which shares the tensor's memory: changing one in place changes the other.

        The array of a view of another tensor, other than `detach`, is a copy that cannot be written to.

        Parameters
        ----------
        force : bool, default False
            Whether a tensor that requires a gradient may be read like this; otherwise use ``detach()`` first.

        Raises
        ------
        InvalidValueError
            If it requires a gradient and has axes. A scalar, such as a loss, is read as by `item`: the array is a copy
            that cannot be written to.
        """
        if self._spec.requires_grad and not force:
            if not self._spec.type.shape:
                number = self.elements().array.copy()
                number.flags.writeable = False
                return number
            raise InvalidValueError(
                "numpy() is not differentiable, got a tensor that requires a gradient; use tensor.detach().numpy()"
            )
        storage = self.elements()
        alias = self._alias
        if alias is not None and alias.steps:
            base = alias.base()
            if any(not view.detaches for view, _ in alias.steps):
                array = storage.array.view()
                array.flags.writeable = base is None and not alias.group.alive(self)
                return array
            if base is not None:
                _compute_uses(base)
                storage = self._storage = base.elements()
        if not storage.shared:
            _compute_uses(self)
            storage.shared = True
        return storage.array.view()

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        if state.trace.compiled:
            raise _constant(self._spec)
        array = self.numpy()
        if dtype is not None and array.dtype != dtype:
            return array.astype(dtype)
        return array.copy() if copy else array

    def __array_wrap__(self, array: np.ndarray, context: Any = None, return_scalar: bool = False) -> Any:
        """The result of a NumPy function, as in ``np.exp(tensor)``: a tensor, if it has a dtype for tensors."""
        return from_array(array) if array.dtype in DTYPES.values() else array

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return self.elements().array.__index__()

    def __bool__(self) -> bool:
        if state.trace.compiled:
            raise TypeRuleError(
                f"a compiled function cannot branch on the elements of a tensor, got {self._spec.type} as a condition; "
                "use adjoint.cond, or choose between two values with where"
            )
        if self._spec.type.size != 1:
            raise InvalidValueError(
                f"only a tensor with one element is true or false, got {self._spec.type}; use any() or all()"
            )
        return bool(self.item())

    def __len__(self) -> int:
        shape = self._spec.type.shape
        if not shape:
            raise InvalidValueError("only a tensor with an axis has a length, got a scalar; use item()")
        return shape[0]

    def __dlpack__(
        self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: bool | None = None
    ) -> Any:
        return capsule_of(self, stream, max_version, dl_device, copy)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0  # the CPU
