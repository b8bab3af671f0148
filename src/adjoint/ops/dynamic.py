"""Slices whose start positions are computed: parts of a static size, read and written.

Starts that would let a part reach beyond its tensor are clipped, as in XLA.
"""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Op, Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.build import full_like
from adjoint.ops.convert import cast
from adjoint.ops.create import constant
from adjoint.ops.logic import less, where
from adjoint.ops.rules import operands, refused, require
from adjoint.ops.sampling import spread
from adjoint.ops.shape import reshape, stack
from adjoint.ops.vectorizing import all_mapped

__all__ = ["DynamicSlice", "DynamicUpdateSlice", "dynamic_slice", "dynamic_update_slice"]


def _check(op: Op, x: TensorType, starts: TensorType, sizes: Sequence[int]) -> None:
    """Raise unless the last axes of `x` can be cut to `sizes` at starts of which there is one row per part."""
    require(op, (starts,), "integer unsigned", "cast the starts to i64")
    lead = x.rank - len(sizes)
    if lead < 0 or starts.shape != (*x.shape[: max(lead, 0)], len(sizes)):
        raise TypeRuleError(
            f"{op.name}: there must be one start per axis that is cut, got starts {starts} and sizes {tuple(sizes)} "
            f"for {x}; pass as many of each"
        )
    if any(part > size for part, size in zip(sizes, x.shape[lead:], strict=True)):
        raise TypeRuleError(
            f"{op.name}: a part must not be larger than its tensor, got {tuple(sizes)} of {x}; cut less"
        )


def _starts(k: Builder, row: Index, starts: Operand, limits: Sequence[int]) -> list[Coordinate]:
    """The starts of a part as coordinates, clipped so that it is within its tensor."""
    return [k.position(starts((*row, n)), limit + 1) for n, limit in enumerate(limits)]


def _parts(x: np.ndarray, starts: np.ndarray, sizes: Sequence[int]) -> list[Any]:
    """The key of each part of an array."""
    lead = x.ndim - len(sizes)
    limits = [size - part for size, part in zip(x.shape[lead:], sizes, strict=True)]
    clipped = np.clip(starts.astype(np.int64), 0, limits) if sizes else starts
    return [
        (*at, *(slice(a, a + n) for a, n in zip(clipped[at].tolist(), sizes, strict=True)))
        for at in np.ndindex(*x.shape[:lead])
    ]


@dataclass(frozen=True, slots=True)
class DynamicSlice(Operator):
    """Parts of the last axes that begin at computed starts, clipped so that the parts are within the tensor.

    Parameters
    ----------
    sizes : tuple of int
        The shape of a part. Operands are ``x[..., *]`` and starts ``[..., len(sizes)]``, one row for each part.
    """

    name: ClassVar[str] = "dynamic_slice"
    flops: ClassVar[float] = 0.0
    sizes: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "sizes", tuple(self.sizes))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's dtype in the shape of the parts."""
        operands(self, inputs, 2)
        x, starts = inputs
        _check(self, x, starts, self.sizes)
        return x.with_shape((*x.shape[: x.rank - len(self.sizes)], *self.sizes))

    def reference(self, x: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """NumPy's slicing, part by part."""
        made = [x[key] for key in _parts(x, starts, self.sizes)]
        return np.array(made, x.dtype).reshape((*x.shape[: x.ndim - len(self.sizes)], *self.sizes))

    def vjp(self, ct: Value, out: Value, x: Value, starts: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent in the place of the part, 0 elsewhere."""
        return (apply(DynamicUpdateSlice(), full_like(x, 0.0), ct, starts) if is_float(x.dtype) else None), None

    def lower(self, k: Builder, index: Index, x: Operand, starts: Operand) -> Scalar:
        """The element at ``start + index``."""
        lead = len(index) - len(self.sizes)
        limits = [size - part for size, part in zip(x.type.shape[lead:], self.sizes, strict=True)]
        first = _starts(k, index[:lead], starts, limits)
        return x((*index[:lead], *(i + a for i, a in zip(index[lead:], first, strict=True))))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More parts."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """One part and several; starts within the tensor, at its end, and beyond; whole and empty parts."""
        return [
            Sample(cls((2, 2)), (spread(4, 5), np.array([1, 3]))),
            Sample(cls((2,)), (spread(3, 4, dtype="f64"), np.array([[-7], [1], [9]], np.int32))),
            Sample(cls((3, 0)), (spread(3, 2), np.array([2, 1], np.uint8))),
            Sample(cls(()), (spread(), np.zeros(0, np.int64))),
            Sample(cls((1,)), (np.array([4, 5, 6], np.int32), np.array([1]))),
            refused(cls((2,)), ((4, 5), "f32"), ((2,), "i64"), error="got starts i64[2] and sizes (2,) for f32[4,5]"),
            refused(cls((5,)), ((4,), "f32"), ((1,), "i64"), error="larger than its tensor, got (5,) of f32[4]"),
            refused(cls((2,)), ((4,), "f32"), ((1,), "f32"), error="got f32[1]; cast the starts to i64"),
        ]


@dataclass(frozen=True, slots=True)
class DynamicUpdateSlice(Operator):
    """A tensor with parts of its last axes replaced, at computed starts, clipped so that the parts are within it."""

    name: ClassVar[str] = "dynamic_update_slice"
    flops: ClassVar[float] = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """The first operand's type."""
        operands(self, inputs, 3)
        x, update, starts = inputs
        lead = max(starts.rank - 1, 0)
        if update.dtype != x.dtype or update.rank != x.rank or update.shape[:lead] != x.shape[:lead]:
            raise TypeRuleError(
                f"dynamic_update_slice: the update must have the tensor's dtype and number of axes, got {update} for "
                f"{x}; reshape or cast it"
            )
        _check(self, x, starts, update.shape[lead:])
        return x

    def reference(self, x: np.ndarray, update: np.ndarray, starts: np.ndarray) -> np.ndarray:
        """NumPy's assignment to slices, part by part."""
        result, lead = x.copy(), starts.ndim - 1
        for key, at in zip(_parts(x, starts, update.shape[lead:]), np.ndindex(*x.shape[:lead]), strict=True):
            result[key] = update[at]
        return result

    def vjp(self, ct: Value, out: Value, x: Value, update: Value, starts: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent without the part, and the part."""
        if not is_float(x.dtype):
            return None, None, None
        sizes = update.shape[len(starts.shape) - 1 :]
        return (
            apply(DynamicUpdateSlice(), ct, full_like(update, 0.0), starts),
            apply(DynamicSlice(sizes), ct, starts),
            None,
        )

    def lower(self, k: Builder, index: Index, x: Operand, update: Operand, starts: Operand) -> Scalar:
        """The element of the update inside of the part; otherwise that of the tensor."""
        lead = starts.type.rank - 1
        if 0 in update.type.shape:
            return x(index)
        sizes = update.type.shape[lead:]
        limits = [size - part for size, part in zip(x.type.shape[lead:], sizes, strict=True)]
        first = _starts(k, index[:lead], starts, limits)
        own = tuple(i - a for i, a in zip(index[lead:], first, strict=True))
        inside = k.const(True, np.dtype(bool))
        for i, size in zip(own, sizes, strict=True):
            inside = k.call("and", inside, k.inside(i, 0, size))
        return k.choose(inside, lambda: update((*index[:lead], *own)), lambda: x(index))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """More parts."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """One part and several; starts within the tensor and beyond; whole and empty parts."""
        return [
            Sample(cls(), (spread(4, 5), spread(2, 2), np.array([1, 2]))),
            Sample(cls(), (spread(3, 4, dtype="f64"), spread(3, 2, dtype="f64"), np.array([[-7], [1], [9]], np.int32))),
            Sample(cls(), (spread(3, 2), spread(3, 0), np.array([2, 1], np.uint8))),
            Sample(cls(), (spread(), spread(), np.zeros(0, np.int64))),
            Sample(cls(), (np.array([True, False, True]), np.array([False]), np.array([2]))),
            refused(cls(), ((4,), "f32"), ((2,), "f64"), ((1,), "i64"), error="got f64[2] for f32[4]; reshape or cast"),
            refused(cls(), ((4,), "f32"), ((5,), "f32"), ((1,), "i64"), error="larger than its tensor, got (5,)"),
            refused(cls(), ((4,), "f32"), ((2,), "f32"), ((2,), "i64"), error="got starts i64[2] and sizes (2,)"),
        ]


def _as_starts(name: str, x: Value, starts: Value | Sequence[Value | int]) -> Value:
    """Starts as one i64 row; negative ones count from the end."""
    if not isinstance(starts, Value):
        parts = [s if isinstance(s, Value) else constant(np.asarray(s, np.int64), "i64") for s in starts]
        if not parts:
            return constant(np.zeros(0, np.int64), "i64")
        starts = stack([reshape(cast(part, "i64"), ()) for part in parts])
    if len(starts.shape) != 1 or starts.shape[0] != len(x.shape):
        raise TypeRuleError(
            f"{name}: there must be one start per axis, got {starts.type} for {x.type}; pass {len(x.shape)} of them"
        )
    if starts.dtype.kind not in "iu":
        raise TypeRuleError(f"{name}: starts must be integers, got {starts.type}; cast them to i64")
    wide = cast(starts, "i64")
    return where(less(wide, 0), add(wide, constant(np.array(x.shape, np.int64), "i64")), wide) if x.shape else wide


def dynamic_slice(x: Value, starts: Value | Sequence[Value | int], sizes: Sequence[int]) -> Value:
    """A part of a tensor that begins at computed positions.

    Parameters
    ----------
    x : Value
        Any tensor.
    starts : Value or sequence of Value and int
        Where the part begins: integers, one per axis, as one row or as scalars. As in JAX, negative ones count from
        the end, and then they are clipped so that the part is within the tensor.
    sizes : sequence of int
        The shape of the part.
    """
    return apply(DynamicSlice(tuple(sizes)), x, _as_starts("dynamic_slice", x, starts))


def dynamic_update_slice(x: Value, update: Value, starts: Value | Sequence[Value | int]) -> Value:
    """A tensor with a part of it replaced that begins at computed positions.

    Parameters
    ----------
    x : Value
        Any tensor.
    update : Value
        The part, of the dtype of `x`, with as many axes, and no larger.
    starts : Value or sequence of Value and int
        As in `dynamic_slice`.
    """
    return apply(DynamicUpdateSlice(), x, update, _as_starts("dynamic_update_slice", x, starts))
