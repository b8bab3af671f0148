"""Tensors and devices at run time: arrays of NumPy under TVM's names. There is one device, the CPU."""

from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.lazy_dataclass import dataclass

__all__ = ["Device", "Tensor", "cpu", "device", "empty", "tensor"]
__getattr__ = uncovered(__name__, {}, "adjoint")


@dataclass(frozen=True, slots=True)
class Device:
    """A device; only the CPU is one."""

    index: int = 0

    @property
    def exist(self) -> bool:
        """Whether it is there."""
        return self.index == 0

    def sync(self) -> None:
        """Do nothing: calls return when they are done."""

    def __str__(self) -> str:
        return f"cpu({self.index})"


def cpu(dev_id: int = 0) -> Device:
    """The CPU."""
    return Device(dev_id)


def device(target: Any = "cpu", index: int = 0) -> Device:
    """The device of a name: ``cpu`` or ``llvm``."""
    name = str(target).split()[0]
    if name not in ("cpu", "llvm", "c"):
        raise InvalidValueError(f"device: programs run on the CPU, got {name!r}; use 'llvm' or 'cpu'")
    return Device(index)


class Tensor:
    """An array at run time.

    Parameters
    ----------
    array : array_like
        The elements.
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = np.asarray(array)

    def numpy(self) -> np.ndarray:
        """The elements."""
        return self._array

    asnumpy = numpy

    @property
    def shape(self) -> tuple[int, ...]:
        """Its sizes."""
        return self._array.shape

    @property
    def dtype(self) -> str:
        """The name of its dtype."""
        return str(self._array.dtype)

    @property
    def device(self) -> Device:
        """Where it is."""
        return Device()

    def copyfrom(self, source: Any) -> "Tensor":
        """Copy elements in."""
        self._array[...] = source.numpy() if isinstance(source, Tensor) else source
        return self

    def copyto(self, target: Any, mem_scope: str | None = None) -> "Tensor":  # noqa: ARG002
        """Copy to another tensor, or to a new one on a device."""
        return target.copyfrom(self) if isinstance(target, Tensor) else Tensor(self._array.copy())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self._array, dtype, copy=bool(copy)) if copy else np.asarray(self._array, dtype)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        found = self._array[index]
        return Tensor(found) if isinstance(found, np.ndarray) else found

    def __float__(self) -> float:
        return float(self._array)

    def __repr__(self) -> str:
        return f"{self._array!r} on {Device()}"


def tensor(arr: Any, device: Any = None, mem_scope: str | None = None) -> Tensor:  # noqa: ARG001
    """A tensor with a copy of an array's elements; f64 of Python's floats becomes f32, as in TVM."""
    found = arr.numpy() if isinstance(arr, Tensor) else arr
    made = np.array(found)
    return Tensor(made.astype(np.float32) if made.dtype == np.float64 and not hasattr(found, "dtype") else made)


def empty(shape: Any, dtype: Any = "float32", device: Any = None, mem_scope: str | None = None) -> Tensor:  # noqa: ARG001
    """A tensor of zeros."""
    return Tensor(np.zeros(shape, dtype))
