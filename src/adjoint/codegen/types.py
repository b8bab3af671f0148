"""LLVM types and constants for dtypes, scalars and vectors."""

import struct

import ml_dtypes
import numpy as np

__all__ = [
    "BFLOAT16",
    "MEMORY",
    "constant",
    "is_signed",
    "mangled",
    "memory_type",
    "splat",
    "value_type",
    "vector",
]

BFLOAT16 = np.dtype(ml_dtypes.bfloat16)

#: LLVM type of an element in memory. bfloat16 is stored as i16; only casts interpret it.
MEMORY: dict[np.dtype, str] = {
    np.dtype(np.float32): "float",
    np.dtype(np.float64): "double",
    np.dtype(np.float16): "half",
    BFLOAT16: "i16",
    np.dtype(np.int8): "i8",
    np.dtype(np.int16): "i16",
    np.dtype(np.int32): "i32",
    np.dtype(np.int64): "i64",
    np.dtype(np.uint8): "i8",
    np.dtype(np.uint16): "i16",
    np.dtype(np.uint32): "i32",
    np.dtype(np.uint64): "i64",
    np.dtype(np.bool_): "i8",
}

#: LLVM type of an element in a register, where a bool is one bit.
_VALUE = {**MEMORY, np.dtype(np.bool_): "i1"}


def memory_type(dtype: np.dtype) -> str:
    """LLVM type of an element in memory."""
    return MEMORY[dtype]


def value_type(dtype: np.dtype) -> str:
    """LLVM type of an element in a register."""
    return _VALUE[dtype]


def vector(type_: str, lanes: int) -> str:
    """The type of a vector with `lanes` elements; for one lane, the element type itself."""
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"


def mangled(type_: str) -> str:
    """``<16 x float>`` as in names of intrinsics: ``v16f32``."""
    lanes, element = type_[1:-1].split(" x ") if type_.startswith("<") else ("", type_)
    name = {"float": "f32", "double": "f64", "half": "f16"}.get(element, element)
    return f"v{lanes}{name}" if lanes else name


def is_signed(dtype: np.dtype) -> bool:
    """Whether the dtype is a signed integer."""
    return dtype.kind == "i"


def constant(value: float | int | bool, dtype: np.dtype) -> str:
    """The exact text of a constant; floats are written as bits."""
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind == "f" and dtype.itemsize > 2:
        rounded = float(np.asarray(value).astype(dtype))
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    if dtype.kind == "f":
        return f"0xH{int(np.asarray(value, np.float16).view(np.uint16)):04X}"
    if dtype == BFLOAT16:
        return str(int(np.asarray(value).astype(dtype).view(np.uint16)))
    return str(int(value))


def splat(text: str, type_: str, lanes: int) -> str:
    """A constant vector with all lanes equal."""
    return text if lanes == 1 else f"splat ({type_} {text})"
