"""Methods of tensors that convert, copy, describe and print them, and make tensors like them."""

from typing import Any, NoReturn, Self

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, TensorType, dtype_name, is_float
from adjoint.tensor import creation, elementwise
from adjoint.tensor.aliases import contiguous_strides, join, viewed
from adjoint.tensor.environment import check_device, device, dtype_of, is_device
from adjoint.tensor.gradient_function import GradientFunction
from adjoint.tensor.printing import tensor_text
from adjoint.tensor.record import entry_of, record, record_unary
from adjoint.tensor.storage import storage_of
from adjoint.tensor.structure import spec_of
from adjoint.tensor.trace import Recorded, forget_entry, state
from adjoint.tensor.views import DETACH

__all__ = ["Conversions"]

_CAST, _CLONE = entry_of(elementwise.cast), entry_of(elementwise.clone)
_CPU = device()

#: What PyTorch calls tensors of these dtypes.
_TYPES = {
    "f32": "FloatTensor",
    "f64": "DoubleTensor",
    "f16": "HalfTensor",
    "bf16": "BFloat16Tensor",
    "i8": "CharTensor",
    "i16": "ShortTensor",
    "i32": "IntTensor",
    "i64": "LongTensor",
    "u8": "ByteTensor",
    "bool": "BoolTensor",
}


class Conversions(Recorded):
    """The part of `Tensor` with dtypes, devices, copies and text."""

    requires_grad: bool
    _grad: Any

    def elements(self) -> Any:
        """The memory with the elements."""
        raise NotImplementedError

    def size(self, dim: int | None = None) -> Any:
        """The shape, or the size of one axis."""
        return self._spec.shape if dim is None else self._spec.shape[dim]

    def dim(self) -> int:
        """The number of axes."""
        return len(self._spec.shape)

    def numel(self) -> int:
        """The number of elements."""
        return self._spec.type.size

    ndimension, nelement = dim, numel

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self._spec.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of an element."""
        return self._spec.type.dtype.itemsize

    @property
    def nbytes(self) -> int:
        """Bytes of all elements."""
        return self._spec.type.nbytes

    @property
    def device(self) -> device:
        """The device, which is the CPU."""
        return _CPU

    @property
    def is_cuda(self) -> bool:
        """False: there is no other device than the CPU."""
        return False

    def element_size(self) -> int:
        """Bytes of an element."""
        return self._spec.type.dtype.itemsize

    def is_floating_point(self) -> bool:
        """Whether the dtype is float."""
        return is_float(self._spec.type.dtype)

    def stride(self, dim: int | None = None) -> Any:
        """The strides that PyTorch's tensor would have, in elements, or one of them."""
        alias = self._alias
        found = contiguous_strides(self._spec.shape) if alias is None else alias.strides()
        return found if dim is None else found[dim]

    def get_device(self) -> int:
        """-1, PyTorch's number of the CPU."""
        return -1

    def to(self, *args: Any, **keywords: Any) -> Any:
        """The tensor with another dtype, or that of another tensor; itself if that is its dtype.

        Called as ``to(dtype)``, ``to("cpu")``, ``to("cpu", dtype)`` or ``to(other)``; `non_blocking` and
        `memory_format` have no effect, and ``copy=True`` copies in any case.
        """
        copy = keywords.pop("copy", False)
        dtype = keywords.pop("dtype", None)
        check_device(keywords.pop("device", None))
        for name in ("non_blocking", "memory_format"):
            keywords.pop(name, None)
        if keywords:
            raise TypeRuleError(f"to: unknown arguments {', '.join(keywords)}; pass a dtype, a device or a tensor")
        for one in args:
            if isinstance(one, Recorded):
                dtype = one._spec.type.dtype
            elif is_device(one):
                check_device(one)
            elif not isinstance(one, bool) and one is not None:
                dtype = one
        return self._converted(dtype_of(dtype), copy)

    def _converted(self, dtype: np.dtype | None, copy: bool = False) -> Any:
        if dtype is not None and dtype != self._spec.type.dtype:
            return record(_CAST, (self, dtype))
        return record_unary(_CLONE, self) if copy else self

    def type(self, dtype: Any = None) -> Any:
        """PyTorch's name of tensors of this dtype, such as ``"FloatTensor"``; with a dtype, the tensor converted."""
        if dtype is not None:
            return self._converted(dtype_of(dtype))
        name = dtype_name(self._spec.type.dtype)
        return _TYPES.get(name, f"{name} tensor")

    def type_as(self, other: Any) -> Any:
        """The tensor in the dtype of another one."""
        return self._converted(other.dtype)

    def astype(self, dtype: Any) -> Any:
        """``to(dtype)``, under the name that NumPy and MindSpore have for it."""
        return self.to(dtype)

    def float(self) -> Any:
        """The tensor as f32."""
        return self._converted(DTYPES["f32"])

    def double(self) -> Any:
        """The tensor as f64."""
        return self._converted(DTYPES["f64"])

    def half(self) -> Any:
        """The tensor as f16."""
        return self._converted(DTYPES["f16"])

    def bfloat16(self) -> Any:
        """The tensor as bf16."""
        return self._converted(DTYPES["bf16"])

    def long(self) -> Any:
        """The tensor as i64."""
        return self._converted(DTYPES["i64"])

    def int(self) -> Any:
        """The tensor as i32."""
        return self._converted(DTYPES["i32"])

    def short(self) -> Any:
        """The tensor as i16."""
        return self._converted(DTYPES["i16"])

    def byte(self) -> Any:
        """The tensor as u8."""
        return self._converted(DTYPES["u8"])

    def bool(self) -> Any:
        """The tensor as bool: whether elements are not zero."""
        return self._converted(DTYPES["bool"])

    def cpu(self) -> Self:
        """The tensor itself: it is on the CPU."""
        return self

    def cuda(self, device: Any = None) -> NoReturn:  # noqa: ARG002
        """Refused: there is no other device than the CPU."""
        raise InvalidValueError("cuda(): there is one device, 'cpu', got a request for a GPU; leave the call out")

    def pin_memory(self) -> Self:
        """The tensor itself: there is no other device to copy to."""
        return self

    def clone(self, **_: Any) -> Any:
        """See `adjoint.clone`."""
        return record_unary(_CLONE, self)

    def detach(self) -> Any:
        """The same elements without a history; changing it in place changes this tensor."""
        storage = self._storage
        if storage is None or state.trace.outer is not None or self._trace is state.trace:
            return viewed(DETACH, self, None)
        made = Recorded.result.__new__(Recorded.result)
        made._storage, made._spec = storage, spec_of(self._spec.type)
        join(self, made, DETACH, None)
        return made

    def detach_(self) -> Self:
        """Forget the history of this tensor."""
        if self._spec.requires_grad:
            self.elements()
            self._trace = None
            self._spec = spec_of(self._spec.type)
            forget_entry(self)
        return self

    def requires_grad_(self, requires_grad: bool = True) -> Self:  # type: ignore[valid-type]
        """Set `requires_grad`; returns the tensor."""
        self.requires_grad = requires_grad
        return self

    def new_tensor(self, data: Any, *, dtype: Any = None, device: Any = None, requires_grad: Any = False) -> Any:
        """A tensor of data, of this dtype."""
        own = self._spec.type.dtype
        return creation.tensor(data, dtype=dtype or own, device=device, requires_grad=requires_grad)

    def new_full(self, size: Any, fill_value: Any, *, dtype: Any = None, device: Any = None) -> Any:
        """A tensor filled with a number, of this dtype."""
        return creation.full(size, fill_value, dtype=dtype or self._spec.type.dtype, device=device)

    def new_zeros(self, *size: Any, dtype: Any = None, device: Any = None) -> Any:
        """A tensor of zeros, of this dtype."""
        return creation.zeros(*size, dtype=dtype or self._spec.type.dtype, device=device)

    def new_ones(self, *size: Any, dtype: Any = None, device: Any = None) -> Any:
        """A tensor of ones, of this dtype."""
        return creation.ones(*size, dtype=dtype or self._spec.type.dtype, device=device)

    def new_empty(self, *size: Any, dtype: Any = None, device: Any = None) -> Any:
        """A tensor to be filled, of this dtype."""
        return creation.empty(*size, dtype=dtype or self._spec.type.dtype, device=device)

    def __repr__(self) -> str:
        trace = getattr(self._trace, "trace", self._trace)
        if self._storage is None and trace.outer is not None:
            return f"<tensor {self._spec.type} of a traced function>"
        gradient = "" if not self._spec.requires_grad else "requires_grad=True"
        if gradient and not self._spec.leaf:
            gradient = f"grad_fn={GradientFunction(self._node)!r}"
        return tensor_text(self.elements().array, gradient)

    def __format__(self, text: str) -> str:
        if not self._spec.shape and type(self) is Recorded.result:
            return format(self.elements().array.item(), text)
        if text:
            raise TypeRuleError(
                f"a format such as {text!r} is for one number, got {self._spec.type}; format its item() or its tolist()"
            )
        return repr(self)

    def __reduce_ex__(self, protocol: Any) -> Any:
        kept = {key: item for key, item in self.__dict__.items() if not key.startswith("_")}
        return _restored, (type(self), self.elements().array.copy(), self._spec.requires_grad, self._label, kept)

    def __deepcopy__(self, memo: dict[Any, Any]) -> Any:
        if not self._spec.leaf:
            raise InvalidValueError(
                f"only leaves can be copied with deepcopy, got a result of operations, {self._spec.type}; detach() it"
            )
        kept = {key: item for key, item in self.__dict__.items() if not key.startswith("_")}
        made = _restored(type(self), self.elements().array, self._spec.requires_grad, self._label, kept)
        memo[id(self)] = made
        if self._grad is not None:
            made._grad = self._grad.detach().clone()
        return made

    def __copy__(self) -> Any:
        return self.__deepcopy__({})


def _restored(cls: Any, array: np.ndarray, requires_grad: Any, label: str, kept: dict[str, Any]) -> Any:
    """A tensor with the elements of an array and these attributes."""
    made = cls.__new__(cls)
    made._storage = storage_of(array, copy=True)
    made._spec = spec_of(TensorType(array.shape, array.dtype), requires_grad)
    made._label = label
    made.__dict__.update(kept)
    return made
