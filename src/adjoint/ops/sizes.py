"""The number of elements along axes: the divisor of means, known from the shape alone."""

from dataclasses import replace
from math import prod
from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, as_dtype, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.axes import Axes, axes_of, shifted
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.rules import operands, refused
from adjoint.ops.sampling import spread
from adjoint.ops.shape import broadcast_to, reduced_shape

__all__ = ["Count", "count"]


@dataclass(frozen=True, slots=True)
class Count(Operator):
    """The number of elements of a tensor along some axes, as a scalar; no element is read.

    An operator rather than a constant, so that `adjoint.transforms.mask_batch` can replace it by the number of elements
    in the rows that are present. Otherwise `adjoint.transforms.simplify` replaces it by the constant.

    Parameters
    ----------
    axes : tuple of int
        The axes, counted from the start, ascending. Along no axes there is one element.
    dtype : dtype, default f32
        Float dtype of the result, to which the number is rounded.
    """

    name: ClassVar[str] = "count"
    flops: ClassVar[float] = 0.0
    axes: tuple[int, ...]
    dtype: np.dtype = DTYPES["f32"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def infer(self, *inputs: TensorType) -> TensorType:
        """A scalar."""
        operands(self, inputs, 1)
        reduced_shape(self.name, inputs[0], self.axes, keepdims=False)
        if not is_float(self.dtype):
            raise TypeRuleError(f"count: the dtype must be float, got {self.dtype.name}; use f32 and cast the result")
        return TensorType((), self.dtype)

    def of(self, x: TensorType) -> int:
        """The number for an operand of that type."""
        return prod(x.shape[axis] for axis in self.axes)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """The product of the sizes."""
        return np.asarray(float(prod(x.shape[axis] for axis in self.axes))).astype(self.dtype)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: the number does not depend on the elements."""
        return (None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:  # noqa: ARG002
        """The constant."""
        return k.const(float(self.of(x.type)), self.dtype)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The same number at every position."""
        (x,) = inputs
        return broadcast_to(apply(replace(self, axes=shifted(self.axes)), x), x.shape[:1])

    @classmethod
    def samples(cls) -> list[Sample]:
        """One axis, several, none; an empty axis."""
        return [
            Sample(cls((0,)), (spread(3, 4),)),
            Sample(cls((0, 2)), (spread(2, 3, 4),)),
            Sample(cls((), DTYPES["f64"]), (spread(2),)),
            Sample(cls((0,)), (spread(0, 3),)),
            Sample(cls((1,)), (np.array([[1, 2, 3]], np.int32),)),
            refused(cls((2,)), ((2, 3), "f32"), error="count: axes must be from 0 to 1 at rank 2, got (2,)"),
            refused(cls((0,), DTYPES["i32"]), ((2, 3), "f32"), error="count: the dtype must be float, got int32"),
        ]


def count(x: Value, axis: Axes = None, dtype: object = "f32") -> Value:
    """The number of elements along axes, as a scalar: the divisor of a mean.

    A loss that divides by it, rather than by a number, is also a mean for a batch of fewer rows.

    Parameters
    ----------
    x : Value
        Any tensor; only its shape matters.
    axis : int or sequence of int, optional
        The axes, negative counting from the end; default: all axes.
    dtype : str or numpy dtype, default "f32"
        Float dtype of the result.
    """
    return apply(Count(axes_of("count", axis, len(x.shape)), as_dtype(dtype)), x)
