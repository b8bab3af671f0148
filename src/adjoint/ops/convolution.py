"""Convolution of images and volumes, with stride, padding, dilation and groups, its transpose, and gradients.

As usual in deep learning, the window is not mirrored. There are three kinds of operators, for images (2d) and volumes
(3d); sequences are images of one row:

- `Conv2d`, the convolution;
- `Conv2dWeightGradient`, the cotangent of its weight;
- `ConvTranspose2d`, the cotangent of its image, which as a layer is called transposed convolution.

They form a closed set: each is linear in both of its operands, and their vjps consist of each other. The first two are
sums of products of two tensors read at affine indices. `adjoint.transforms.polyphase` expresses the third by the
first, except that depthwise ones with a stride of two have a kernel of their own. `simplify` turns padding into a
separate `Pad`, so that reads need no bounds checks when lowered; `keep_padded` lets other operators read the padded
image too.
"""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError, plural
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Sample, Scalar
from adjoint.ops.convolution_cases import CASES, positive
from adjoint.ops.rules import refused, rounded
from adjoint.ops.sliding import Sliding
from adjoint.ops.vectorizing import folded, joined, separated
from adjoint.ops.windows import Pair, fields, images

__all__ = [
    "Conv2d",
    "Conv2dWeightGradient",
    "Conv3d",
    "Conv3dWeightGradient",
    "ConvTranspose2d",
    "ConvTranspose3d",
]


@dataclass(frozen=True, slots=True)
class Conv2d(Sliding):
    """The sum over a window of image times weight: ``x[N, C, H, W]`` and ``w[O, C/groups, KH, KW]``.

    ``result[n, o, i, j] = sum over c, a, b of x[n, c, i * stride + a * dilation - padding, ...] * w[o, c, a, b]``,
    with zeros around the image. 16-bit floats are multiplied and added in f32 and rounded once; integers wrap around.
    """

    name: ClassVar[str] = "conv2d"

    def infer(self, *inputs: TensorType) -> TensorType:
        """An image with one element per window and one channel per output channel of the weight."""
        x, w = self.check(*inputs)
        images(self.name, "the weight", w, self.axes)
        self.divided("output", w.shape[0], w)
        if self.divided("input", x.shape[1], x) != w.shape[1]:
            raise TypeRuleError(
                f"{self.name}: the weight's second axis must hold the input channels per group, got {x} in "
                f"{plural(self.groups, 'group')} and {w}; use size {x.shape[1] // self.groups} there"
            )
        _nonempty(self.name, w)
        return x.with_shape((x.shape[0], w.shape[0], *self.positions(x.shape[2:], w.shape[2:])))

    def reference(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A product with the windows of each group."""

        def grouped(wide_x: np.ndarray, wide_w: np.ndarray) -> np.ndarray:
            windows = np.split(self.windows(wide_x, w.shape[2:]), self.groups, axis=1)
            weights = np.split(wide_w, self.groups)
            inside = (1, *range(2 + self.axes, 2 + 2 * self.axes)), tuple(range(1, w.ndim))
            parts = [np.tensordot(a, b, inside) for a, b in zip(windows, weights, strict=True)]
            return np.moveaxis(np.concatenate(parts, -1), -1, 1)

        return rounded(grouped, x, w)

    def vjp(self, ct: Value, out: Value, x: Value, w: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """A transposed convolution of the cotangent, and a weight gradient; none for integers."""
        if not is_float(x.dtype):
            return None, None
        return apply(_transposed(self, x.shape[2:]), ct, w), apply(_weights(self, w.shape[2:]), x, ct)

    def lower(self, k: Builder, index: Index, x: Operand, w: Operand) -> Scalar:
        """A sum of products over the channels of a group and the window."""
        n, o, *at = index
        output = (o, w.type.shape[0] // self.groups)

        def product(r: Index) -> Scalar:
            return k.call("mul", self.element(k, x, (n, r[0]), output, tuple(at), r[1:]), w((o, *r)))

        return k.reduce("add", w.type.shape[1:], product)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More images, more output channels, or a group for each position."""
        x, w = inputs
        if not mapped[1]:
            return folded(self, (x,), w)
        if not mapped[0]:
            return separated(apply(self, x, joined(w, 0, self.groups)), 1, w.shape[0], self.groups)
        op = replace(self, groups=w.shape[0] * self.groups)
        return separated(apply(op, joined(x, 1), joined(w, 0)), 1, w.shape[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        """Stride, padding, dilation and groups, separately and combined; sizes 0 and 1; integers."""
        good = [
            Sample(cls(*op), (positive(*x, dtype="f64"), positive(*w, dtype="f64"))) for op, x, w in CASES[cls.axes]
        ]
        if cls.axes == 3:
            return [*good, refused(cls(), ((1, 2, 4, 4), "f32"), ((2, 2, 3, 3), "f32"), error="must have 5 axes, got")]
        return [
            *good,
            Sample(cls(padding=(1, 1)), (positive(2, 3, 8, 17), positive(4, 3, 3, 3))),
            Sample(cls(), (positive(2, 5, 4, 4), positive(3, 5, 1, 1))),
            Sample(cls(), (positive(0, 2, 4, 4), positive(3, 2, 3, 3))),
            Sample(
                cls(padding=(1, 1)),
                (positive(1, 2, 4, 5, dtype="f16"), positive(2, 2, 3, 3, dtype="f16")),
                gradient=False,
            ),
            Sample(cls(), (np.arange(32, dtype=np.int32).reshape(1, 2, 4, 4), np.full((1, 2, 2, 2), 7, np.int32))),
            *cls._bad(),
        ]

    @classmethod
    def _bad(cls) -> list[Sample]:
        def bad(op: Conv2d, x: tuple[int, ...], w: tuple[int, ...], error: str) -> Sample:
            return refused(op, (x, "f32"), (w, "f32"), error=error)

        x, w = (2, 4, 8, 8), (6, 4, 3, 3)
        return [
            bad(cls(), x, (6, 3, 3, 3), "got f32[2,4,8,8] in 1 group and f32[6,3,3,3]; use size 4 there"),
            bad(cls(groups=3), x, w, "groups must divide the input channels, got 4 of f32[2,4,8,8] in 3 groups"),
            bad(cls(groups=4), x, w, "groups must divide the output channels, got 6 of f32[6,4,3,3] in 4 groups"),
            bad(cls(groups=0), x, w, "groups must be at least 1, got 0"),
            bad(cls(stride=(0, 1)), x, w, "stride must be two integers of at least 1, got (0, 1)"),
            bad(cls(padding=(0, -1)), x, w, "padding must be two integers of at least 0, got (0, -1)"),
            bad(cls(dilation=(1, 2, 3)), x, w, "dilation must be two integers of at least 1, got (1, 2, 3)"),
            bad(cls(dilation=(1, 4)), x, w, "got windows that span 9 on an axis of 8 padded by 0 on both sides"),
            bad(cls(), x, (6, 4, 0, 3), "a window must not be empty, got f32[6,4,0,3]"),
            bad(cls(), (4, 8, 8), w, "conv2d: the image must have 4 axes, got f32[4,8,8]"),
            bad(cls(), x, (6, 4, 3), "conv2d: the weight must have 4 axes, got f32[6,4,3]"),
            refused(cls(), (x, "f32"), (w, "f64"), error="same dtype, got f32[2,4,8,8] and f64[6,4,3,3]; cast one to"),
            refused(cls(), (x, "bool"), (w, "bool"), error="got bool[2,4,8,8]; cast it to i32 first"),
        ]


@dataclass(frozen=True, slots=True)
class Conv3d(Conv2d):
    """The sum over a window of volume times weight: ``x[N, C, D, H, W]`` and ``w[O, C/groups, KD, KH, KW]``."""

    name: ClassVar[str] = "conv3d"
    axes: ClassVar[int] = 3
    stride: Pair = (1, 1, 1)
    padding: Pair = (0, 0, 0)
    dilation: Pair = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class Conv2dWeightGradient(Sliding):
    """The cotangent of the weight of `Conv2d`, from the image ``x[N, C, H, W]`` and the result's, ``ct[N, O, I, J]``.

    ``result[o, c, a, b] = sum over n, i, j of x[n, c, i * stride + a * dilation - padding, ...] * ct[n, o, i, j]``.
    The attributes are those of the convolution plus its window size, which the shapes do not determine if there is a
    stride.

    Parameters
    ----------
    window : tuple of int
        Rows and columns of the weight.
    """

    name: ClassVar[str] = "conv2d_weight_gradient"
    window: Pair = (1, 1)

    def __post_init__(self) -> None:
        Sliding.__post_init__(self)
        object.__setattr__(self, "window", tuple(self.window))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type of the weight."""
        x, ct = self.check(*inputs)
        images(self.name, "the cotangent", ct, self.axes)
        fields(self.name, 1, self.axes, window=self.window)
        self.divided("output", ct.shape[1], ct)
        wanted = (x.shape[0], ct.shape[1], *self.positions(x.shape[2:], self.window))
        if ct.shape != wanted:
            raise TypeRuleError(
                f"{self.name}: the cotangent must have the type of the convolution, {x.with_shape(wanted)}, got {ct}; "
                "use the convolution's attributes"
            )
        return x.with_shape((ct.shape[1], self.divided("input", x.shape[1], x), *self.window))

    def reference(self, x: np.ndarray, ct: np.ndarray) -> np.ndarray:
        """A product with the windows of each group."""

        def grouped(wide_x: np.ndarray, wide_ct: np.ndarray) -> np.ndarray:
            windows = np.split(self.windows(wide_x, self.window), self.groups, axis=1)
            cotangents = np.split(wide_ct, self.groups, axis=1)
            summed = (0, *range(2, x.ndim))
            parts = [np.tensordot(b, a, (summed, summed)) for a, b in zip(windows, cotangents, strict=True)]
            return np.concatenate(parts)

        return rounded(grouped, x, ct)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """A transposed convolution and a convolution with the new cotangent; none for integers."""
        x, old = inputs
        if not is_float(x.dtype):
            return None, None
        return apply(_transposed(self, x.shape[2:]), old, ct), apply(_plain(self), x, ct)

    def lower(self, k: Builder, index: Index, x: Operand, ct: Operand) -> Scalar:
        """A sum of products over images and windows."""
        o, c, *inside = index
        count, channels, *positions = ct.type.shape
        output = (o, channels // self.groups)

        def product(r: Index) -> Scalar:
            n, *at = r
            return k.call("mul", self.element(k, x, (n, c), output, tuple(at), tuple(inside)), ct((n, o, *at)))

        return k.reduce("add", (count, *positions), product)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More input channels, more output channels, or a group for each position."""
        x, ct = inputs
        if not mapped[1]:
            return separated(apply(self, joined(x, 1, self.groups), ct), 1, x.shape[0])
        if not mapped[0]:
            return separated(apply(self, x, joined(ct, 1, self.groups)), 0, ct.shape[0], self.groups)
        op = replace(self, groups=ct.shape[0] * self.groups)
        return separated(apply(op, joined(x, 1), joined(ct, 1)), 0, ct.shape[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        """The same as for `Conv2d`, with cotangents of the result in place of weights."""
        good = []
        for settings, x, w in CASES[cls.axes]:
            own = cls(*settings, w[2:])
            ct = (x[0], w[0], *own.positions(x[2:], own.window))
            good.append(Sample(own, (positive(*x, dtype="f64"), positive(*ct, dtype="f64"))))
        if cls.axes == 3:
            return [*good, refused(cls(), ((1, 1, 2, 2), "f32"), ((1, 1, 2, 2), "f32"), error="must have 5 axes")]
        types: list[tuple[tuple[int, ...], str]] = [((2, 3, 5, 5), "f32"), ((2, 4, 3, 3), "f32")]
        return [
            *good,
            Sample(cls((1, 1), (1, 1), window=(3, 3)), (positive(2, 3, 8, 17), positive(2, 4, 8, 17))),
            Sample(cls(window=(2, 2)), (positive(0, 2, 3, 3), positive(0, 3, 2, 2))),
            refused(cls(window=(2, 2)), *types, error="the type of the convolution, f32[2,4,4,4], got f32[2,4,3,3]"),
            refused(cls(window=(0, 2)), *types, error="window must be two integers of at least 1, got (0, 2)"),
            refused(cls(groups=2, window=(3, 3)), *types, error="groups must divide the input channels, got 3"),
            refused(cls(window=(3, 3)), types[0], ((2, 3, 3), "f32"), error="the cotangent must have 4 axes"),
        ]


@dataclass(frozen=True, slots=True)
class Conv3dWeightGradient(Conv2dWeightGradient):
    """The cotangent of the weight of `Conv3d`, from ``x[N, C, D, H, W]`` and the result's, ``ct[N, O, I, J, K]``."""

    name: ClassVar[str] = "conv3d_weight_gradient"
    axes: ClassVar[int] = 3
    stride: Pair = (1, 1, 1)
    padding: Pair = (0, 0, 0)
    dilation: Pair = (1, 1, 1)
    window: Pair = (1, 1, 1)


@dataclass(frozen=True, slots=True)
class ConvTranspose2d(Sliding):
    """The cotangent of the image of `Conv2d`, from the result's, ``x[N, C, I, J]``, and ``w[C, O/groups, KH, KW]``.

    ``result[n, o, h, w]`` is the sum of ``x[n, c, i, j] * w[c, o, a, b]`` over all c and over all windows (i, j) and
    their elements (a, b) that are at (h, w): ``i * stride + a * dilation - padding = h``, and likewise for columns.
    The attributes are those of the convolution plus the size of its image, which the shapes do not determine if there
    is a stride.

    Parameters
    ----------
    size : tuple of int
        Rows and columns of the result.
    """

    name: ClassVar[str] = "conv_transpose2d"
    size: Pair = (1, 1)

    def __post_init__(self) -> None:
        Sliding.__post_init__(self)
        object.__setattr__(self, "size", tuple(self.size))

    def is_depthwise_by_two(self, w: TensorType) -> bool:
        """Whether each channel has a window of its own, of at least two rows and columns, that moves by two."""
        own = w.shape[:2] == (self.groups, 1) and min(w.shape[2:]) >= 2
        return self.axes == 2 and own and self.stride == (2, 2) and self.dilation == (1, 1)

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type of the image of the convolution."""
        x, w = self.check(*inputs)
        images(self.name, "the weight", w, self.axes)
        fields(self.name, 0, self.axes, size=self.size)
        self.divided("input", x.shape[1], x)
        if w.shape[0] != x.shape[1]:
            raise TypeRuleError(
                f"{self.name}: the weight's first axis must hold the input channels, got {x} and {w}; use size "
                f"{x.shape[1]} there"
            )
        _nonempty(self.name, w)
        found = self.positions(self.size, w.shape[2:])
        if found != x.shape[2:]:
            raise TypeRuleError(
                f"{self.name}: a convolution of an image of {self.size} must have the size of the operand, got "
                f"{found} for {x}; correct size"
            )
        return x.with_shape((x.shape[0], w.shape[1] * self.groups, *self.size))

    def reference(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A sum of images, one for each element of a window."""

        def grouped(wide_x: np.ndarray, wide_w: np.ndarray) -> np.ndarray:
            pairs = zip(np.split(wide_x, self.groups, axis=1), np.split(wide_w, self.groups), strict=True)
            return np.concatenate([self._spread_out(a, b) for a, b in pairs], axis=1)

        return rounded(grouped, x, w)

    def _spread_out(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """The result of one group, which is cut out of a result without padding."""
        settings = list(zip(self.size, self.padding, self.stride, x.shape[2:], strict=True))
        whole = np.zeros((x.shape[0], w.shape[1], *(n + 2 * p for n, p, _, _ in settings)), x.dtype)
        for taps in np.ndindex(w.shape[2:]):
            starts = [a * d for a, d in zip(taps, self.dilation, strict=True)]
            at = [np.s_[i : i + (n - 1) * s + 1 : s] for i, (_, _, s, n) in zip(starts, settings, strict=True)]
            part = np.tensordot(x, w[(np.s_[:], np.s_[:], *taps)], (1, 0))
            whole[(np.s_[:], np.s_[:], *at)] += np.moveaxis(part, -1, 1)
        return whole[(np.s_[:], np.s_[:], *(np.s_[p : p + n] for n, p, _, _ in settings))]

    def vjp(self, ct: Value, out: Value, x: Value, w: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """A convolution of the cotangent, and a weight gradient in which it is the image; none for integers."""
        if not is_float(x.dtype):
            return None, None
        return apply(_plain(self), ct, w), apply(_weights(self, w.shape[2:]), ct, x)

    def lower(self, k: Builder, index: Index, x: Operand, w: Operand) -> Scalar:
        """A sum over all elements of windows, of which those count that are at the index."""
        n, o, *at = index
        channels, each, *window = w.type.shape
        group = channels // self.groups

        def product(r: Index) -> Scalar:
            channel = r[0] if self.groups == 1 else (o // each) * group + r[0]
            own: list[Coordinate] = []
            exists: Scalar = k.const(True, np.dtype(bool))
            for axis, tap in enumerate(r[1:]):
                step = self.stride[axis]
                # Windows are counted from one that is far enough in front for the dividend not to be negative.
                ahead = -(-(window[axis] - 1) * self.dilation[axis] // step)
                place = at[axis] + (self.padding[axis] + ahead * step) - tap * self.dilation[axis]
                own.append(place // step - ahead)
                exists = k.call("and", exists, k.inside(own[-1], 0, x.type.shape[2 + axis]))
                if step > 1:
                    exists = k.call("and", exists, k.inside(place % step, 0, 1))
            weight = w((channel, o % each if self.groups > 1 else o, *r[1:]))
            zero = k.const(0, x.type.dtype)
            return k.call("mul", k.choose(exists, lambda: x((n, channel, *own)), lambda: zero), weight)

        return k.reduce("add", (group, *window), product)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More images, more output channels, or a group for each position."""
        x, w = inputs
        if not mapped[1]:
            return folded(self, (x,), w)
        if not mapped[0]:
            return separated(apply(self, x, joined(w, 1)), 1, w.shape[0], self.groups)
        op = replace(self, groups=w.shape[0] * self.groups)
        return separated(apply(op, joined(x, 1), joined(w, 0)), 1, w.shape[0])

    @classmethod
    def samples(cls) -> list[Sample]:
        """The same as for `Conv2d`, with its result in place of the image."""
        good = []
        for settings, x, w in CASES[cls.axes]:
            own = cls(*settings, x[2:])
            ct = (x[0], w[0], *own.positions(own.size, w[2:]))
            good.append(Sample(own, (positive(*ct, dtype="f64"), positive(*w, dtype="f64"))))
        if cls.axes == 3:
            return [*good, refused(cls(), ((1, 1, 2, 2), "f32"), ((1, 1, 2, 2), "f32"), error="must have 5 axes")]
        image, weight = ((2, 3, 4, 4), "f32"), ((3, 2, 3, 3), "f32")
        return [
            *good,
            Sample(cls(size=(2, 3)), (np.array([[[[2, -7]]]], np.int32), np.full((1, 1, 2, 2), 3, np.int32))),
            Sample(
                cls(size=(2, 2)), (positive(1, 2, 2, 2, dtype="f16"), positive(2, 1, 1, 1, dtype="f16")), gradient=False
            ),
            refused(
                cls(size=(6, 7)),
                image,
                weight,
                error="an image of (6, 7) must have the size of the operand, got (4, 5)",
            ),
            refused(cls(size=(6, -1)), image, weight, error="size must be two integers of at least 0, got (6, -1)"),
            refused(cls(size=(6, 6)), image, ((2, 2, 3, 3), "f32"), error="and f32[2,2,3,3]; use size 3"),
            refused(cls(groups=2, size=(6, 6)), image, weight, error="groups must divide the input channels, got 3"),
            refused(cls(size=(6, 6)), image, ((3, 2, 3), "f32"), error="the weight must have 4 axes, got f32[3,2,3]"),
            refused(cls(size=(6, 6)), image, ((3, 2, 0, 3), "f32"), error="a window must not be empty"),
        ]


@dataclass(frozen=True, slots=True)
class ConvTranspose3d(ConvTranspose2d):
    """The cotangent of the volume of `Conv3d`, from the result's, ``x[N, C, ...]``, and ``w[C, O/groups, ...]``."""

    name: ClassVar[str] = "conv_transpose3d"
    axes: ClassVar[int] = 3
    stride: Pair = (1, 1, 1)
    padding: Pair = (0, 0, 0)
    dilation: Pair = (1, 1, 1)
    size: Pair = (1, 1, 1)


#: The operators by number of axes.
_PLAIN: Mapping[int, type[Conv2d]] = MappingProxyType({2: Conv2d, 3: Conv3d})
_WEIGHTS: Mapping[int, type[Conv2dWeightGradient]] = MappingProxyType(
    {2: Conv2dWeightGradient, 3: Conv3dWeightGradient}
)
_TRANSPOSED: Mapping[int, type[ConvTranspose2d]] = MappingProxyType({2: ConvTranspose2d, 3: ConvTranspose3d})


def _plain(op: Sliding) -> Conv2d:
    """The convolution with the settings of an operator."""
    return _PLAIN[op.axes](op.stride, op.padding, op.dilation, op.groups)


def _weights(op: Sliding, window: Pair) -> Conv2dWeightGradient:
    return _WEIGHTS[op.axes](op.stride, op.padding, op.dilation, op.groups, window)


def _transposed(op: Sliding, size: Pair) -> ConvTranspose2d:
    return _TRANSPOSED[op.axes](op.stride, op.padding, op.dilation, op.groups, size)


def _nonempty(name: str, w: TensorType) -> None:
    """Raise if the windows of a weight have no elements."""
    if 0 in w.shape[2:]:
        raise TypeRuleError(f"{name}: a window must not be empty, got {w}; use at least 1 row and 1 column")
