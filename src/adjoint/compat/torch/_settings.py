"""Settings of PyTorch that have no effect here, because there is one device and every program is deterministic."""

from typing import Any

from adjoint.tensor.environment import check_device, device

__all__ = [
    "get_default_device",
    "set_default_device",
    "set_float32_matmul_precision",
    "set_num_interop_threads",
    "use_deterministic_algorithms",
]


def set_float32_matmul_precision(precision: str) -> None:
    """Nothing: products of f32 matrices are computed in f32."""


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Nothing: all programs are deterministic."""


def set_num_interop_threads(threads: int) -> None:
    """Nothing: one program runs at a time, on the threads of `set_num_threads`."""


def set_default_device(device: Any) -> None:
    """Raise unless the device is the CPU."""
    check_device(device)


def get_default_device() -> device:
    """The CPU."""
    return device("cpu")
