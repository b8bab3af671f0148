"""Helpers shared by operators: type rules with suggested fixes, references that round once, sample inputs."""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType, as_dtype, dtype_name, is_float
from adjoint.ir.value import Op, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Elementwise, Sample, same_types

__all__ = [
    "FloatOp",
    "NumberOp",
    "binary_samples",
    "floats",
    "integer_samples",
    "one_row",
    "operands",
    "refused",
    "require",
    "require_float",
    "rounded",
    "unary_samples",
]


def operands(op: Op, inputs: tuple[TensorType, ...], count: int) -> None:
    """Raise if the number of operands is wrong or an operand is a tuple."""
    if len(inputs) != count:
        given = ", ".join(map(str, inputs)) or "none"
        raise TypeRuleError(f"{op.name}: takes {count} operand{'s' * (count > 1)}, got {given}; pass {count}")
    for type_ in inputs:
        if not isinstance(type_, TensorType):
            raise TypeRuleError(f"{op.name}: operands must be tensors, got {type_}; extract one with tuple_get")


def require(op: Op, inputs: tuple[TensorType, ...], kinds: str, fix: str) -> None:
    """Raise if the dtype of an operand is not among `kinds`.

    Parameters
    ----------
    op : Op
        Named in the error.
    inputs : tuple of TensorType
        The operands.
    kinds : str
        Space-separated words from ``float``, ``integer`` (signed), ``unsigned`` and ``bool``.
    fix : str
        What to do instead: the end of the error message.
    """
    for type_ in inputs:
        if _kind(type_.dtype) not in kinds.split():
            words = kinds.replace(" ", " or ")
            raise TypeRuleError(f"{op.name}: the dtype must be {words}, got {type_}; {fix}")


def require_float(name: str, x: Value) -> None:
    """Raise if a value is not float; `name` is the function, for the error."""
    if not is_float(x.dtype):
        raise TypeRuleError(f"{name}: the dtype must be float, got {x.type}; cast to a float such as f32 first")


def one_row(name: str, argument: str, row: Value, x: Value) -> Value:
    """`row`; raises if it is not one row along the last axis of `x`."""
    if row.shape != x.shape[-1:] or row.dtype != x.dtype:
        wanted = f"{dtype_name(x.dtype)}[{x.shape[-1]}]"
        raise TypeRuleError(f"{name}: {argument} must be one row of {x.type}, got {row.type}; pass {wanted}")
    return row


def _kind(dtype: np.dtype) -> str:
    if is_float(dtype):
        return "float"
    return {"i": "integer", "u": "unsigned", "b": "bool"}[dtype.kind]


@dataclass(frozen=True, slots=True)
class FloatOp(Elementwise):
    """An elementwise operator on floats of one type, such as ``exp``."""

    #: Number of operands.
    arity: ClassVar[int] = 1

    def infer(self, *inputs: TensorType) -> TensorType:
        """Floats of one type, which is also the result's."""
        operands(self, inputs, self.arity)
        require(self, inputs, "float", "cast to a float such as f32 first")
        return same_types(self, *inputs)


@dataclass(frozen=True, slots=True)
class NumberOp(Elementwise):
    """An elementwise operator on floats or integers of one type, such as ``add``."""

    #: Number of operands.
    arity: ClassVar[int] = 2

    def infer(self, *inputs: TensorType) -> TensorType:
        """Numbers of one type, which is also the result's."""
        operands(self, inputs, self.arity)
        require(self, inputs, "float integer unsigned", "cast it, or use a logical operator")
        return same_types(self, *inputs)


def rounded(function: Callable[..., Any], *inputs: np.ndarray) -> np.ndarray:
    """Apply a NumPy function; 16-bit floats are computed in float32 and rounded once, overflow warnings suppressed."""
    wide = [x.astype(np.float32) if is_float(x.dtype) and x.dtype.itemsize == 2 else x for x in inputs]
    with np.errstate(all="ignore"):
        return np.asarray(function(*wide)).astype(inputs[0].dtype, copy=False)


def floats(*shape: int, low: float = -2.0, high: float = 2.0, dtype: object = "f32", seed: int = 0) -> np.ndarray:
    """Sample input: uniform random floats in ``[low, high)``, always the same."""
    drawn = np.random.default_rng(seed).uniform(low, high, shape)
    return np.asarray(drawn).astype(as_dtype(dtype))


def refused(op: Any, *types: tuple[tuple[int, ...], str], error: str) -> Sample:
    """An invalid sample: zeros of these ``(shape, dtype)`` must be rejected with `error` in the message."""
    return Sample(op, tuple(np.zeros(shape, as_dtype(dtype)) for shape, dtype in types), error=error)


def unary_samples(op: Any, low: float = -2.0, high: float = 2.0, *, gradient: bool = True) -> list[Sample]:
    """Samples of a unary float operator: every float dtype, odd and empty shapes, and a rejected integer."""
    good = [
        Sample(op, (floats(3, 7, low=low, high=high),), gradient=gradient),
        Sample(op, (floats(low=low, high=high, dtype="f64", seed=1),), gradient=gradient),
        Sample(op, (floats(17, low=low, high=high, dtype="f64", seed=2),), gradient=gradient),
        Sample(op, (floats(5, low=low, high=high, dtype="f16", seed=3),), gradient=False),
        Sample(op, (floats(5, low=low, high=high, dtype="bf16", seed=4),), gradient=False),
        Sample(op, (floats(0, 3),), gradient=False),
    ]
    bad = refused(op, ((3,), "i32"), error=f"{op.name}: the dtype must be float")
    return [*good, bad]


def binary_samples(op: Any, low: float = -2.0, high: float = 2.0, *, gradient: bool = True) -> list[Sample]:
    """Samples of a binary float operator: every float dtype, odd and empty shapes, and rejected mixed types."""

    def pair(*shape: int, dtype: str, seed: int) -> tuple[np.ndarray, np.ndarray]:
        return (
            floats(*shape, low=low, high=high, dtype=dtype, seed=seed),
            floats(*shape, low=low, high=high, dtype=dtype, seed=seed + 100),
        )

    return [
        Sample(op, pair(3, 7, dtype="f32", seed=0), gradient=gradient),
        Sample(op, pair(17, dtype="f64", seed=1), gradient=gradient),
        Sample(op, pair(dtype="f64", seed=2), gradient=gradient),
        Sample(op, pair(5, dtype="f16", seed=3), gradient=False),
        Sample(op, pair(5, dtype="bf16", seed=4), gradient=False),
        Sample(op, pair(0, dtype="f32", seed=5), gradient=False),
        refused(op, ((3,), "f32"), ((3,), "f64"), error="operands must have the same dtype, got f32[3] and f64[3]"),
        refused(op, ((3,), "f32"), ((1,), "f32"), error="operands must have the same shape, got f32[3] and f32[1]"),
    ]


def integer_samples(op: Any, *, unsigned: bool = True) -> list[Sample]:
    """Valid samples of an operator on integers, including the limits of the range; bool is rejected."""
    count = op.arity
    signed = [np.array([-128, -7, -1, 0, 1, 6, 127], np.int8), np.array([3, -2, -1, 5, -1, 4, 2], np.int8)]
    long = [np.array([[5, -9, 0], [7, 2, -1]], np.int64), np.array([[2, 4, -3], [-3, 7, 1]], np.int64)]
    natural = [np.array([0, 1, 200, 255], np.uint8), np.array([3, 7, 100, 2], np.uint8)]
    made = [Sample(op, tuple(signed[:count])), Sample(op, tuple(long[:count]))]
    if unsigned:
        made.append(Sample(op, tuple(natural[:count])))
    return [*made, refused(op, *[((3,), "bool")] * count, error=f"{op.name}: the dtype must be float or integer")]
