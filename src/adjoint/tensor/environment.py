"""What surrounds tensors: devices, the default dtype, threads. There is one device, the CPU."""

import os
from dataclasses import replace
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, as_dtype, dtype_name, is_float
from adjoint.tensor.plan import options

__all__ = [
    "check_device",
    "device",
    "dtype_of",
    "get_default_dtype",
    "get_num_threads",
    "is_device",
    "set_default_dtype",
    "set_num_threads",
]


class device:  # noqa: N801
    """A device, of which there is one: ``device("cpu")``. It is also a context manager without effect.

    Parameters
    ----------
    type : str or device
        ``"cpu"``, possibly with the index 0.
    index : int, optional
        0.

    Raises
    ------
    InvalidValueError
        For any other device.
    """

    type = "cpu"

    def __init__(self, type: "str | device" = "cpu", index: int | None = None) -> None:
        check_device(type)
        if index not in (None, 0):
            raise InvalidValueError(f"there is one device, 'cpu', got the index {index}; leave it out")
        self.index = index

    def __str__(self) -> str:
        return "cpu"

    def __repr__(self) -> str:
        return "device(type='cpu')"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, device)

    def __hash__(self) -> int:
        return hash("cpu")

    def __enter__(self) -> "device":
        return self

    def __exit__(self, *error: object) -> None:
        pass


def is_device(given: object) -> bool:
    """Whether an argument names a device, of whatever kind."""
    if isinstance(given, device):
        return True
    return isinstance(given, str) and given.partition(":")[0] in _DEVICES


#: What PyTorch calls its devices.
_DEVICES = ("cpu", "cuda", "mps", "xpu", "meta", "hpu", "xla")


def check_device(given: object) -> None:
    """Raise unless an argument called ``device`` means the CPU."""
    if given is None or isinstance(given, device) or given in ("cpu", "cpu:0"):
        return
    raise InvalidValueError(f"there is one device, 'cpu', got {given!r}; use device='cpu', or leave it out")


class _Defaults:
    dtype = DTYPES["f32"]


def set_default_dtype(d: Any) -> None:
    """Set the dtype of tensors made from Python floats: f32 until it is changed.

    Parameters
    ----------
    d : dtype
        A float dtype.
    """
    wanted = as_dtype(d)
    if not is_float(wanted):
        raise TypeRuleError(f"the default dtype must be float, got {dtype_name(wanted)}; use float32 or float64")
    _Defaults.dtype = wanted


def get_default_dtype() -> np.dtype:
    """The dtype of tensors made from Python floats."""
    return _Defaults.dtype


def dtype_of(given: Any) -> np.dtype | None:
    """An argument called ``dtype``: Python's types mean f64, i64 and bool, as in PyTorch; None stays None."""
    if given is None:
        return None
    plain = {float: DTYPES["f64"], int: DTYPES["i64"], bool: DTYPES["bool"]}
    return plain[given] if isinstance(given, type) and given in plain else as_dtype(given)


def get_num_threads() -> int:
    """The number of threads that programs run on."""
    return options.compile.threads or len(os.sched_getaffinity(0))


def set_num_threads(int: int) -> None:
    """Set the number of threads that programs compiled from now on run on."""
    if int < 1:
        raise InvalidValueError(f"the number of threads must be positive, got {int}; pass at least 1")
    options.compile = replace(options.compile, threads=int)
