"""PyTorch's older constructors, which are named after a dtype: ``FloatTensor([1, 2])``, ``LongTensor(2, 3)``."""

from typing import Any

import numpy as np

from adjoint.ir import DTYPES
from adjoint.tensor.creation import tensor, zeros

__all__ = [
    "BFloat16Tensor",
    "BoolTensor",
    "ByteTensor",
    "CharTensor",
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "IntTensor",
    "LongTensor",
    "ShortTensor",
    "typed",
]


def typed(dtype: np.dtype, data: tuple[Any, ...], device: Any = None) -> Any:
    """A tensor of a dtype: of data, or of zeros with the sizes that integers give.

    Parameters
    ----------
    dtype : dtype
        The dtype.
    data : tuple
        The arguments of the constructor: nothing, sizes, or one array, tensor or list.
    device : str, optional
        ``"cpu"``.
    """
    if len(data) == 1 and not isinstance(data[0], int | np.integer):
        if isinstance(data[0], tuple) and type(data[0]) is not tuple:  # the shape of another tensor
            return zeros(data[0], dtype=dtype, device=device)
        return tensor(data[0], dtype=dtype, device=device)
    return zeros(data or (0,), dtype=dtype, device=device)


class _Typed:
    """A constructor of tensors of one dtype, which also stands for the dtype, as in ``x.type(torch.LongTensor)``."""

    def __init__(self, name: str, dtype: str) -> None:
        self.__name__ = name
        self.dtype = DTYPES[dtype]

    def __call__(self, *data: Any, device: Any = None) -> Any:
        return typed(self.dtype, data, device)

    def __repr__(self) -> str:
        return f"<constructor {self.__name__}>"


FloatTensor = _Typed("FloatTensor", "f32")
DoubleTensor = _Typed("DoubleTensor", "f64")
HalfTensor = _Typed("HalfTensor", "f16")
BFloat16Tensor = _Typed("BFloat16Tensor", "bf16")
LongTensor = _Typed("LongTensor", "i64")
IntTensor = _Typed("IntTensor", "i32")
ShortTensor = _Typed("ShortTensor", "i16")
CharTensor = _Typed("CharTensor", "i8")
ByteTensor = _Typed("ByteTensor", "u8")
BoolTensor = _Typed("BoolTensor", "bool")
