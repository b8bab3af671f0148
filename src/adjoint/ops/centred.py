"""The building blocks of softmax and the normalizations: sums and scalings relative to a centre of each row.

A row extends along the `axes` of an operator; an operand with one element per row has the shape without those axes.
These are operators for the sake of their gradients. Composed of subtraction, exponential and sum, a normalization would
have four sums over the data in its gradient, one of which only adds up rounding errors to 0; with these operators it
has two, and the gradient of softmax needs its result only.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import multiply, negative, subtract
from adjoint.ops.axes import fill, shifted, without
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.rules import operands, refused, require, rounded
from adjoint.ops.sampling import spread
from adjoint.ops.shape import reduced_shape, spread_back, sum
from adjoint.ops.transcendental import exp, log
from adjoint.ops.vectorizing import all_mapped

__all__ = ["CentredSquares", "Normalize", "SumExp"]


@dataclass(frozen=True, slots=True)
class Centred(Operator):
    """Base class of these operators.

    Parameters
    ----------
    axes : tuple of int
        The axes of a row, counted from the start, ascending.
    """

    axes: tuple[int, ...]

    #: Names of the operands after the first; each has one element per row.
    given: ClassVar[tuple[str, ...]]

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", tuple(self.axes))

    def _rows(self, *inputs: TensorType) -> TensorType:
        """The type of one element per row."""
        operands(self, inputs, 1 + len(self.given))
        require(self, inputs, "float", "cast to a float such as f32 first")
        x, *others = inputs
        row = x.with_shape(reduced_shape(self.name, x, self.axes, keepdims=False))
        for what, other in zip(self.given, others, strict=True):
            if other != row:
                raise TypeRuleError(
                    f"{self.name}: the {what} must have one element per row, {row}, got {other} for {x} over axes "
                    f"{self.axes}; reshape or cast it"
                )
        return row

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same rows, of the other axes, at every position."""
        return apply(replace(self, axes=shifted(self.axes)), *all_mapped(mapped, inputs))

    def _whole(self, row: np.ndarray) -> np.ndarray:
        """An array with one element per row, ready to broadcast."""
        return np.expand_dims(row, self.axes)

    def _summed(self, k: Builder, index: Index, x: TensorType, body: Callable[[Index], Scalar]) -> Scalar:
        """The sum of `body`, a function of the index, over the elements of the row at `index`."""
        if not self.axes:
            return body(index)
        return k.reduce("add", [x.shape[axis] for axis in self.axes], lambda r: body(fill(index, self.axes, r)))


def _bad(op: Centred) -> list[Sample]:
    rows: list[tuple[tuple[int, ...], str]] = [((3,), "f32")] * len(op.given)
    wrong: list[tuple[tuple[int, ...], str]] = [((4,), "f32"), *rows[1:]]
    return [
        refused(op, ((3, 4), "f32"), *wrong, error="f32[3], got f32[4] for f32[3,4] over axes (1,); reshape"),
        refused(op, ((3, 4), "f64"), *rows, error="have one element per row, f64[3], got f32[3]"),
        refused(op, ((3,), "f32"), *rows, error=f"{op.name}: axes must be from 0 to 0 at rank 1, got (1,)"),
        refused(op, ((3, 4), "i32"), *rows, error="got i32[3,4]; cast to a float such as f32 first"),
    ]


#: Axes of a row and shape of the operand, for samples.
_CASES: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((1,), (3, 4)),
    ((0, 2, 3), (2, 3, 2, 2)),
    ((0,), (5, 2)),
    ((0, 1), (2, 3)),
    ((2,), (2, 1, 3)),
    ((), (2, 3)),
]


@dataclass(frozen=True, slots=True)
class CentredSquares(Centred):
    """The sum over a row of ``(x - mean)**2``, where the second operand is the mean of the row.

    The mean is an operand because it is already known, not because it may take another value: as a function of `x`, the
    sum has the gradient ``2 * (x - mean)``, to which the dependence of the mean on `x` adds 0. So the mean gets no
    cotangent, and no sum of differences from it is computed. 16-bit floats are added in f32 and rounded once.
    """

    name: ClassVar[str] = "centred_squares"
    flops: ClassVar[float] = 3.0
    given: ClassVar[tuple[str, ...]] = ("mean",)

    def infer(self, *inputs: TensorType) -> TensorType:
        """One element per row."""
        return self._rows(*inputs)

    def reference(self, x: np.ndarray, mean: np.ndarray) -> np.ndarray:
        """`numpy.sum` of the squares."""
        return rounded(lambda a, m: np.sum(np.square(a - self._whole(m)), self.axes, dtype=a.dtype), x, mean)

    def vjp(self, ct: Value, out: Value, x: Value, mean: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """``2 * ct * (x - mean)``; none for the mean, see above."""
        twice = spread_back(multiply(ct, 2.0), x.shape, self.axes)
        return multiply(twice, subtract(x, spread_back(mean, x.shape, self.axes))), None

    def lower(self, k: Builder, index: Index, x: Operand, mean: Operand) -> Scalar:
        """A sum over the row."""

        def square(at: Index) -> Scalar:
            centred = k.call("sub", x(at), mean(index))
            return k.call("mul", centred, centred)

        return self._summed(k, index, x.type, square)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Rows along each axis and along several, with their means."""

        def sample(axes: tuple[int, ...], x: np.ndarray) -> Sample:
            return Sample(cls(axes), (x, np.mean(x, axes, x.dtype)), gradient=x.dtype == np.float64)

        return [
            *(sample(axes, spread(*shape, dtype="f64")) for axes, shape in _CASES),
            sample((1,), spread(3, 40)),
            sample((0,), spread(6, 17)),
            Sample(cls((0,)), (spread(0, 3), spread(3))),
            Sample(cls((1,)), (spread(2, 8, dtype="f16"), spread(2, dtype="f16")), gradient=False),
            *_bad(cls((1,))),
        ]


@dataclass(frozen=True, slots=True)
class Normalize(Centred):
    """``(x - mean) * scale``, with a mean and a scale for each row."""

    name: ClassVar[str] = "normalize"
    flops: ClassVar[float] = 2.0
    given: ClassVar[tuple[str, ...]] = ("mean", "scale")

    def infer(self, *inputs: TensorType) -> TensorType:
        """The type of the first operand."""
        self._rows(*inputs)
        return inputs[0]

    def reference(self, x: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
        """A subtraction and a multiplication."""
        return rounded(lambda a, m, s: (a - self._whole(m)) * self._whole(s), x, mean, scale)

    def vjp(self, ct: Value, out: Value, x: Value, mean: Value, scale: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """Two sums over each row: of ct, and of ct times the deviation from the mean."""
        whole = spread_back(scale, x.shape, self.axes)
        centred = subtract(x, spread_back(mean, x.shape, self.axes))
        to_mean = negative(multiply(sum(ct, self.axes), scale))
        return multiply(ct, whole), to_mean, sum(multiply(ct, centred), self.axes)

    def lower(self, k: Builder, index: Index, x: Operand, mean: Operand, scale: Operand) -> Scalar:
        """The element, with the mean and scale of its row."""
        row = without(index, self.axes)
        return k.call("mul", k.call("sub", x(index), mean(row)), scale(row))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Rows along each axis and along several."""

        def sample(axes: tuple[int, ...], *shape: int, dtype: str = "f64", gradient: bool = True) -> Sample:
            row = [n for axis, n in enumerate(shape) if axis not in axes]
            arrays = (spread(*shape, dtype=dtype), spread(*row, dtype=dtype), spread(*row, dtype=dtype, low=0.3))
            return Sample(cls(axes), arrays, gradient=gradient)

        return [
            *(sample(axes, *shape) for axes, shape in _CASES),
            sample((0, 2, 3), 2, 3, 4, 5, dtype="f32"),
            sample((1,), 3, 17, dtype="f32"),
            sample((0,), 0, 3, dtype="f32"),
            sample((1,), 2, 5, dtype="bf16", gradient=False),
            *_bad(cls((1,))),
        ]


@dataclass(frozen=True, slots=True)
class SumExp(Centred):
    """The sum over a row of ``exp(x - top)``, where `top` is usually the maximum of the row.

    16-bit floats are computed and added in f32 and rounded once.
    """

    name: ClassVar[str] = "sum_exp"
    flops: ClassVar[float] = 14.0
    given: ClassVar[tuple[str, ...]] = ("top",)

    def infer(self, *inputs: TensorType) -> TensorType:
        """One element per row."""
        return self._rows(*inputs)

    def reference(self, x: np.ndarray, top: np.ndarray) -> np.ndarray:
        """`numpy.sum` of the exponentials."""
        return rounded(lambda a, t: np.sum(np.exp(a - self._whole(t)), self.axes, dtype=a.dtype), x, top)

    def vjp(self, ct: Value, out: Value, x: Value, top: Value) -> tuple[Value | None, ...]:
        """``ct * out`` times the softmax, which the graph already contains if this sum is part of a softmax."""
        weight = multiply(ct, out)
        lowered = subtract(x, spread_back(top, x.shape, self.axes))
        softmax = exp(subtract(lowered, spread_back(log(out), x.shape, self.axes)))
        return multiply(spread_back(weight, x.shape, self.axes), softmax), negative(weight)

    def lower(self, k: Builder, index: Index, x: Operand, top: Operand) -> Scalar:
        """A sum over the row."""
        return self._summed(k, index, x.type, lambda at: k.call("exp", k.call("sub", x(at), top(index))))

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:  # noqa: ARG002
        """Minus infinity, whose exponential is 0."""
        return float("-inf"), None

    @classmethod
    def samples(cls) -> list[Sample]:
        """Rows along each axis and along several; elements far below the maximum, and minus infinity."""

        def sample(axes: tuple[int, ...], x: np.ndarray, gradient: bool = True) -> Sample:
            return Sample(cls(axes), (x, np.max(x, axes)), gradient=gradient)

        far = np.array([[0, -200, 3], [-np.inf, 1, 1]], np.float32)
        return [
            *(sample(axes, spread(*shape, dtype="f64")) for axes, shape in _CASES),
            sample((1,), spread(3, 40)),
            sample((0,), spread(6, 17)),
            sample((1,), far, gradient=False),
            sample((1,), spread(2, 8, dtype="bf16"), gradient=False),
            Sample(cls((0,)), (spread(0, 3), spread(3)), gradient=False),
            *_bad(cls((1,))),
        ]
