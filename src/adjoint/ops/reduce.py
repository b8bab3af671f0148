"""Reductions over axes: sum, mean, product, maximum, minimum, and the position of the maximum.

Constructors take ``axis`` as None (all axes), an int, or several, negative counting from the end; the classes store
axes counted from the start, ascending. `ReduceSum` itself is in `adjoint.ops.shape`, next to the broadcast.
"""

from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import divide, multiply
from adjoint.ops.axes import Axes, axes_of, axis_of, fill
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.convert import cast
from adjoint.ops.logic import equal
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import (
    ReduceSum,
    Reduction,
    concat,
    expand_dims,
    pad,
    permute,
    reduced_shape,
    reshape,
    slice_axis,
    spread_back,
    sum,
)
from adjoint.ops.sizes import count

__all__ = [
    "ArgMax",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "argmax",
    "max",
    "mean",
    "min",
    "prod",
    "sum",
    "widened",
]


def _good(cls: type[Reduction], *, empty: bool = False) -> list[Sample]:
    """Every choice of axes, the other dtypes, sizes 0 and 1; with `empty`, also an axis without elements."""
    choices: list[tuple[int, ...]] = [(), (0,), (1,), (2,), (0, 2), (1, 2), (0, 1, 2)]
    good = [Sample(cls(axes, keep), (spread(2, 3, 4),)) for axes in choices for keep in (False, True)]
    whole = np.array([[3, -2, 5], [3, 4, -7]], np.int32)
    return [
        *good,
        Sample(cls((1,)), (spread(3, 5, dtype="f64"),)),
        Sample(cls((0,)), (spread(7, 1, dtype="f64"),)),
        Sample(cls(()), (spread(),)),
        Sample(cls((1,)), (spread(0, 3),)),
        Sample(cls((1,)), (spread(3, 8, dtype="bf16"),), gradient=False),
        *(Sample(cls(axes), (whole,)) for axes in ((0,), (1,), (0, 1))),
        *([Sample(cls((0,)), (spread(0, 3),))] if empty else []),
    ]


def _bad(cls: type[Reduction]) -> list[Sample]:
    return [
        refused(
            cls((2,)), ((2, 3), "f32"), error=f"{cls.name}: axes must be from 0 to 1 at rank 2, got (2,) for f32[2,3]"
        ),
        refused(
            cls((-1,)), ((2, 3), "f32"), error=f"got (-1,) for f32[2,3]; use ops.{cls.name}, which accepts any order"
        ),
        refused(cls((0, 0)), ((2, 3), "f32"), error=f"{cls.name}: axes must be distinct and ascending"),
        refused(cls((0,)), ((2,), "bool"), error="got bool[2]; cast it to i32 first"),
    ]


class _Extreme(Reduction):
    """Base class of maximum and minimum."""

    __slots__ = ()

    def infer(self, *inputs: TensorType) -> TensorType:
        """As for other reductions, but the reduced axes must not be empty."""
        result = Reduction.infer(self, *inputs)
        _not_empty(self.name, inputs[0], self.axes)
        return result

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:
        """The cotangent for the elements that equal the result, split equally among ties as in PyTorch's amax."""
        if not is_float(x.dtype):
            return (None,)
        chosen = cast(equal(x, spread_back(out, x.shape, self.axes)), x.dtype)
        ties = sum(chosen, self.axes, keepdims=True)
        share = divide(reshape(ct, ties.shape), ties)
        return (multiply(chosen, spread_back(share, x.shape, self.axes)),)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Every choice of axes; ties and NaN without the gradient check; empty axes."""
        return [
            *_good(cls),
            Sample(cls((1,)), (np.array([[1, 3, 3], [2, 2, 2]], np.float32),), gradient=False),
            Sample(cls((1,)), (np.array([[1, np.nan, 3], [-np.inf, np.inf, 0]], np.float32),), gradient=False),
            Sample(cls((0,)), (np.array([7, 200, 9], np.uint8),)),
            *_bad(cls),
            refused(
                cls((1,)),
                ((2, 0), "f32"),
                error=f"{cls.name}: a reduced axis must not be empty, got f32[2,0] over axis 1",
            ),
        ]


def lowest(dtype: np.dtype) -> float:
    """The least number of a dtype."""
    return float("-inf") if is_float(dtype) else int(np.iinfo(dtype).min)


def _not_empty(name: str, x: TensorType, axes: tuple[int, ...]) -> None:
    for axis in axes:
        if x.shape[axis] == 0:
            raise TypeRuleError(
                f"{name}: a reduced axis must not be empty, got {x} over axis {axis}; skip the empty tensor"
            )


@dataclass(frozen=True, slots=True)
class ReduceMax(_Extreme):
    """The maximum over axes; NaN if any element is NaN.

    The gradient goes to the maximum elements, in equal shares.

    Parameters
    ----------
    axes : tuple of int
        The axes to reduce, counted from the start, ascending, none of them empty.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """

    name: ClassVar[str] = "max"
    kind: ClassVar[str] = "max"

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:
        """The least number of the dtype."""
        return (lowest(inputs[0].dtype),)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.max`."""
        return rounded(lambda wide: wide.max(self.axes, keepdims=self.keepdims), x)


@dataclass(frozen=True, slots=True)
class ReduceMin(_Extreme):
    """The minimum over axes; NaN if any element is NaN.

    The gradient goes to the minimum elements, in equal shares.

    Parameters
    ----------
    axes : tuple of int
        The axes to reduce, counted from the start, ascending, none of them empty.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """

    name: ClassVar[str] = "min"
    kind: ClassVar[str] = "min"

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:
        """The greatest number of the dtype."""
        dtype = inputs[0].dtype
        return (float("inf") if is_float(dtype) else int(np.iinfo(dtype).max),)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.min`."""
        return rounded(lambda wide: wide.min(self.axes, keepdims=self.keepdims), x)


@dataclass(frozen=True, slots=True)
class ReduceProd(Reduction):
    """The product over axes, 1 for an empty axis; integers wrap around in their own dtype.

    Parameters
    ----------
    axes : tuple of int
        The axes to reduce, counted from the start, ascending.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """

    name: ClassVar[str] = "prod"
    kind: ClassVar[str] = "mul"

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.prod`."""
        return rounded(lambda wide: wide.prod(self.axes, dtype=wide.dtype, keepdims=self.keepdims), x)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """For each element, the product of the other elements.

        Computed without division, as products over a binary tree. So zeros in the data need no special case in
        derivatives of any order, and the work is linear.
        """
        if not is_float(x.dtype):
            return (None,)
        if not self.axes or not x.type.size:
            return (ct if not self.axes else spread_back(ct, x.shape, self.axes),)
        rank = len(x.shape)
        kept = [axis for axis in range(rank) if axis not in self.axes]
        order = [*kept, *self.axes]
        lead = [x.shape[axis] for axis in kept]
        rows = reshape(permute(x, order), (*lead, -1))
        grown = _product_gradient(rows, reshape(ct, (*lead, 1)))
        back = [order.index(axis) for axis in range(rank)]
        return (permute(reshape(grown, [x.shape[axis] for axis in order]), back),)

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:  # noqa: ARG002
        """A product does not change if it is multiplied by 1."""
        return (1,)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Every choice of axes; one and two zeros among the factors."""
        zeros = np.array([[1.5, 0.0, -2.0, 0.5], [0.0, 3.0, 0.0, 2.0]], np.float64)
        return [
            *_good(cls, empty=True),
            Sample(cls((1,)), (zeros,)),
            Sample(cls((0, 1)), (zeros,)),
            Sample(cls((0,)), (np.array([100, 3], np.int8),)),
            *_bad(cls),
        ]


def _product_gradient(x: Value, ct: Value) -> Value:
    """`ct` times, for each element of the last axis, the product of the other elements.

    The two halves are multiplied repeatedly until one product is left. On the way back, the cotangent of each half is
    that of the product times the other half.
    """
    halves: list[tuple[Value, Value, int]] = []
    while x.shape[-1] > 1:
        size = x.shape[-1]
        even = _padded(x, size + size % 2)
        middle = even.shape[-1] // 2
        left, right = slice_axis(even, -1, 0, middle), slice_axis(even, -1, middle, 2 * middle)
        halves.append((left, right, size))
        x = multiply(left, right)
    for left, right, size in reversed(halves):
        ct = slice_axis(concat(multiply(ct, right), multiply(ct, left), axis=-1), -1, 0, size)
    return ct


def _padded(x: Value, size: int) -> Value:
    """`x` padded at the end with ones, to `size` on the last axis."""
    rank = len(x.shape)
    return pad(x, 0, [*[0] * (rank - 1), size - x.shape[-1]], 1.0)


@dataclass(frozen=True, slots=True)
class ArgMax(Operator):
    """The i64 coordinate of the maximum along an axis: the first if there are several; NaN counts as greater.

    Parameters
    ----------
    axis : int
        The axis, counted from the start. It must not be empty, and is not in the result.
    """

    name: ClassVar[str] = "argmax"
    axis: int

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape without the axis, as i64."""
        operands(self, inputs, 1)
        require(self, inputs, "float integer unsigned", "cast it to i32 first")
        shape = reduced_shape(self.name, inputs[0], (self.axis,), keepdims=False)
        _not_empty(self.name, inputs[0], (self.axis,))
        return TensorType(shape, DTYPES["i64"])

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.argmax`."""
        return np.asarray(np.argmax(x, self.axis)).astype(np.int64)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: a coordinate is not differentiable."""
        return (None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """An argmax reduction."""
        size = x.type.shape[self.axis]
        return k.reduce("argmax", (size,), lambda r: x(fill(index, (self.axis,), r)))

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:
        """The least number of the dtype, which comes first only if all elements before it are equal to it."""
        return (lowest(inputs[0].dtype),)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The same along the axis that follows."""
        return apply(ArgMax(self.axis + 1), *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Each axis, ties, NaN, integers."""
        return [
            *(Sample(cls(axis), (spread(2, 3, 4),)) for axis in range(3)),
            Sample(cls(0), (spread(9, dtype="f64"),)),
            Sample(cls(1), (spread(0, 3),)),
            Sample(cls(1), (np.array([[1, 3, 3], [2, 2, 2]], np.float32),)),
            Sample(cls(1), (np.array([[1, np.nan, 3, np.nan], [-np.inf, np.inf, 0, np.inf]], np.float32),)),
            Sample(cls(1), (np.array([[-5, -2, -2], [7, 7, 9]], np.int32),)),
            refused(cls(2), ((2, 3), "f32"), error="argmax: axes must be from 0 to 1 at rank 2, got (2,)"),
            refused(
                cls(1), ((2, 0), "f32"), error="argmax: a reduced axis must not be empty, got f32[2,0] over axis 1"
            ),
            refused(cls(0), ((2,), "bool"), error="got bool[2]; cast it to i32 first"),
        ]


def max(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The maximum over axes; NaN if any element is NaN.

    Parameters
    ----------
    x : Value
        Numbers of any dtype; the result has the same.
    axis : int or sequence of int, optional
        The axes to reduce, negative counting from the end, none of them empty; default: all axes.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """
    return apply(ReduceMax(axes_of("max", axis, len(x.shape)), keepdims), x)


def min(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The minimum over axes; NaN if any element is NaN. Parameters as in `max`."""
    return apply(ReduceMin(axes_of("min", axis, len(x.shape)), keepdims), x)


def prod(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The product over axes, 1 if they are empty. Parameters as in `max`, but axes may be empty."""
    return apply(ReduceProd(axes_of("prod", axis, len(x.shape)), keepdims), x)


def widened(x: Value) -> Value:
    """`x`, converted to f32 if it is a 16-bit float, so that squares and sums neither overflow nor lose digits."""
    return cast(x, "f32") if x.dtype.itemsize < 4 else x


def mean(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The sum over axes divided by the number of elements; NaN if there are none. Parameters as in `max`.

    `x` is float. 16-bit floats are computed in f32 and rounded once: a sum in f16 would overflow.
    """
    if not is_float(x.dtype):
        raise TypeRuleError(f"mean: the dtype must be float, got {x.type}; cast to a float such as f32 first")
    axes = axes_of("mean", axis, len(x.shape))
    wide = widened(x)
    return cast(divide(sum(wide, axes, keepdims), count(wide, axes, wide.dtype)), x.dtype)


def argmax(x: Value, axis: int | None = None, keepdims: bool = False) -> Value:
    """The i64 coordinate of the maximum along an axis: the first if there are several; NaN counts as greater.

    Parameters
    ----------
    x : Value
        Numbers of any dtype.
    axis : int, optional
        The axis, negative counting from the end; default: the position in the flattened tensor, as in NumPy.
    keepdims : bool, default False
        Keep the axis, or all axes, in the result, with size 1.
    """
    if axis is None:
        found = apply(ArgMax(0), reshape(x, (-1,) if 0 not in x.shape else (0,)))
        return reshape(found, (1,) * len(x.shape)) if keepdims else found
    at = axis_of("argmax", axis, len(x.shape))
    found = apply(ArgMax(at), x)
    return expand_dims(found, at) if keepdims else found
