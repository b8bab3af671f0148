"""Operators that make elements, or only arrange them."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.importers.onnx.export.emitter import Emitter, Rule
from adjoint.ir import DTYPES, Value

__all__ = ["ARRANGING", "LAZY"]

#: The end of a slice to the end of an axis.
_END = np.iinfo(np.int64).max


def _broadcast(e: Emitter, value: Value) -> str:
    """The operand with axes of size 1 where it has none; it is only expanded for users that do not broadcast."""
    return e.of(value.inputs[0])


def _full(e: Emitter, value: Value) -> str:
    op: Any = value.op
    return e.scalar(op.value, value.dtype)


def _constant(e: Emitter, value: Value) -> str:
    op: Any = value.op
    return e.constant(np.frombuffer(op.data, value.dtype.newbyteorder("<")).astype(value.dtype).reshape(value.shape))


def _iota(e: Emitter, value: Value) -> str:
    op: Any = value.op
    each = e.factors(value)[op.axis]
    along = [-1 if n == op.axis else 1 for n in range(len(value.shape))]
    if each:
        zero, one = (e.scalar(n, DTYPES["i64"]) for n in (0, 1))
        size = e.node("Squeeze", e.size(each), e.ints([0]))
        row = e.node("Reshape", e.cast(e.node("Range", zero, size, one), value.dtype), e.ints(along))
    else:
        row = e.constant(np.arange(value.shape[op.axis]).astype(value.dtype).reshape(along))
    return e.node("Expand", row, e.shape(value))


def _reshape(e: Emitter, value: Value) -> str:
    factors = e.factors(value)
    if sum(map(bool, factors)) != 1:
        return e.node("Reshape", e.of(value.inputs[0]), e.shape(value), allowzero=int(0 in value.shape))
    shape = [-1 if each else size for each, size in zip(factors, value.shape, strict=True)]
    return e.node("Reshape", e.of(value.inputs[0]), e.ints(shape))


def _permute(e: Emitter, value: Value) -> str:
    op: Any = value.op
    x = e.of(value.inputs[0])
    return e.node("Transpose", x, perm=op.axes) if op.axes else x


def _flip(e: Emitter, value: Value) -> str:
    op: Any = value.op
    count = len(op.axes)
    parts = [e.ints(numbers) for numbers in ([-1] * count, [-_END] * count, op.axes, [-1] * count)]
    return e.node("Slice", e.of(value.inputs[0]), *parts)


def _slice(e: Emitter, value: Value) -> str:
    op: Any = value.op
    x = value.inputs[0]
    places = list(zip(op.start, op.stop, op.step, x.shape, strict=True))
    axes = [n for n, (start, stop, step, size) in enumerate(places) if (start, stop, step) != (0, size, 1)]
    if not axes:
        return e.of(x)
    stops = [_END if places[n][1] == places[n][3] else places[n][1] for n in axes]
    parts = [[places[n][0] for n in axes], stops, axes, [places[n][2] for n in axes]]
    return e.node("Slice", e.of(x), *map(e.ints, parts))


def _pad(e: Emitter, value: Value) -> str:
    op: Any = value.op
    if any(op.interior):
        raise InvalidValueError(
            f"to_onnx: pad must add elements at the ends only, got interior {op.interior}; ONNX has no operator for it"
        )
    if not any((*op.low, *op.high)):
        return e.of(value.inputs[0])
    return e.node("Pad", e.of(value.inputs[0]), e.ints([*op.low, *op.high]), e.scalar(op.value, value.dtype))


def _concat(e: Emitter, value: Value) -> str:
    op: Any = value.op
    return e.node("Concat", *map(e.of, value.inputs), axis=op.axis)


def _count(e: Emitter, value: Value) -> str:
    op: Any = value.op
    return e.scalar(float(np.prod([value.inputs[0].shape[axis] for axis in op.axes])), value.dtype)


#: Operators whose results are broadcast only where that is needed.
LAZY: dict[str, Rule] = {"broadcast_to": _broadcast, "full": _full}

ARRANGING: dict[str, Rule] = {
    "concat": _concat,
    "constant": _constant,
    "count": _count,
    "flip": _flip,
    "iota": _iota,
    "pad": _pad,
    "permute": _permute,
    "reshape": _reshape,
    "slice": _slice,
}
