"""Convolution of images, with stride, padding, dilation and groups, and the gradients of its weights and its input.

As usual in deep learning, the window is not mirrored. `Conv2d` and `Conv2dWeightGradient` are sums of products of two
tensors read at affine indices. `simplify` turns their padding into a separate `Pad`, so that their reads need no bounds
checks when lowered; `keep_padded` lets other operators read the padded image too.

**The gradient of the input** needs no operator of its own. It is composed of convolutions without stride
(`_input_gradient`), one for each remainder of row and column by the stride. With stride 2 and a 3x3 window, even rows
and columns need 2x2 of the weights, odd ones 1x1, mixed ones 2x1 and 1x2: nine products for four elements, the minimum.
Inserting zeros between the rows of the cotangent instead would need 36 products, three quarters of them with 0. Only
the requested elements are computed: since the operator includes the padding, the border of the padded image never is.

The three form a closed set: each is linear in both of its operands, and their vjps consist of each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, plural
from adjoint.ir.types import TensorType, dtype_name, is_float
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add
from adjoint.ops.base import Builder, Index, Operand, Sample, Scalar
from adjoint.ops.create import full
from adjoint.ops.rules import refused, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import flip, pad, permute, reshape, slice, slice_axis
from adjoint.ops.sliding import Sliding
from adjoint.ops.vectorizing import folded, joined, separated
from adjoint.ops.windows import Pair, fields, images, pair

__all__ = ["Conv2d", "Conv2dWeightGradient", "conv2d"]


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
        images(self.name, "the weight", w)
        self.divided("output", w.shape[0], w)
        if self.divided("input", x.shape[1], x) != w.shape[1]:
            raise TypeRuleError(
                f"conv2d: the weight's second axis must hold the input channels per group, got {x} in "
                f"{plural(self.groups, 'group')} and {w}; use size {x.shape[1] // self.groups} there"
            )
        if 0 in w.shape[2:]:
            raise TypeRuleError(f"conv2d: a window must not be empty, got {w}; use at least 1 row and 1 column")
        return x.with_shape((x.shape[0], w.shape[0], *self.positions(x.shape[2:], (w.shape[2], w.shape[3]))))

    def reference(self, x: np.ndarray, w: np.ndarray) -> np.ndarray:
        """A product with the windows of each group."""

        def grouped(wide_x: np.ndarray, wide_w: np.ndarray) -> np.ndarray:
            windows = np.split(self.windows(wide_x, (w.shape[2], w.shape[3])), self.groups, axis=1)
            weights = np.split(wide_w, self.groups)
            parts = [np.tensordot(a, b, ((1, 4, 5), (1, 2, 3))) for a, b in zip(windows, weights, strict=True)]
            return np.moveaxis(np.concatenate(parts, -1), -1, 1)

        return rounded(grouped, x, w)

    def vjp(self, ct: Value, out: Value, x: Value, w: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Convolutions of the cotangent, and a `Conv2dWeightGradient`; none for integers."""
        if not is_float(x.dtype):
            return None, None
        window = (w.shape[2], w.shape[3])
        weights = Conv2dWeightGradient(self.stride, self.padding, self.dilation, self.groups, window)
        return _input_gradient(self, ct, w, (x.shape[2], x.shape[3])), apply(weights, x, ct)

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
        return [
            *(Sample(op, (_numbers(*x, dtype="f64"), _numbers(*w, dtype="f64"))) for op, x, w in _cases(cls)),
            Sample(cls(padding=(1, 1)), (_numbers(2, 3, 8, 17), _numbers(4, 3, 3, 3))),
            Sample(cls(), (_numbers(2, 5, 4, 4), _numbers(3, 5, 1, 1))),
            Sample(cls(), (_numbers(0, 2, 4, 4), _numbers(3, 2, 3, 3))),
            Sample(
                cls(padding=(1, 1)),
                (_numbers(1, 2, 4, 5, dtype="f16"), _numbers(2, 2, 3, 3, dtype="f16")),
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
            bad(cls(dilation=(1, 2, 3)), x, w, "dilation must be two integers of at least 1, got (1, 2, 3)"),  # type: ignore[arg-type]
            bad(cls(dilation=(1, 4)), x, w, "got windows that span 9 on an axis of 8 padded by 0 on both sides"),
            bad(cls(), x, (6, 4, 0, 3), "a window must not be empty, got f32[6,4,0,3]"),
            bad(cls(), (4, 8, 8), w, "conv2d: the image must have 4 axes, got f32[4,8,8]"),
            bad(cls(), x, (6, 4, 3), "conv2d: the weight must have 4 axes, got f32[6,4,3]"),
            refused(cls(), (x, "f32"), (w, "f64"), error="same dtype, got f32[2,4,8,8] and f64[6,4,3,3]; cast one to"),
            refused(cls(), (x, "bool"), (w, "bool"), error="got bool[2,4,8,8]; cast it to i32 first"),
        ]


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
        images(self.name, "the cotangent", ct)
        fields(self.name, 1, window=self.window)
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
            parts = [np.tensordot(b, a, ((0, 2, 3), (0, 2, 3))) for a, b in zip(windows, cotangents, strict=True)]
            return np.concatenate(parts)

        return rounded(grouped, x, ct)

    def vjp(self, ct: Value, out: Value, *inputs: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """A convolution with the new cotangent for each operand; none for integers."""
        x, old = inputs
        if not is_float(x.dtype):
            return None, None
        forward = Conv2d(self.stride, self.padding, self.dilation, self.groups)
        return _input_gradient(self, old, ct, (x.shape[2], x.shape[3])), apply(forward, x, ct)

    def lower(self, k: Builder, index: Index, x: Operand, ct: Operand) -> Scalar:
        """A sum of products over images and windows."""
        o, c, *inside = index
        count, channels, rows, columns = ct.type.shape
        output = (o, channels // self.groups)

        def product(r: Index) -> Scalar:
            n, *at = r
            return k.call("mul", self.element(k, x, (n, c), output, tuple(at), tuple(inside)), ct((n, o, *at)))

        return k.reduce("add", (count, rows, columns), product)

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
        for op, x, w in _cases(Conv2d):
            own = cls(op.stride, op.padding, op.dilation, op.groups, (w[2], w[3]))
            rows, columns = own.positions(x[2:], own.window)
            good.append(Sample(own, (_numbers(*x, dtype="f64"), _numbers(x[0], w[0], rows, columns, dtype="f64"))))
        types: list[tuple[tuple[int, ...], str]] = [((2, 3, 5, 5), "f32"), ((2, 4, 3, 3), "f32")]
        return [
            *good,
            Sample(cls((1, 1), (1, 1), window=(3, 3)), (_numbers(2, 3, 8, 17), _numbers(2, 4, 8, 17))),
            Sample(cls(window=(2, 2)), (_numbers(0, 2, 3, 3), _numbers(0, 3, 2, 2))),
            refused(cls(window=(2, 2)), *types, error="the type of the convolution, f32[2,4,4,4], got f32[2,4,3,3]"),
            refused(cls(window=(0, 2)), *types, error="window must be two integers of at least 1, got (0, 2)"),
            refused(cls(groups=2, window=(3, 3)), *types, error="groups must divide the input channels, got 3"),
            refused(cls(window=(3, 3)), types[0], ((2, 3, 3), "f32"), error="the cotangent must have 4 axes"),
        ]


def _cases(cls: type[Conv2d]) -> list[tuple[Conv2d, tuple[int, ...], tuple[int, ...]]]:
    """Attributes with the shapes of an image and a weight."""
    return [
        (cls(), (2, 2, 4, 5), (3, 2, 3, 2)),
        (cls(padding=(1, 2)), (1, 2, 3, 4), (2, 2, 3, 3)),
        (cls(padding=(2, 0)), (1, 1, 2, 3), (2, 1, 1, 2)),
        (cls(stride=(2, 3)), (1, 2, 5, 8), (2, 2, 3, 2)),
        (cls(stride=(2, 2), padding=(1, 1)), (2, 1, 4, 5), (2, 1, 3, 3)),
        (cls(stride=(2, 2)), (1, 2, 4, 5), (3, 2, 1, 1)),
        (cls(stride=(3, 2), padding=(1, 0)), (1, 1, 5, 4), (1, 1, 2, 1)),
        (cls(dilation=(2, 1), padding=(1, 0)), (1, 2, 4, 3), (2, 2, 2, 3)),
        (cls((2, 3), (1, 2), (2, 3)), (1, 1, 5, 6), (2, 1, 2, 3)),
        (cls((2, 4), (2, 1), (4, 2)), (1, 1, 6, 7), (1, 1, 2, 3)),
        (cls(groups=2), (1, 4, 3, 3), (4, 2, 2, 2)),
        (cls((1, 2), (1, 1), (1, 1), 3), (1, 3, 3, 4), (6, 1, 2, 3)),
        (cls(groups=3), (1, 3, 2, 3), (3, 1, 1, 2)),
    ]


def _numbers(*shape: int, dtype: str = "f32") -> np.ndarray:
    """Positive numbers, so that sums of products do not suffer from cancellation."""
    return spread(*shape, dtype=dtype, low=0.1)


def _input_gradient(op: Sliding, ct: Value, w: Value, size: Pair) -> Value:
    """The cotangent of the image of a convolution, ``[N, C, *size]``, given the result's and the weight.

    Row h of the image is multiplied by those rows a of the weight for which ``h + padding - a * dilation`` is i times
    the stride, i being the row of the cotangent. Which rows these are depends only on h modulo the stride. For the rows
    of one remainder (a *phase*), they form an arithmetic sequence, and i increases by 1 from row to row. So all rows
    and columns of one phase are a convolution of the cotangent, padded or cropped to the rows that are needed, with a
    strided slice of the mirrored weight.
    """
    phases = [[_phase(op, axis, r, size[axis], w.shape[2 + axis]) for r in range(op.stride[axis])] for axis in (0, 1)]
    total: Value | None = None
    for row in phases[0]:
        for column in phases[1]:
            if row is None or column is None:
                continue
            part = pad(
                _one_phase(op, ct, w, row, column),
                (0, 0, row.remainder, column.remainder),
                (0, 0, row.behind, column.behind),
                interior=(0, 0, op.stride[0] - 1, op.stride[1] - 1),
            )
            total = part if total is None else add(total, part)
    # No window touches the image if all of them are within the padding.
    return full(0.0, (ct.shape[0], w.shape[1] * op.groups, *size), ct.dtype) if total is None else total


@dataclass(frozen=True, slots=True)
class _Phase:
    """The rows (or columns) of an image with the same remainder by the stride.

    Parameters
    ----------
    remainder, behind : int
        Index of the first of them, and the number of rows after the last.
    tap, step : int
        The first row of the weight that applies to them, and the distance to the next.
    dilation : int
        Rows of the cotangent between two consecutive taps.
    first, last : int
        The range of rows of the cotangent that they need: from `first` up to, not including, `last`. It may extend
        beyond the cotangent.
    """

    remainder: int
    behind: int
    tap: int
    step: int
    dilation: int
    first: int
    last: int


def _phase(op: Sliding, axis: int, remainder: int, size: int, window: int) -> _Phase | None:
    """The phase of a remainder, or None if it has no rows or no row of the weight applies to it."""
    s, d, shift = op.stride[axis], op.dilation[axis], remainder + op.padding[axis]
    count = -(-(size - remainder) // s)
    taps = [a for a in range(window) if (shift - a * d) % s == 0]
    if count < 1 or not taps:
        return None
    common = gcd(s, d)
    step, dilation = s // common, d // common
    newest = (shift - taps[0] * d) // s
    oldest = newest - (len(taps) - 1) * dilation
    behind = size - remainder - ((count - 1) * s + 1)
    return _Phase(remainder, behind, taps[0], step, dilation, oldest, newest + count)


def _one_phase(op: Sliding, ct: Value, w: Value, row: _Phase, column: _Phase) -> Value:
    met = _cut_or_padded(_cut_or_padded(ct, 2, row.first, row.last), 3, column.first, column.last)
    taps = slice(w, (0, 0, row.tap, column.tap), w.shape, (1, 1, row.step, column.step))
    outputs, inputs, *window = taps.shape
    grouped = reshape(flip(taps, (2, 3)), (op.groups, outputs // op.groups, inputs, *window))
    swapped = reshape(permute(grouped, (0, 2, 1, 3, 4)), (op.groups * inputs, outputs // op.groups, *window))
    return apply(Conv2d(dilation=(row.dilation, column.dilation), groups=op.groups), met, swapped)


def _cut_or_padded(x: Value, axis: int, first: int, last: int) -> Value:
    """Elements from `first` up to, not including, `last` along an axis, with zeros outside `x`."""
    size, length = x.shape[axis], last - first
    start = min(max(first, 0), size)
    stop = max(start, min(last, size))
    before = min(max(-first, 0), length)
    behind = length - before - (stop - start)
    axes = range(len(x.shape))
    kept = slice_axis(x, axis, start, stop)
    return pad(kept, [before if n == axis else 0 for n in axes], [behind if n == axis else 0 for n in axes])


def conv2d(
    x: Value,
    w: Value,
    bias: Value | None = None,
    stride: int | Sequence[int] = 1,
    padding: int | Sequence[int] = 0,
    dilation: int | Sequence[int] = 1,
    groups: int = 1,
) -> Value:
    """Convolution of images, like `torch.nn.functional.conv2d`.

    Parameters
    ----------
    x : Value
        Images, shape ``[N, C, H, W]``.
    w : Value
        Weights, shape ``[O, C/groups, KH, KW]``.
    bias : Value, optional
        Shape ``[O]``, same dtype as `x`; added to each channel of the result.
    stride, padding, dilation : int or pair of int, default 1, 0, 1
        For rows and columns: the distance between windows, the zeros added at both ends, and the distance between the
        elements of a window. To add zeros at one end only, use `pad`.
    groups : int, default 1
        Number of independent groups of channels; C and O are multiples of it. ``groups=C`` is a depthwise convolution.

    Returns
    -------
    Value
        Shape ``[N, O, I, J]`` with ``I = (H + 2 * padding - (KH - 1) * dilation - 1) // stride + 1``, and J likewise.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    if isinstance(groups, bool) or not isinstance(groups, int) or groups < 1:
        raise InvalidValueError(
            f"conv2d: groups must be an integer of at least 1, got {groups!r}; use 1 for a single group"
        )
    op = Conv2d(
        pair("conv2d", "stride", stride, 1),
        pair("conv2d", "padding", padding, 0),
        pair("conv2d", "dilation", dilation, 1),
        groups,
    )
    result = apply(op, x, w)
    if bias is None:
        return result
    if bias.shape != (w.shape[0],) or bias.dtype != x.dtype:
        raise TypeRuleError(
            f"conv2d: the bias must have one element per output channel, got {bias.type} for {result.type}; "
            f"pass {dtype_name(x.dtype)}[{w.shape[0]}]"
        )
    return add(result, reshape(bias, (w.shape[0], 1, 1)))
