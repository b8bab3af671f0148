"""`mindspore.dtype`: the types of elements, which are adjoint's."""

from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.ir import DTYPES

__all__ = [
    "bfloat16",
    "bool_",
    "dtype_to_nptype",
    "float16",
    "float32",
    "float64",
    "float_",
    "int8",
    "int16",
    "int32",
    "int64",
    "int_",
    "tensor",
    "tensor_type",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

bool_ = DTYPES["bool"]
int8, int16, int32, int64 = DTYPES["i8"], DTYPES["i16"], DTYPES["i32"], DTYPES["i64"]
uint8, uint16, uint32, uint64 = DTYPES["u8"], DTYPES["u16"], DTYPES["u32"], DTYPES["u64"]
float16, bfloat16, float32, float64 = DTYPES["f16"], DTYPES["bf16"], DTYPES["f32"], DTYPES["f64"]
int_, float_ = int64, float32
tensor = tensor_type = "tensor"


def dtype_to_nptype(type_: Any) -> np.dtype:
    """The NumPy dtype, which it is already."""
    found: np.dtype = np.dtype(type_)
    return found


__getattr__ = uncovered(__name__, {"complex64": "complex numbers have no counterpart"}, "adjoint (adjoint.float32)")
