"""Operators without operands: a constant value, a coordinate (iota), a literal array."""

from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, as_dtype, dtype_name, is_float, is_integer
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.axes import axis_of
from adjoint.ops.base import Builder, Index, Operator, Sample, Scalar

__all__ = ["Constant", "Full", "Iota", "constant", "full", "iota", "plain_scalar", "scalar_misfit"]


def plain_scalar(value: Any, dtype: np.dtype) -> Any:
    """`value` as the Python number that prints in an attribute of that dtype, or unchanged if there is none.

    The value is preserved: 2 becomes 2.0 for a float dtype, 2.0 becomes 2 for an integer dtype, 2.5 is unchanged.
    """
    if isinstance(value, np.generic | np.ndarray) and np.ndim(value) == 0:
        value = value.item()
    if is_float(dtype) and isinstance(value, int) and not isinstance(value, bool):
        try:
            return float(value)
        except OverflowError:  # beyond float64, and therefore beyond every dtype
            return value
    if is_integer(dtype) and isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def scalar_misfit(value: Any, dtype: np.dtype) -> str:
    """Why a tensor of `dtype` cannot hold `value`, with the fix; ``""`` if it can."""
    name = dtype_name(dtype)
    if dtype == np.bool_:
        return "" if isinstance(value, bool) else f"bool holds True or False, got {value!r}; compare with 0 first"
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{name} holds a number, got {value!r}; use constant for arrays and dtype bool for truth"
    if is_float(dtype):
        if isinstance(value, int):  # `plain_scalar` left it because no float64 can hold it
            return f"an integer of {value.bit_length()} bits overflows {name}; use inf or a smaller value"
        with np.errstate(over="ignore"):
            held = float(np.asarray(value, np.float64).astype(dtype))
        fits = np.isfinite(held) or not np.isfinite(value)
        return "" if fits else f"{value!r} overflows {name}; use inf, a smaller value or a wider dtype"
    if not isinstance(value, int):
        return f"{name} holds integers, got {value!r}; round it or use a float dtype"
    limits = np.iinfo(dtype)
    if not limits.min <= value <= limits.max:
        return f"{name} holds {limits.min} to {limits.max}, got {value}; use a wider dtype"
    return ""


@dataclass(frozen=True, slots=True)
class Full(Operator):
    """A tensor filled with one value.

    Parameters
    ----------
    value : float, int or bool
        The value, of the kind of `dtype`.
    shape : tuple of int
        Shape of the result.
    dtype : dtype, default f32
        Dtype of the result.
    """

    name: ClassVar[str] = "full"
    flops: ClassVar[float] = 0.0
    value: float | int | bool
    shape: tuple[int, ...] = ()
    dtype: np.dtype = DTYPES["f32"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))
        object.__setattr__(self, "value", plain_scalar(self.value, self.dtype))

    def infer(self) -> TensorType:
        """The type given by the attributes; raises if the dtype cannot hold the value."""
        misfit = scalar_misfit(self.value, self.dtype)
        if misfit:
            raise TypeRuleError(f"full: {misfit}")
        return TensorType(self.shape, self.dtype)

    def reference(self) -> np.ndarray:
        """`numpy.full`."""
        return np.full(self.shape, self.value, self.dtype)

    def vjp(self, ct: Value, out: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: there are no operands."""
        return ()

    def lower(self, k: Builder, index: Index) -> Scalar:  # noqa: ARG002
        """The value."""
        return k.const(self.value, self.dtype)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Every kind of value; sizes 0 and 1; values that the dtype cannot hold."""
        good = [
            cls(1.5, (2, 3)),
            cls(2, ()),
            cls(-0.0, (1,), DTYPES["f64"]),
            cls(float("inf"), (3,)),
            cls(float("nan"), (2,)),
            cls(7, (0, 4), DTYPES["i64"]),
            cls(255, (2,), DTYPES["u8"]),
            cls(True, (2, 2), DTYPES["bool"]),
        ]
        bad = [
            (cls(300, (2,), DTYPES["u8"]), "u8 holds 0 to 255, got 300"),
            (cls(2.5, (2,), DTYPES["i32"]), "i32 holds integers, got 2.5"),
            (cls(1e300, (2,)), "1e+300 overflows f32"),
            (cls(True, (2,)), "f32 holds a number, got True"),
            (cls(1, (2,), DTYPES["bool"]), "bool holds True or False, got 1"),
            (cls(1.0, (-2,)), "a shape must be integers of at least 0"),
        ]
        return [Sample(op, ()) for op in good] + [Sample(op, (), error) for op, error in bad]


@dataclass(frozen=True, slots=True)
class Iota(Operator):
    """Each element is its coordinate along one axis: 0, 1, 2, ...

    Parameters
    ----------
    shape : tuple of int
        Shape of the result, of rank at least 1.
    axis : int, default 0
        The axis whose coordinate is taken.
    dtype : dtype, default i64
        Any number type; an integer type must be able to hold the last coordinate.
    """

    name: ClassVar[str] = "iota"
    flops: ClassVar[float] = 0.0
    shape: tuple[int, ...]
    axis: int = 0
    dtype: np.dtype = DTYPES["i64"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def infer(self) -> TensorType:
        """The type given by the attributes."""
        result = TensorType(self.shape, self.dtype)
        if not 0 <= self.axis < result.rank:
            raise TypeRuleError(
                f"iota: axis must be from 0 to {result.rank - 1} for {result}, got {self.axis}; choose one of its axes"
            )
        if self.dtype == np.bool_:
            raise TypeRuleError(f"iota: the dtype must be numeric, got {result}; use i64")
        last = max(result.shape[self.axis] - 1, 0)
        misfit = scalar_misfit(plain_scalar(last, self.dtype), self.dtype)
        if misfit:
            raise TypeRuleError(f"iota: {misfit}")
        return result

    def reference(self) -> np.ndarray:
        """`numpy.arange` along the axis, repeated along the others."""
        counted = np.arange(self.shape[self.axis]).astype(self.dtype)
        column = counted.reshape([-1 if axis == self.axis else 1 for axis in range(len(self.shape))])
        return np.broadcast_to(column, self.shape).copy()

    def vjp(self, ct: Value, out: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: there are no operands."""
        return ()

    def lower(self, k: Builder, index: Index) -> Scalar:
        """The coordinate as a number."""
        return k.coordinate(index[self.axis], self.dtype)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Each axis, several dtypes, sizes 0 and 1."""
        good = [
            cls((4,)),
            cls((2, 3), 0, DTYPES["f32"]),
            cls((2, 3), 1, DTYPES["i32"]),
            cls((2, 1, 3), 2, DTYPES["f64"]),
            cls((1,), 0, DTYPES["u8"]),
            cls((0, 3), 0),
        ]
        bad = [
            (cls((2, 3), 2), "iota: axis must be from 0 to 1 for i64[2,3], got 2"),
            (cls((), 0), "iota: axis must be from 0 to -1"),
            (cls((300,), 0, DTYPES["u8"]), "u8 holds 0 to 255, got 299"),
            (cls((3,), 0, DTYPES["bool"]), "the dtype must be numeric, got"),
        ]
        return [Sample(op, ()) for op in good] + [Sample(op, (), error) for op, error in bad]


@dataclass(frozen=True, slots=True)
class Constant(Operator):
    """A literal array.

    Parameters
    ----------
    data : bytes
        The elements in C order, little-endian like all supported machines; ``size * itemsize`` bytes.
    shape : tuple of int
        Shape of the result.
    dtype : dtype
        Dtype of the result.
    """

    name: ClassVar[str] = "constant"
    flops: ClassVar[float] = 0.0
    data: bytes
    shape: tuple[int, ...]
    dtype: np.dtype = DTYPES["f32"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "data", bytes(self.data))
        object.__setattr__(self, "shape", tuple(self.shape))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def infer(self) -> TensorType:
        """The type given by the attributes; raises if the number of bytes does not match."""
        result = TensorType(self.shape, self.dtype)
        if len(self.data) != result.nbytes:
            raise TypeRuleError(
                f"constant: {result} takes {result.nbytes} bytes, got {len(self.data)}; use ops.constant(array)"
            )
        return result

    def reference(self) -> np.ndarray:
        """The array."""
        return np.frombuffer(self.data, self.dtype).reshape(self.shape).copy()

    def vjp(self, ct: Value, out: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: there are no operands."""
        return ()

    def lower(self, k: Builder, index: Index) -> Scalar:
        """The element of the literal at the index."""
        return k.constant_data(self.data, self.shape, self.dtype, index)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Several dtypes and ranks, an empty array, a wrong length."""
        arrays = [
            np.arange(6, dtype=np.float32).reshape(2, 3) / 7,
            np.array(-1.5, np.float64),
            np.array([3, -1, 2], np.int64),
            np.array([[True], [False]]),
            np.zeros((0, 2), np.float32),
            np.arange(4).astype(DTYPES["bf16"]),
        ]
        good = [Sample(_literal(array), ()) for array in arrays]
        return [*good, Sample(cls(b"\0" * 7, (2,)), (), "constant: f32[2] takes 8 bytes, got 7")]


def _literal(array: np.ndarray) -> Constant:
    return Constant(array.tobytes(), array.shape, array.dtype)


def full(value: float | int | bool, shape: int | tuple[int, ...] | list[int], dtype: object = "f32") -> Value:
    """A tensor filled with one value.

    Parameters
    ----------
    value : float, int or bool
        The value, possibly a NumPy scalar.
    shape : int or sequence of int
        Shape of the result; an int means one axis.
    dtype : str or numpy dtype, default "f32"
        Dtype of the result.

    Raises
    ------
    TypeRuleError
        If the dtype cannot hold the value: 2.5 in i32, 300 in u8, 1e300 in f32.
    """
    return apply(Full(value, (shape,) if isinstance(shape, int) else tuple(shape), as_dtype(dtype)))


def iota(shape: int | tuple[int, ...] | list[int], axis: int = 0, dtype: object = "i64") -> Value:
    """Each element is its coordinate along `axis`.

    Parameters
    ----------
    shape : int or sequence of int
        Shape of the result; an int means one axis.
    axis : int, default 0
        The axis whose coordinate is taken; negative counts from the end.
    dtype : str or numpy dtype, default "i64"
        Any number type.

    Examples
    --------
    ``iota((2, 3), axis=1)`` is ``[[0, 1, 2], [0, 1, 2]]``.
    """
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    return apply(Iota(sizes, axis_of("iota", axis, len(sizes)), as_dtype(dtype)))


def constant(array: Any, dtype: object = None) -> Value:
    """A literal array.

    Parameters
    ----------
    array : array_like
        The elements, copied into the graph. Python floats become f32 and Python integers i64.
    dtype : str or numpy dtype, optional
        The dtype to convert to; default: the array's own.
    """
    elements = np.asarray(array)
    if dtype is not None:
        elements = elements.astype(as_dtype(dtype))
    elif not isinstance(array, np.ndarray | np.generic) and elements.dtype == np.float64:
        elements = elements.astype(np.float32)
    return apply(_literal(elements.astype(as_dtype(elements.dtype.newbyteorder("=")))))
