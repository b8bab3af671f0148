"""Memory shared with other libraries by DLPack: `from_dlpack`, and what ``Tensor.__dlpack__`` returns.

The protocol is that of https://dmlc.github.io/dlpack, version 1, and of older libraries. NumPy makes and consumes the
capsules, which keep the memory alive; it does not know bfloat16, whose bits are passed as integers, with the dtype of
the capsule written by hand.
"""

import ctypes
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import DTYPES, as_dtype
from adjoint.tensor.environment import check_device
from adjoint.tensor.making import from_array
from adjoint.tensor.storage import ReadOnlyStorage
from adjoint.tensor.trace import Recorded

__all__ = ["capsule_of", "from_dlpack"]

#: DLPack's number of the CPU, and its only device.
_CPU = 1, 0

#: The version that is asked for, and whether this NumPy knows versions.
_VERSION = 1, 0
_VERSIONED = np.lib.NumpyVersion(np.__version__) >= "2.1.0"

#: Names of capsules that nobody has consumed yet, without and with a version.
_PLAIN_NAME, _VERSIONED_NAME = b"dltensor", b"dltensor_versioned"

#: Codes of kinds of dtypes.
_UNSIGNED, _BFLOAT = 1, 4

#: Bytes of a bfloat16 number, in bits.
_HALF_BITS = 16

#: The flag that memory must not be written to.
_READ_ONLY = 1


class _Tensor(ctypes.Structure):
    """``DLTensor``, as far as it is needed."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


class _Versioned(ctypes.Structure):
    """``DLManagedTensorVersioned``, as far as it is needed."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("manager_ctx", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _Tensor),
    )


_pointer_of = ctypes.pythonapi.PyCapsule_GetPointer
_pointer_of.restype, _pointer_of.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
_is_valid = ctypes.pythonapi.PyCapsule_IsValid
_is_valid.restype, _is_valid.argtypes = ctypes.c_int, (ctypes.py_object, ctypes.c_char_p)


class _Holder:
    """An object that hands on a capsule, for NumPy, which takes capsules from objects only."""

    def __init__(self, capsule: Any) -> None:
        self.capsule = capsule

    def __dlpack__(self, **_: Any) -> Any:
        return self.capsule

    def __dlpack_device__(self) -> tuple[int, int]:
        return _CPU


def from_dlpack(ext_tensor: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """A tensor that shares the memory of an object with ``__dlpack__``, such as a tensor of PyTorch.

    Changing one in place changes the other. Memory that its library does not let others write to, or about which it
    does not say, as JAX and TensorFlow, is shared until the tensor is changed in place, which gives the tensor memory
    of its own.

    Parameters
    ----------
    ext_tensor : object
        An array or tensor of another library on the CPU, or a capsule of DLPack.
    device : str, optional
        "cpu", the only device.
    copy : bool, optional
        Whether the elements are copied. By default, they are if the memory is not C-contiguous and aligned; False
        refuses that.

    Raises
    ------
    TypeRuleError
        If the object has no ``__dlpack__``, or its dtype is not one of tensors.
    InvalidValueError
        If its memory is on another device, its library refuses, or it would have to be copied in spite of
        ``copy=False``.
    """
    check_device(device)
    if isinstance(ext_tensor, Recorded):
        ext_tensor = _elements(ext_tensor)
    if isinstance(ext_tensor, np.ndarray):
        array, owner, read_only = ext_tensor, None, not ext_tensor.flags.writeable
    else:
        owner = _capsule(ext_tensor, copy)
        array, read_only = _array(owner)
    as_dtype(array.dtype)
    if copy:
        return from_array(array)
    if not (array.flags.c_contiguous and array.flags.aligned):
        if copy is False:
            raise InvalidValueError(
                "from_dlpack: memory that is shared must be C-contiguous and aligned, got the strides "
                f"{list(array.strides)} for the shape {list(array.shape)}; leave copy=False out"
            )
        return from_array(array)
    if read_only:
        made = from_array(np.empty(array.shape, array.dtype), copy=False)
        made._storage = ReadOnlyStorage(array)
        return made
    made = from_array(array, copy=False)
    if owner is not None:
        made.elements().owner = owner  # no array of NumPy: the other library always sees the memory
    return made


def _array(capsule: Any) -> tuple[np.ndarray, bool]:
    """The memory of a capsule as an array, and whether it must not be written to.

    Capsules without a version do not say; those of JAX and TensorFlow are of memory that must not be.
    """
    versioned = bool(_is_valid(capsule, _VERSIONED_NAME))
    if not versioned and not _is_valid(capsule, _PLAIN_NAME):
        raise InvalidValueError("from_dlpack: a capsule can be consumed once, got one that has been; make a new one")
    tensor, read_only = _described(capsule, versioned)
    if (tensor.device_type, tensor.device_id) != _CPU:
        raise _elsewhere(tensor.device_type)
    is_bfloat = (tensor.code, tensor.bits) == (_BFLOAT, _HALF_BITS)
    if is_bfloat:
        tensor.code = _UNSIGNED
    try:
        array = np.from_dlpack(_Holder(capsule))
    except (BufferError, RuntimeError, ValueError) as error:
        raise TypeRuleError(
            f"from_dlpack: the dtype must be one of tensors, got another ({error}); convert it"
        ) from error
    return array.view(DTYPES["bf16"]) if is_bfloat else array, read_only


def _capsule(given: Any, copy: bool | None) -> Any:
    """The capsule of an object."""
    if type(given).__name__ == "PyCapsule":
        return given
    if not hasattr(given, "__dlpack__") or not hasattr(given, "__dlpack_device__"):
        raise TypeRuleError(f"from_dlpack: the argument must have __dlpack__, got {kind_of(given)}; use adjoint.tensor")
    kind, _ = given.__dlpack_device__()
    if int(kind) != _CPU[0]:
        raise _elsewhere(int(kind))
    asked: dict[str, Any] = {"max_version": _VERSION} if _VERSIONED else {}
    if copy is False:
        asked["copy"] = False
    try:
        try:
            return given.__dlpack__(**asked)
        except TypeError:  # a library of before version 1
            return given.__dlpack__()
    except (BufferError, RuntimeError) as error:
        raise InvalidValueError(
            f"from_dlpack: the other library must export its memory, and refuses: {str(error).strip()}"
        ) from error


def _elsewhere(kind: int) -> InvalidValueError:
    return InvalidValueError(
        f"from_dlpack: the memory must be on the CPU, DLPack's device 1, got device {kind}; copy it to the CPU first"
    )


def _described(capsule: Any, versioned: bool) -> tuple[_Tensor, bool]:
    """What a capsule says about its memory, and whether that must not be written to."""
    if not versioned:
        return _Tensor.from_address(_pointer_of(capsule, _PLAIN_NAME)), True
    found = _Versioned.from_address(_pointer_of(capsule, _VERSIONED_NAME))
    if found.major != _VERSION[0]:
        raise InvalidValueError(
            f"from_dlpack: the version must be {_VERSION[0]}, got {found.major}.{found.minor}; copy the elements with "
            "NumPy"
        )
    return found.tensor, bool(found.flags & _READ_ONLY)


def capsule_of(tensor: Any, stream: Any, max_version: tuple[int, int] | None, dl_device: Any, copy: bool | None) -> Any:
    """What ``Tensor.__dlpack__`` returns: the memory of a tensor, which stays alive as long as somebody uses it.

    Raises
    ------
    InvalidValueError
        If the tensor requires a gradient, another device or a stream is asked for, or the elements would have to be
        copied in spite of ``copy=False``: they are those of a view, or the library asks for a version without
        read-only memory.
    """
    if stream is not None or (dl_device is not None and tuple(map(int, dl_device)) != _CPU):
        what = f"the stream {stream}" if stream is not None else f"device {dl_device!r}"
        raise InvalidValueError(
            f"__dlpack__: tensors are on the CPU, (1, 0), without streams, got {what}; leave it out"
        )
    versioned = _VERSIONED and max_version is not None and max_version[0] >= _VERSION[0]
    array = _elements(tensor)
    is_private = _is_view(tensor)
    if copy is False and (is_private or (not array.flags.writeable and not versioned)):
        raise InvalidValueError(
            "__dlpack__: a view of another tensor, and memory that is read-only, are copied, got "
            f"{tensor._spec.type} with copy=False; leave that out"
        )
    if copy or is_private or not (array.flags.writeable or versioned):
        array = array.copy()
    is_bfloat = array.dtype == DTYPES["bf16"]
    shown = array.view(np.uint16) if is_bfloat else array
    capsule = shown.__dlpack__(max_version=max_version) if versioned else shown.__dlpack__()
    if is_bfloat:
        _described(capsule, versioned)[0].code = _BFLOAT
    return capsule


def _elements(tensor: Any) -> np.ndarray:
    """The elements of a tensor that shares them."""
    if tensor.requires_grad:
        raise InvalidValueError(
            f"__dlpack__: what others may change must not require a gradient, got {tensor._spec.type} that does; use "
            "tensor.detach()"
        )
    array: np.ndarray = tensor.numpy()
    return array


def _is_view(tensor: Recorded) -> bool:
    """Whether a tensor is a view that has no memory in common with its base."""
    alias = tensor._alias
    return alias is not None and any(not view.detaches for view, _ in alias.steps)
