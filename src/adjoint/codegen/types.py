"""How LLVM spells dtypes, constants and vectors."""

import struct

import numpy as np

__all__ = ["MEMORY", "constant", "is_signed", "memory_type", "splat", "value_type", "vector"]

#: LLVM type of an element in memory. bfloat16 is 16 bits that only casts look into.
MEMORY: dict[str, str] = {
    "float32": "float",
    "float64": "double",
    "float16": "half",
    "bfloat16": "i16",
    "int8": "i8",
    "int16": "i16",
    "int32": "i32",
    "int64": "i64",
    "uint8": "i8",
    "uint16": "i16",
    "uint32": "i32",
    "uint64": "i64",
    "bool": "i8",
}


def memory_type(dtype: np.dtype) -> str:
    """LLVM type of an element in memory."""
    return MEMORY[dtype.name]


def value_type(dtype: np.dtype) -> str:
    """LLVM type of an element in a register: a bool is one bit there."""
    return "i1" if dtype.name == "bool" else MEMORY[dtype.name]


def vector(type_: str, lanes: int) -> str:
    """The type of `lanes` elements: the element's own where there is one."""
    return type_ if lanes == 1 else f"<{lanes} x {type_}>"


def is_signed(dtype: np.dtype) -> bool:
    """Whether the dtype is a signed integer."""
    return dtype.kind == "i"


def constant(value: float | int | bool, dtype: np.dtype) -> str:
    """A constant of a dtype, exact: floats by their bits."""
    name = dtype.name
    if name == "bool":
        return "true" if value else "false"
    if name in ("float32", "float64"):
        rounded = float(np.asarray(value).astype(dtype))
        return f"0x{struct.unpack('<Q', struct.pack('<d', rounded))[0]:016X}"
    if name == "float16":
        return f"0xH{int(np.asarray(value, np.float16).view(np.uint16)):04X}"
    if name == "bfloat16":
        return str(int(np.asarray(value).astype(dtype).view(np.uint16)))
    return str(int(value))


def splat(text: str, type_: str, lanes: int) -> str:
    """A constant in every lane."""
    return text if lanes == 1 else f"splat ({type_} {text})"
