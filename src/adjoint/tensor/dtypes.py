"""The names that PyTorch gives dtypes. They are NumPy's dtypes; that of bf16 is from ml_dtypes."""

import ml_dtypes
import numpy as np

from adjoint.ir import DTYPES

__all__ = [
    "bfloat16",
    "bool",
    "double",
    "dtype",
    "finfo",
    "float",
    "float16",
    "float32",
    "float64",
    "half",
    "iinfo",
    "int",
    "int8",
    "int16",
    "int32",
    "int64",
    "long",
    "short",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
]

dtype = np.dtype
float32 = float = DTYPES["f32"]
float64 = double = DTYPES["f64"]
float16 = half = DTYPES["f16"]
bfloat16 = DTYPES["bf16"]
int8, uint8 = DTYPES["i8"], DTYPES["u8"]
int16 = short = DTYPES["i16"]
int32 = int = DTYPES["i32"]
int64 = long = DTYPES["i64"]
uint16, uint32, uint64 = DTYPES["u16"], DTYPES["u32"], DTYPES["u64"]
bool = DTYPES["bool"]
finfo, iinfo = ml_dtypes.finfo, np.iinfo
