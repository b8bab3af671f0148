"""PyTorch itself, which is optional, and its tensors as arrays and back."""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import numpy as np

from adjoint.errors import MissingAttributeError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = ["as_array", "as_tensor", "as_torch", "dtype_from", "dtypes_of", "is_torch_tensor", "require_torch"]

_NAMES = {
    "float32": "f32",
    "float64": "f64",
    "float16": "f16",
    "bfloat16": "bf16",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "u8",
    "uint16": "u16",
    "uint32": "u32",
    "uint64": "u64",
    "bool": "bool",
}


def require_torch(caller: str) -> Any:
    """The package torch.

    Raises
    ------
    MissingAttributeError
        If it is not installed.
    """
    try:
        return import_module("torch")
    except ImportError:
        raise MissingAttributeError(
            f"{caller} needs the package torch, which is not installed; install it with pip install 'adjoint[torch]'"
        ) from None


def dtypes_of(torch: Any) -> dict[Any, np.dtype]:
    """The dtypes of PyTorch that adjoint has too."""
    return {getattr(torch, name): DTYPES[own] for name, own in _NAMES.items() if hasattr(torch, name)}


def dtype_from(torch: Any, dtype: Any) -> np.dtype:
    """The dtype of NumPy for one of PyTorch.

    Raises
    ------
    TypeRuleError
        If there is none.
    """
    found = dtypes_of(torch).get(dtype)
    if found is None:
        raise TypeRuleError(f"from_torch: a dtype must be one of {', '.join(_NAMES)}, got {dtype}; convert the tensor")
    return found


def is_torch_tensor(given: Any) -> bool:
    """Whether an object is a tensor of PyTorch; it does not load PyTorch."""
    return any(one.__module__ == "torch" and one.__name__ == "Tensor" for one in type(given).__mro__)


def as_array(tensor: Any) -> np.ndarray:
    """The elements of a tensor of PyTorch, in its own memory if they are there one after the other."""
    plain = tensor.detach().contiguous()
    try:
        found: np.ndarray = plain.numpy()
    except TypeError:  # NumPy has no bfloat16
        torch = require_torch("from_torch")
        found = plain.view(torch.int16).numpy().view(DTYPES["bf16"])
    return found


def as_torch(given: Any) -> Any:
    """The tensor of PyTorch with the elements of a tensor or an array, in the same memory where possible."""
    torch = require_torch("from_torch")
    array = given.elements().array if isinstance(given, Tensor) else np.asarray(given)
    if not array.flags.writeable or not array.flags.c_contiguous:
        array = array.copy()
    if array.dtype == DTYPES["bf16"]:
        return torch.from_numpy(array.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(array)


def as_tensor(given: Any) -> Any:
    """A tensor of adjoint in the same memory, for one of PyTorch; other objects as they are."""
    if is_torch_tensor(given):
        return from_array(as_array(given), copy=False)
    if isinstance(given, Mapping):
        return {key: as_tensor(one) for key, one in given.items()}
    return given
