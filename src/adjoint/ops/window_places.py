"""Positions of elements in windows of an image: find the maximum, read an element, and the gradient of both.

As in PyTorch, the gradient of max pooling goes to the first of equal elements in row-major order, and overlapping
windows add up. It is computed without a scatter: `WindowArgMax` finds the position once per window, and in
`WindowSpread` each element of the image reads the positions of the windows that contain it. `WindowPick` and
`WindowSpread` are each other's gradients.
"""

from typing import ClassVar

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from adjoint.errors import TypeRuleError
from adjoint.ir.types import DTYPES, TensorType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.index import check_ids
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.vectorizing import all_mapped, folded
from adjoint.ops.windows import Pair, fields, images, positions

__all__ = ["OfWindows", "Pooling", "WindowArgMax", "WindowPick", "WindowSpread"]


@dataclass(frozen=True, slots=True)
class Pooling(Operator):
    """Base class of operators over windows of an image ``x[N, C, H, W]``.

    Parameters
    ----------
    window : tuple of int
        Rows and columns of a window.
    stride : tuple of int
        Distance between windows, in rows and columns.
    """

    window: Pair
    stride: Pair

    def __post_init__(self) -> None:
        object.__setattr__(self, "window", tuple(self.window))
        object.__setattr__(self, "stride", tuple(self.stride))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more images."""
        return folded(self, all_mapped(mapped, inputs))

    def pooled(self, x: TensorType) -> tuple[int, ...]:
        """The shape with one element per window."""
        fields(self.name, 1, window=self.window, stride=self.stride)
        images(self.name, "the image", x)
        require(self, (x,), "float", "cast to a float such as f32 first")
        return (*x.shape[:2], *positions(self.name, x.shape[2:], self.window, self.stride))

    def windows(self, x: np.ndarray) -> np.ndarray:
        """All windows: ``[N, C, I, J, *window]``."""
        found = sliding_window_view(x, self.window, axis=(2, 3))
        return np.asarray(found[:, :, :: self.stride[0], :: self.stride[1]])

    def flat_windows(self, x: np.ndarray) -> np.ndarray:
        """All windows, each flattened to one axis."""
        found = self.windows(x)
        return found.reshape(*found.shape[:4], self.window[0] * self.window[1])

    def at(self, index: Index, inside: Index) -> Index:
        """Index in the image of an element of a window."""
        n, c, i, j = index
        return n, c, i * self.stride[0] + inside[0], j * self.stride[1] + inside[1]


#: Samples: ``(window, stride, shape of the image)``.
_CASES: list[tuple[Pair, Pair, tuple[int, ...]]] = [
    ((2, 2), (2, 2), (2, 2, 4, 6)),
    ((2, 2), (2, 2), (1, 1, 5, 7)),
    ((3, 3), (2, 2), (1, 2, 7, 5)),
    ((3, 2), (1, 1), (1, 1, 4, 4)),
    ((1, 2), (3, 3), (1, 1, 7, 9)),
    ((4, 3), (4, 1), (1, 1, 4, 5)),
]


class OfWindows(Pooling):
    """An operator that computes one element per window from the image alone."""

    __slots__ = ()

    def infer(self, *inputs: TensorType) -> TensorType:
        """One element per window."""
        operands(self, inputs, 1)
        return inputs[0].with_shape(self.pooled(inputs[0]))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Adjacent, separate and overlapping windows; incomplete windows at the end; ties, NaN and infinities."""
        edges = np.array([[1, 1, np.nan, 2], [1, 0, 3, np.nan], [-np.inf, -np.inf, 0, 0], [-np.inf, -np.inf, 0, 0]])
        return [
            *(Sample(cls(k, s), (spread(*x, dtype="f64"),)) for k, s, x in _CASES),
            Sample(cls((2, 2), (2, 2)), (spread(2, 3, 6, 34, low=0.1),)),
            Sample(cls((2, 2), (2, 2)), (edges[None, None].astype(np.float32),), gradient=False),
            Sample(cls((2, 3), (1, 2)), (spread(1, 2, 3, 8, dtype="bf16"),), gradient=False),
            Sample(cls((2, 2), (1, 1)), (spread(0, 2, 3, 3),)),
            refused(cls((3, 2), (1, 1)), ((1, 1, 2, 4), "f32"), error="windows that span 3 on an axis of 2"),
            refused(cls((0, 2), (1, 1)), ((1, 1, 2, 4), "f32"), error="window must be two integers of at least 1"),
            refused(cls((2, 2), (1, 0)), ((1, 1, 2, 4), "f32"), error="stride must be two integers of at least 1"),
            refused(cls((2, 2), (1, 1)), ((2, 4, 4), "f32"), error="the image must have 4 axes, got f32[2,4,4]"),
            refused(cls((2, 2), (1, 1)), ((1, 1, 4, 4), "i32"), error="got i32[1,1,4,4]; cast to a float"),
        ]


@dataclass(frozen=True, slots=True)
class WindowArgMax(OfWindows):
    """The position of the maximum of each window, as i64, in row-major order.

    The first of equal elements; NaN counts as greater than any number.
    """

    name: ClassVar[str] = "window_argmax"

    def infer(self, *inputs: TensorType) -> TensorType:
        """One i64 per window."""
        operands(self, inputs, 1)
        return TensorType(self.pooled(inputs[0]), DTYPES["i64"])

    def reference(self, x: np.ndarray) -> np.ndarray:
        """`numpy.argmax` over windows."""
        return np.asarray(np.argmax(self.flat_windows(x), -1)).astype(np.int64)

    def vjp(self, ct: Value, out: Value, x: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: a position is not differentiable."""
        return (None,)

    def lower(self, k: Builder, index: Index, x: Operand) -> Scalar:
        """An argmax over the window's elements in order."""
        high, wide = self.window
        return k.reduce("argmax", (high * wide,), lambda r: x(self.at(index, (r[0] // wide, r[0] % wide))))


def _places(op: Pooling, shape: tuple[int, ...]) -> np.ndarray:
    """Sample positions, one per window."""
    high, wide = op.window
    return np.asarray(np.random.default_rng(1).integers(0, high * wide, shape))


def _check_places(op: Pooling, places: TensorType, shape: tuple[int, ...]) -> None:
    require(op, (places,), "integer unsigned", "take them from window_argmax")
    if places.shape != shape:
        wanted = places.with_shape(shape)
        raise TypeRuleError(
            f"{op.name}: places must have one element per window, {wanted}, got {places}; use the same stride"
        )


@dataclass(frozen=True, slots=True)
class WindowPick(Pooling):
    """One element of each window of an image, at a given position, such as that of `WindowArgMax`.

    The reference rejects a position outside the window; compiled code reads some element of the window.
    """

    name: ClassVar[str] = "window_pick"

    def infer(self, *inputs: TensorType) -> TensorType:
        """One element per window."""
        operands(self, inputs, 2)
        x, places = inputs
        shape = self.pooled(x)
        _check_places(self, places, shape)
        return x.with_shape(shape)

    def reference(self, x: np.ndarray, places: np.ndarray) -> np.ndarray:
        """`numpy.take_along_axis` on windows."""
        check_ids(self.name, places, self.window[0] * self.window[1])
        flat = self.flat_windows(x)
        return np.asarray(np.take_along_axis(flat, places.astype(np.int64)[..., None], -1)[..., 0])

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """`WindowSpread`."""
        x, places = inputs
        return apply(WindowSpread(self.window, self.stride, (x.shape[2], x.shape[3])), ct, places), None

    def lower(self, k: Builder, index: Index, x: Operand, places: Operand) -> Scalar:
        """The element; `Builder.position` keeps it within the window."""
        high, wide = self.window
        at = k.position(places(index), high * wide)
        return x(self.at(index, (at // wide, at % wide)))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Adjacent, separate and overlapping windows."""
        good = []
        for window, stride, shape in _CASES:
            op = cls(window, stride)
            found = _places(op, (*shape[:2], *positions(op.name, shape[2:], window, stride)))
            good.append(Sample(op, (spread(*shape, dtype="f64"), found)))
        x: tuple[tuple[int, ...], str] = ((1, 1, 4, 4), "f32")
        return [
            *good,
            Sample(cls((2, 2), (2, 2)), (spread(1, 1, 2, 4), np.array([[[[3, 0]]]], np.uint8))),
            refused(cls((2, 2), (2, 2)), x, ((1, 1, 3, 3), "i64"), error="i64[1,1,2,2], got i64[1,1,3,3]"),
            refused(cls((2, 2), (2, 2)), x, ((1, 1, 2, 2), "f32"), error="got f32[1,1,2,2]; take them from"),
        ]


@dataclass(frozen=True, slots=True)
class WindowSpread(Pooling):
    """Add each window's cotangent to an image of zeros at the given position: the gradient of `WindowPick`.

    The reference rejects a position outside the window; compiled code skips it.

    Parameters
    ----------
    size : tuple of int
        Rows and columns of the image.
    """

    name: ClassVar[str] = "window_spread"
    size: Pair

    def __post_init__(self) -> None:
        Pooling.__post_init__(self)
        object.__setattr__(self, "size", tuple(self.size))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type of the image."""
        operands(self, inputs, 2)
        ct, places = inputs
        images(self.name, "the cotangent", ct)
        fields(self.name, 0, size=self.size)
        result = ct.with_shape((*ct.shape[:2], *self.size))
        shape = self.pooled(result)
        if ct.shape != shape:
            raise TypeRuleError(
                f"{self.name}: the cotangent must have one element per window of {result}, {ct.with_shape(shape)}, "
                f"got {ct}; correct size"
            )
        _check_places(self, places, shape)
        return result

    def reference(self, ct: np.ndarray, places: np.ndarray) -> np.ndarray:
        """A sum of images, one for each position in a window."""
        high, wide = self.window
        check_ids(self.name, places, high * wide)

        def spread_out(wide_ct: np.ndarray) -> np.ndarray:
            result = np.zeros((*ct.shape[:2], *self.size), wide_ct.dtype)
            for place in range(high * wide):
                i, j = place // wide, place % wide
                rows = np.s_[i : i + ct.shape[2] * self.stride[0] : self.stride[0]]
                columns = np.s_[j : j + ct.shape[3] * self.stride[1] : self.stride[1]]
                result[:, :, rows, columns] += np.where(places == place, wide_ct, 0)
            return result

        return rounded(spread_out, ct)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """`WindowPick`."""
        return apply(WindowPick(self.window, self.stride), ct, inputs[1]), None

    def lower(self, k: Builder, index: Index, ct: Operand, places: Operand) -> Scalar:
        """A sum over the windows that may contain the element, of which there is one if they do not overlap."""
        n, c, *at = index
        steps = zip(at, self.stride, strict=True)
        newest, first = zip(*((i // s, i % s) for i, s in steps), strict=True)
        overlaps = [-(-size // s) for size, s in zip(self.window, self.stride, strict=True)]

        def window(r: Index) -> Scalar:
            own = tuple(newest[axis] - r[axis] for axis in (0, 1))
            inside = [first[axis] + r[axis] * self.stride[axis] for axis in (0, 1)]
            exists = k.const(True, DTYPES["bool"])
            for axis in (0, 1):
                exists = k.call("and", exists, k.inside(own[axis], 0, ct.type.shape[2 + axis]))
                exists = k.call("and", exists, k.inside(inside[axis], 0, self.window[axis]))
            zero = k.const(0, ct.type.dtype)

            def share() -> Scalar:
                place = k.coordinate(inside[0] * self.window[1] + inside[1], DTYPES["i64"])
                chosen = k.call("eq", k.cast(places((n, c, *own)), DTYPES["i64"]), place)
                return k.select(chosen, ct((n, c, *own)), zero)

            return k.choose(exists, share, lambda: zero)

        return window((0, 0)) if overlaps == [1, 1] else k.reduce("add", overlaps, window)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Adjacent, separate and overlapping windows; incomplete windows at the end."""
        good = []
        for window, stride, shape in _CASES:
            op = cls(window, stride, (shape[2], shape[3]))
            pooled = (*shape[:2], *positions(op.name, shape[2:], window, stride))
            good.append(Sample(op, (spread(*pooled, dtype="f64"), _places(op, pooled))))
        ct: tuple[tuple[int, ...], str] = ((1, 1, 2, 2), "f32")
        wide = cls((2, 2), (2, 2), (4, 34))
        return [
            *good,
            Sample(wide, (spread(1, 2, 2, 17), _places(wide, (1, 2, 2, 17)))),
            refused(cls((2, 2), (2, 2), (6, 4)), ct, ((1, 1, 2, 2), "i64"), error="f32[1,1,3,2], got f32[1,1,2,2]"),
            refused(cls((2, 2), (2, 2), (4, 4)), ct, ((1, 1, 2, 3), "i64"), error="i64[1,1,2,2], got i64[1,1,2,3]"),
        ]
