"""Broadcasting, the sum over axes, which is its gradient, and stacking along a new axis.

Reshape, permute and flip are in `adjoint.ops.views`, slice, pad and concat in `adjoint.ops.slicing`; both are
re-exported here. The sum is re-exported by `adjoint.ops.reduce`, with the other reductions.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.axes import Axes, axes_of, axis_of, bad_axes, fill, shifted, without
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.slicing import Concat, Pad, Slice, concat, pad, slice, slice_axis
from adjoint.ops.views import Flip, Permute, Reshape, brackets, expand_dims, flip, permute, reshape, squeeze, transpose

__all__ = [
    "BroadcastTo",
    "Concat",
    "Flip",
    "Pad",
    "Permute",
    "ReduceSum",
    "Reduction",
    "Reshape",
    "Slice",
    "broadcast_to",
    "concat",
    "expand_dims",
    "flip",
    "pad",
    "permute",
    "reduced_shape",
    "reshape",
    "slice",
    "slice_axis",
    "spread_back",
    "squeeze",
    "stack",
    "sum",
    "transpose",
]


@dataclass(frozen=True, slots=True)
class BroadcastTo(Operator):
    """Repeat along new leading axes and along axes of size 1, like NumPy.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result. Aligned at the last axis, the operand's sizes must be equal to these or 1.
    """

    name: ClassVar[str] = "broadcast_to"
    flops: ClassVar[float] = 0.0
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's dtype in the new shape."""
        operands(self, inputs, 1)
        (x,) = inputs
        result = x.with_shape(self.shape)
        new = result.rank - x.rank
        if new < 0 or any(a not in (1, b) for a, b in zip(x.shape, result.shape[new:], strict=True)):
            raise TypeRuleError(
                f"broadcast_to: sizes, aligned at the last axis, must be equal or 1, got {x} to "
                f"{brackets(self.shape)}; reshape it first to position its axes"
            )
        return result

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.broadcast_to`, copied."""
        return np.broadcast_to(x, self.shape).copy()

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The sum over the repetitions; none for integers."""
        if not is_float(x.dtype):
            return (None,)
        new = len(out.shape) - len(x.shape)
        stretched = [axis + new for axis, size in enumerate(x.shape) if size != out.shape[axis + new]]
        return (reshape(sum(ct, (*range(new), *stretched)), x.shape),)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:  # noqa: ARG002
        """The repeated element."""
        own = index[len(self.shape) - x.type.rank :]
        return x(tuple(0 if size == 1 else i for i, size in zip(own, x.type.shape, strict=True)))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """A broadcast of the other axes, which new axes precede."""
        (x,) = inputs
        size, *shape = x.shape
        new = (1,) * (len(self.shape) - len(shape))
        return broadcast_to(reshape(x, (size, *new, *shape)), (size, *self.shape))

    @classmethod
    def samples(cls) -> list[Sample]:
        """New axes, stretched axes, both, neither; sizes 0 and 1; other dtypes."""
        shapes = [((3,), (2, 3)), ((2, 1), (2, 3)), ((1, 3, 1), (4, 2, 3, 2)), ((), (2, 2)), ((2, 3), (2, 3))]
        good = [Sample(cls(to), (spread(*of),)) for of, to in shapes]
        return [
            *good,
            Sample(cls((2, 3)), (spread(2, 1, dtype="f64"),)),
            Sample(cls((0, 3)), (spread(1, 3),)),
            Sample(cls((2, 0)), (spread(2, 0),)),
            Sample(cls((2, 3)), (np.array([1, -2, 3], np.int32),)),
            Sample(cls((2, 2)), (np.array([[True], [False]]),)),
            refused(cls((2, 4)), ((2, 3), "f32"), error="be equal or 1, got f32[2,3] to [2,4]; reshape it first"),
            refused(cls((3,)), ((1, 3), "f32"), error="got f32[1,3] to [3]"),
            refused(cls((0,)), ((2,), "f32"), error="got f32[2] to [0]"),
            refused(cls((2, -1)), ((2, 1), "f32"), error="a shape must be integers of at least 0"),
        ]


@dataclass(frozen=True, slots=True)
class Reduction(Operator):
    """Base class of reductions that keep the operand's dtype.

    Parameters
    ----------
    axes : tuple of int
        The axes to reduce, counted from the start, ascending. If empty, the operand is unchanged.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """

    #: The kind of reduction, for `Builder.reduce`.
    kind: ClassVar[str]
    axes: tuple[int, ...]
    keepdims: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape without the axes, or with size 1 there."""
        operands(self, inputs, 1)
        require(self, inputs, "float integer unsigned", "cast it to i32 first")
        return inputs[0].with_shape(reduced_shape(self.name, inputs[0], self.axes, self.keepdims))

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """A reduction over the axes."""
        if not self.axes:
            return x(index)
        rest = without(index, self.axes) if self.keepdims else index
        extents = [x.type.shape[axis] for axis in self.axes]
        return k.reduce(self.kind, extents, lambda r: x(fill(rest, self.axes, r)))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The same reduction over the other axes."""
        return apply(replace(self, axes=shifted(self.axes)), *inputs)


@dataclass(frozen=True, slots=True)
class ReduceSum(Reduction):
    """The sum over axes.

    Supports all number types; integers wrap around in their own dtype (NumPy would widen them). 16-bit floats are added
    in f32 and rounded once. An empty sum is 0.

    Parameters
    ----------
    axes : tuple of int
        The axes to sum over, counted from the start, ascending. If empty, the operand is unchanged.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """

    name: ClassVar[str] = "sum"
    kind: ClassVar[str] = "add"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.sum`."""
        return rounded(lambda wide: wide.sum(self.axes, dtype=wide.dtype, keepdims=self.keepdims), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent, for every element of the sum; none for integers."""
        return (spread_back(ct, x.shape, self.axes) if is_float(x.dtype) else None,)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Every choice of axes, with and without keepdims; sizes 0 and 1; integers."""
        choices: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (0, 1), (0, 2), (1, 2), (0, 1, 2)]
        good = [Sample(cls(axes, keep), (spread(2, 3, 4),)) for axes in choices for keep in (False, True)]
        return [
            *good,
            Sample(cls((1,)), (spread(3, 5, dtype="f64"),)),
            Sample(cls(()), (spread(),)),
            Sample(cls((0,)), (spread(1, 4),)),
            Sample(cls((0,)), (spread(0, 3),)),
            Sample(cls((1,)), (spread(0, 3),)),
            Sample(cls((1,)), (spread(3, 16, dtype="f16"),), gradient=False),
            Sample(cls((0,)), (np.array([[100, -5], [100, 7]], np.int8),)),
            refused(cls((2,)), ((2, 3), "f32"), error="sum: axes must be from 0 to 1 at rank 2, got (2,) for f32[2,3]"),
            refused(cls((0,)), ((), "f32"), error="sum: a scalar has no axes, got (0,) for f32[]"),
            refused(cls((1, 0)), ((2, 3), "f32"), error="sum: axes must be distinct and ascending, got (1, 0)"),
            refused(cls((0,)), ((2,), "bool"), error="got bool[2]; cast it to i32 first"),
        ]


def reduced_shape(name: str, x: TensorType, axes: tuple[int, ...], keepdims: bool) -> tuple[int, ...]:
    """Shape of a reduction of `x` by the operator called `name`; raises if the axes are invalid."""
    wrong = bad_axes(axes, x.rank)
    if wrong:
        raise TypeRuleError(
            f"{name}: {wrong}, got {axes} for {x}; use ops.{name}, which accepts any order and negative axes"
        )
    left = without(x.shape, axes)
    return fill(left, axes, (1,) * len(axes)) if keepdims else left


def spread_back(value: Value, shape: tuple[int, ...], axes: tuple[int, ...]) -> Value:
    """The result of reducing `shape` over `axes`, with or without keepdims, broadcast to the whole `shape`."""
    return broadcast_to(reshape(value, fill(without(shape, axes), axes, (1,) * len(axes))), shape)


def broadcast_to(x: Value, shape: Sequence[int]) -> Value:
    """Repeat `x` along new leading axes and along axes of size 1, by NumPy's rules.

    Parameters
    ----------
    x : Value
        Any tensor. Returned unchanged if it already has the shape.
    shape : sequence of int
        Shape of the result.
    """
    return x if x.shape == tuple(shape) else apply(BroadcastTo(tuple(shape)), x)


def sum(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The sum over axes.

    Parameters
    ----------
    x : Value
        Numbers of any dtype; the result has the same.
    axis : int or sequence of int, optional
        The axes to sum over, negative counting from the end; default: all axes.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """
    axes = axes_of("sum", axis, len(x.shape))
    return apply(ReduceSum(axes, keepdims), x) if axes else x


def stack(values: Iterable[Value], axis: int = 0) -> Value:
    """Join tensors along a new axis.

    Parameters
    ----------
    values : iterable of Value
        One or more tensors of equal shapes and dtypes.
    axis : int, default 0
        Position of the new axis in the result, whose size is the number of tensors; negative counts from the end.
    """
    if isinstance(values, Value):
        raise TypeRuleError(f"stack: the tensors must be in a list, got {values.type} alone; write stack([x, y])")
    given = list(values)
    if not given:
        raise InvalidValueError("stack: at least one tensor is required, got none; pass one")
    for value in given[1:]:
        if value.type != given[0].type:
            raise TypeRuleError(
                f"stack: the tensors must have equal shapes and dtypes, got {given[0].type} and {value.type}; reshape "
                "or cast them, or use concat"
            )
    at = axis_of("stack", axis, len(given[0].shape) + 1)
    return concat([expand_dims(value, at) for value in given], axis=at)
