"""Types of graph values: a tensor of static shape, or a tuple of tensors (the result of a call)."""

from collections.abc import Iterable
from math import prod

import ml_dtypes
import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.lazy_dataclass import dataclass

__all__ = ["DTYPES", "TensorType", "TupleType", "Type", "as_dtype", "dtype_name", "is_float", "is_integer"]

Type = "TensorType | TupleType"

#: Dtypes by text name; error messages list them in this order.
DTYPES: dict[str, np.dtype] = {
    "f32": np.dtype(np.float32),
    "f64": np.dtype(np.float64),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "i8": np.dtype(np.int8),
    "i16": np.dtype(np.int16),
    "i32": np.dtype(np.int32),
    "i64": np.dtype(np.int64),
    "u8": np.dtype(np.uint8),
    "u16": np.dtype(np.uint16),
    "u32": np.dtype(np.uint32),
    "u64": np.dtype(np.uint64),
    "bool": np.dtype(np.bool_),
}
_NAMES = {dtype: name for name, dtype in DTYPES.items()}
#: No graph contains `numpy.longdouble`: it is the wider float in which references for float64 tests are computed.
_FLOATS = frozenset((*(DTYPES[name] for name in ("f32", "f64", "f16", "bf16")), np.dtype(np.longdouble)))


#: Names of different widths in NumPy, where Python's types mean the same, and in PyTorch: what they are there.
_AMBIGUOUS = {"float": ("f64", "f32"), "int": ("i64", "i32")}


def as_dtype(dtype: object) -> np.dtype:
    """The NumPy dtype for a text name (``"f32"``, ``"float32"``), a NumPy dtype or scalar type.

    ``float`` and ``int``, as names or as Python's types, are refused: they do not say how wide the numbers are.
    """
    if isinstance(dtype, str) and dtype in DTYPES:
        return DTYPES[dtype]
    name = dtype.__name__ if dtype is float or dtype is int else dtype
    if isinstance(name, str) and name in _AMBIGUOUS:
        wide, narrow = _AMBIGUOUS[name]
        raise TypeRuleError(
            f"dtype must say how wide the numbers are, got {name}, which is {wide} in NumPy and {narrow} in PyTorch; "
            f"use {narrow!r} or {wide!r}"
        )
    try:
        found: np.dtype | None = None if dtype is None else np.dtype(dtype)  # type: ignore[call-overload]
    except TypeError:
        found = None
    if found is None or found not in _NAMES:
        raise TypeRuleError(f"dtype must be one of {', '.join(DTYPES)}, got {dtype!r}")
    return found


def dtype_name(dtype: np.dtype) -> str:
    """The short text name of a dtype: ``f32``, ``i64``, ``bool``."""
    return _NAMES[dtype]


def is_float(dtype: np.dtype) -> bool:
    """Whether the dtype is a floating-point type, including bfloat16."""
    return dtype in _FLOATS


def is_integer(dtype: np.dtype) -> bool:
    """Whether the dtype is a signed or unsigned integer (bool is neither)."""
    return dtype.kind in "iu"


#: Types of a size in a shape. A tuple, because every type of a graph is checked, and a union is slower.
_INTEGERS = (int, np.integer)


@dataclass(frozen=True, slots=True)
class TensorType:
    """A dense tensor: a static shape and a dtype, written ``f32[64,784]``.

    Parameters
    ----------
    shape : iterable of int
        Sizes, each at least 0. ``()`` is a scalar.
    dtype : str or numpy dtype, default "f32"
        Anything that `as_dtype` accepts.
    """

    shape: tuple[int, ...]
    dtype: np.dtype = DTYPES["f32"]

    def __post_init__(self) -> None:
        shape = (self.shape,) if isinstance(self.shape, int) else tuple(self.shape)
        for size in shape:
            if isinstance(size, bool) or not isinstance(size, _INTEGERS) or size < 0:
                raise TypeRuleError(f"sizes in a shape must be integers of at least 0, got {size!r} in {shape}")
        object.__setattr__(self, "shape", tuple(map(int, shape)))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        """Bytes of a dense array of this type."""
        return self.size * self.dtype.itemsize

    def with_shape(self, shape: Iterable[int]) -> "TensorType":
        """The type with the same dtype and another shape."""
        return TensorType(tuple(shape), self.dtype)

    def with_dtype(self, dtype: object) -> "TensorType":
        """The type with the same shape and another dtype."""
        return TensorType(self.shape, as_dtype(dtype))

    def __str__(self) -> str:
        return f"{dtype_name(self.dtype)}[{','.join(map(str, self.shape))}]"


@dataclass(frozen=True, slots=True)
class TupleType:
    """Several tensors: the type of a call to a function with several results, written ``(f32[2], i64[])``."""

    items: tuple[TensorType, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.items))})"
