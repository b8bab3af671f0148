"""Operators that rearrange elements: reshape, permute and flip, and functions composed of them."""

from collections.abc import Sequence
from math import prod
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.axes import Axes, axes_of, axis_of, bad_axes, fill, shifted, without
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.rules import operands, refused
from adjoint.ops.sampling import spread

__all__ = [
    "Flip",
    "Permute",
    "Reshape",
    "brackets",
    "expand_dims",
    "flatten",
    "flip",
    "permute",
    "reshape",
    "squeeze",
    "swapaxes",
    "transpose",
]


def brackets(shape: Sequence[int]) -> str:
    """A shape as printed in a type: ``[2,3]``."""
    return f"[{','.join(map(str, shape))}]"


@dataclass(frozen=True, slots=True)
class Reshape(Operator):
    """The same elements in the same (row-major) order, in another shape.

    Parameters
    ----------
    shape : tuple of int
        Shape of the result, with as many elements as the operand.
    """

    name: ClassVar[str] = "reshape"
    flops: ClassVar[float] = 0.0
    shape: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", tuple(self.shape))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's dtype in the new shape."""
        operands(self, inputs, 1)
        (x,) = inputs
        result = x.with_shape(self.shape)
        if result.size != x.size:
            raise TypeRuleError(
                f"reshape: the number of elements must not change, got {x} with {x.size} to {brackets(self.shape)} "
                f"with {result.size}; correct one size, or use -1 for it"
            )
        return result

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.reshape`."""
        return x.reshape(self.shape)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent in the operand's shape; none for integers."""
        return (reshape(ct, x.shape) if is_float(x.dtype) else None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:  # noqa: ARG002
        """The element at the same row-major position."""
        return x(_regrouped(index, self.shape, x.type.shape))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """A reshape of the other axes."""
        (x,) = inputs
        return apply(Reshape((x.shape[0], *self.shape)), x)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Splitting, merging, both; axes of size 1 and 0 anywhere."""
        shapes = [
            ((6,), (2, 3)),
            ((2, 3, 4), (6, 4)),
            ((4, 6), (3, 8)),
            ((2, 3, 4), (4, 3, 2)),
            ((2, 1, 6), (1, 2, 2, 3, 1)),
            ((3, 8, 5), (3, 2, 4, 5)),
            ((1, 1), ()),
            ((), (1,)),
            ((2, 0), (0, 5, 7)),
        ]
        return [
            *(Sample(cls(to), (spread(*of),)) for of, to in shapes),
            Sample(cls((3, 2)), (spread(2, 3, dtype="f64"),)),
            Sample(cls((4,)), (np.array([[1, 2], [3, 4]], np.int64),)),
            refused(cls((4, 2)), ((2, 3), "f32"), error="got f32[2,3] with 6 to [4,2] with 8"),
            refused(cls((-1, 2)), ((2, 3), "f32"), error="a shape must be integers of at least 0"),
        ]


def _regrouped(index: Index, shape: Sequence[int], into: Sequence[int]) -> Index:
    """The index into a tensor of shape `into` that corresponds to `index` in its reshape to `shape`.

    Groups of axes with equal products are mapped to each other, so that an axis that is only moved keeps its coordinate
    and expressions stay small. Axes of size 1 are ignored.
    """
    if 0 in into:
        return (0,) * len(into)  # an empty tensor: no element is ever read
    found: list[Coordinate] = [0] * len(into)
    pending = [(i, size) for i, size in zip(index, shape, strict=True) if size != 1]
    wanted = [axis for axis, size in enumerate(into) if size != 1]
    while wanted:
        flat, have = pending.pop(0)
        run = [wanted.pop(0)]
        need = into[run[0]]
        while have != need:
            if have < need:
                i, size = pending.pop(0)
                flat, have = flat * size + i, have * size
            else:
                run.append(wanted.pop(0))
                need *= into[run[-1]]
        for axis in reversed(run[1:]):
            found[axis] = flat % into[axis]
            flat = flat // into[axis]
        found[run[0]] = flat
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Permute(Operator):
    """Reorder the axes: axis ``n`` of the result is axis ``axes[n]`` of the operand.

    Parameters
    ----------
    axes : tuple of int
        Every axis of the operand exactly once, counted from the start.
    """

    name: ClassVar[str] = "permute"
    flops: ClassVar[float] = 0.0
    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's sizes in the new order."""
        operands(self, inputs, 1)
        (x,) = inputs
        if sorted(self.axes) != list(range(x.rank)):
            raise TypeRuleError(
                f"permute: axes must contain each of 0 to {x.rank - 1} once, got {self.axes} for {x}; "
                "use ops.permute for negative axes"
            )
        return x.with_shape(x.shape[axis] for axis in self.axes)

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.transpose`."""
        return np.transpose(x, self.axes).copy()

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent in the original order; none for integers."""
        return (apply(Permute(self._inverse()), ct) if is_float(x.dtype) else None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:  # noqa: ARG002
        """The element at the index in the original order."""
        return x(tuple(index[axis] for axis in self._inverse()))

    def _inverse(self) -> tuple[int, ...]:
        return tuple(self.axes.index(axis) for axis in range(len(self.axes)))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The other axes in the new order."""
        return apply(Permute((0, *(axis + 1 for axis in self.axes))), *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Cycles and swaps of up to four axes; sizes 0 and 1."""
        good: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
            ((2, 3), (1, 0)),
            ((2, 3, 4), (2, 0, 1)),
            ((2, 3, 4), (0, 2, 1)),
            ((2, 1, 3, 2), (3, 1, 0, 2)),
            ((), ()),
            ((0, 3), (1, 0)),
        ]
        return [
            *(Sample(cls(axes), (spread(*shape),)) for shape, axes in good),
            Sample(cls((1, 0)), (spread(2, 3, dtype="f64"),)),
            Sample(cls((1, 0)), (np.array([[True, False, False]]),)),
            refused(cls((0, 0)), ((2, 3), "f32"), error="permute: axes must contain each of 0 to 1 once, got (0, 0)"),
            refused(cls((0,)), ((2, 3), "f32"), error="got (0,) for f32[2,3]"),
        ]


@dataclass(frozen=True, slots=True)
class Flip(Operator):
    """Reverse the elements along axes.

    Parameters
    ----------
    axes : tuple of int
        The axes, counted from the start, ascending.
    """

    name: ClassVar[str] = "flip"
    flops: ClassVar[float] = 0.0
    axes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's type."""
        operands(self, inputs, 1)
        (x,) = inputs
        wrong = bad_axes(self.axes, x.rank)
        if wrong:
            raise TypeRuleError(f"flip: {wrong}, got {self.axes} for {x}; use ops.flip, which accepts any order")
        return x

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.flip`, copied."""
        return np.array(np.flip(x, self.axes))

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent, reversed; none for integers."""
        return (apply(Flip(self.axes), ct) if is_float(x.dtype) else None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:  # noqa: ARG002
        """The element at the mirrored coordinates."""
        sizes = zip(index, x.type.shape, strict=True)
        return x(tuple(size - 1 - i if axis in self.axes else i for axis, (i, size) in enumerate(sizes)))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The other axes reversed."""
        return apply(Flip(shifted(self.axes)), *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """No axis, one, several, all; sizes 0 and 1."""
        choices: list[tuple[int, ...]] = [(), (0,), (1,), (0, 2), (0, 1, 2)]
        return [
            *(Sample(cls(axes), (spread(2, 3, 4),)) for axes in choices),
            Sample(cls((0,)), (spread(5, dtype="f64"),)),
            Sample(cls((0, 1)), (spread(1, 3),)),
            Sample(cls((1,)), (spread(3, 0),)),
            Sample(cls(()), (spread(),)),
            Sample(cls((0,)), (np.array([1, 2, 3], np.int32),)),
            Sample(cls((1,)), (np.array([[True, False, False]]),)),
            refused(
                cls((2,)), ((2, 3), "f32"), error="flip: axes must be from 0 to 1 at rank 2, got (2,) for f32[2,3]"
            ),
            refused(cls((1, 0)), ((2, 3), "f32"), error="flip: axes must be distinct and ascending, got (1, 0)"),
        ]


def reshape(x: Value, shape: int | Sequence[int]) -> Value:
    """The same elements, in row-major order, in another shape.

    Parameters
    ----------
    x : Value
        Any tensor. Returned unchanged if it already has the shape.
    shape : int or sequence of int
        Shape of the result. One size may be -1; it is inferred from the others.

    Raises
    ------
    InvalidValueError
        If the size given as -1 cannot be inferred.
    TypeRuleError
        If the number of elements would change.
    """
    wanted = (shape,) if isinstance(shape, int) else tuple(shape)
    if -1 in wanted:
        known = prod(size for size in wanted if size != -1)
        if wanted.count(-1) > 1 or not known or x.type.size % known:
            raise InvalidValueError(
                f"reshape: one size may be -1 if the others divide the number of elements, got {x.type} to "
                f"{brackets(wanted)}; specify all sizes"
            )
        wanted = tuple(x.type.size // known if size == -1 else size for size in wanted)
    return x if x.shape == wanted else apply(Reshape(wanted), x)


def permute(x: Value, axes: Sequence[int]) -> Value:
    """Reorder the axes.

    Parameters
    ----------
    x : Value
        Any tensor.
    axes : sequence of int
        Axis ``n`` of the result is axis ``axes[n]`` of `x`; negative counts from the end.
    """
    order = tuple(axis_of("permute", axis, len(x.shape)) for axis in axes)
    return x if order == tuple(range(len(x.shape))) else apply(Permute(order), x)


def flip(x: Value, axis: Axes = None) -> Value:
    """Reverse the elements along axes.

    Parameters
    ----------
    x : Value
        Any tensor. Returned unchanged if all the axes have at most one element.
    axis : int or sequence of int, optional
        The axes, negative counting from the end; default: all axes.
    """
    axes = tuple(n for n in axes_of("flip", axis, len(x.shape)) if x.shape[n] > 1)
    return apply(Flip(axes), x) if axes else x


def transpose(x: Value, axes: Sequence[int] | None = None) -> Value:
    """Reorder the axes; by default reverse them, like NumPy (`permute` with a default)."""
    return permute(x, tuple(reversed(range(len(x.shape)))) if axes is None else axes)


def swapaxes(x: Value, axis1: int, axis2: int) -> Value:
    """Exchange two axes, which may be negative; like NumPy's `swapaxes` and PyTorch's ``transpose``."""
    rank = len(x.shape)
    first, second = axis_of("swapaxes", axis1, rank), axis_of("swapaxes", axis2, rank)
    order = list(range(rank))
    order[first], order[second] = second, first
    return permute(x, order)


def flatten(x: Value, start: int = 0) -> Value:
    """Merge the axes from `start`, which may be negative, to the last one into one.

    ``flatten(images, 1)`` turns ``[N, C, H, W]`` into ``[N, C * H * W]``. A scalar becomes a vector of one element.
    """
    first = axis_of("flatten", start, len(x.shape)) if x.shape else 0
    return reshape(x, (*x.shape[:first], prod(x.shape[first:])))


def expand_dims(x: Value, axis: int | Sequence[int]) -> Value:
    """Insert axes of size 1; `axis` is their position in the result, negative counting from its end."""
    count = 1 if isinstance(axis, int) else len(axis)
    axes = axes_of("expand_dims", axis, len(x.shape) + count)
    return reshape(x, fill(x.shape, axes, (1,) * count))


def squeeze(x: Value, axis: Axes = None) -> Value:
    """Remove axes of size 1: those given by `axis`, or all of them.

    Raises
    ------
    InvalidValueError
        If the size of a given axis is not 1.
    """
    if axis is None:
        axes = tuple(n for n, size in enumerate(x.shape) if size == 1)
    else:
        axes = axes_of("squeeze", axis, len(x.shape))
    if any(x.shape[n] != 1 for n in axes):
        raise InvalidValueError(f"squeeze: axes must have size 1, got {axes} of {x.type}; index or reduce the others")
    return reshape(x, without(x.shape, axes))
