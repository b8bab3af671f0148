"""The rules of `adjoint.transforms.simplify`, one small function each.

A rule is given a value whose inputs are simple already, and returns what takes its place or None. A value that it
makes has inputs that were there before, so that one walk over the graph is enough. What a rule is named after is
what it does; where floats make it less obvious than it looks, it says why the bits stay.
"""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np

from adjoint.ir import Value, apply, is_float
from adjoint.ops import arithmetic, contract, convert, convolution, create, logic, piecewise, powers, shape, sizes
from adjoint.ops.base import Operator
from adjoint.ops.sliding import Sliding

__all__ = ["Rule"]

#: A rule maps a value with simplified inputs to its replacement, or None.
Rule = Callable[[Value], Value | None]

#: Float dtypes, with the wider dtypes that can represent all of their values.
_WIDER = {"float16": ("float32", "float64"), "bfloat16": ("float32", "float64"), "float32": ("float64",)}


def _make(value: Value, op: Operator, *inputs: Value) -> Value:
    """A replacement of a value, under the same name."""
    return apply(op, *inputs).in_place_of(value)


def _is(x: Value, number: float) -> bool:
    """Whether all elements of `x` are exactly that number; 0.0 is not -0.0."""
    if not isinstance(x.op, create.Full) or isinstance(x.op.value, bool) or x.op.value != number:
        return False
    return math.copysign(1.0, x.op.value) == math.copysign(1.0, number)


def _either_way(value: Value) -> Iterator[tuple[Value, Value]]:
    """The operands of a commutative operator, in both orders."""
    x, y = value.inputs
    yield x, y
    yield y, x


def fold(value: Value) -> Value | None:
    """Fold an elementwise operator on constants, by evaluating its reference on one element.

    Only for operators with bitwise defined results, so that compiled code would compute the same.
    """
    scalars = []
    for x in value.inputs:
        if not isinstance(x.op, create.Full):
            return None
        scalars.append(np.asarray(x.op.value).astype(x.dtype))
    assert isinstance(value.op, Operator)
    element = np.asarray(value.op.reference(*scalars))
    return _make(value, create.Full(element.item(), value.shape, value.dtype))


def count_known(value: Value) -> Value | None:
    """The number of elements along axes is a constant."""
    assert isinstance(value.op, sizes.Count)
    return _make(value, create.Full(float(value.op.of(value.inputs[0].type)), (), value.dtype))


def add_nothing(value: Value) -> Value | None:
    """``x + 0`` for integers and ``x + -0.0`` for floats are x. ``x + 0.0`` is not, if x is -0.0."""
    nothing = -0.0 if is_float(value.dtype) else 0
    return next((x for x, y in _either_way(value) if _is(y, nothing)), None)


def add_negative(value: Value) -> Value | None:
    """``x + -y`` is ``x - y``, by definition."""
    for x, y in _either_way(value):
        if isinstance(y.op, arithmetic.Negative):
            return _make(value, arithmetic.Subtract(), x, y.inputs[0])
    return None


def subtract_nothing(value: Value) -> Value | None:
    """``x - 0`` is x, even if x is -0.0; ``x - -0.0`` is not."""
    return value.inputs[0] if _is(value.inputs[1], 0) else None


def subtract_negative(value: Value) -> Value | None:
    """``x - -y`` is ``x + y``."""
    x, y = value.inputs
    return _make(value, arithmetic.Add(), x, y.inputs[0]) if isinstance(y.op, arithmetic.Negative) else None


def multiply_by_one(value: Value) -> Value | None:
    """``x * 1`` is x."""
    return next((x for x, y in _either_way(value) if _is(y, 1)), None)


def multiply_by_minus_one(value: Value) -> Value | None:
    """``x * -1`` is ``-x``."""
    for x, y in _either_way(value):
        if _is(y, -1):
            return _make(value, arithmetic.Negative(), x)
    return None


def multiply_negatives(value: Value) -> Value | None:
    """``-x * -y`` is ``x * y``."""
    x, y = value.inputs
    if isinstance(x.op, arithmetic.Negative) and isinstance(y.op, arithmetic.Negative):
        return _make(value, arithmetic.Multiply(), x.inputs[0], y.inputs[0])
    return None


def multiply_same(value: Value) -> Value | None:
    """``x * x`` is ``square(x)``."""
    x, y = value.inputs
    return _make(value, powers.Square(), x) if x is y else None


def divide_by_one(value: Value) -> Value | None:
    """``x / 1`` is x."""
    return value.inputs[0] if _is(value.inputs[1], 1) else None


def divide_by_power_of_two(value: Value) -> Value | None:
    """``x / 2**n`` is ``x * 2**-n`` if that is a normal number: both are the same number, correctly rounded."""
    x, y = value.inputs
    if not isinstance(y.op, create.Full) or not is_float(value.dtype):
        return None
    # The divisor rounded to the dtype: 4.001 is 4 in f16.
    divisor = float(np.asarray(y.op.value).astype(y.dtype))
    limits = ml_dtypes.finfo(y.dtype)  # type: ignore[no-untyped-call]
    if abs(math.frexp(divisor)[0]) != 0.5 or not float(limits.tiny) <= abs(1.0 / divisor) <= float(limits.max):
        return None
    factor = apply(create.Full(1.0 / divisor, y.shape, y.dtype))
    return _make(value, arithmetic.Multiply(), x, factor)


def twice_is_nothing(value: Value) -> Value | None:
    """``-(-x)`` and ``not (not x)`` are x."""
    inner = value.inputs[0]
    return inner.inputs[0] if type(inner.op) is type(value.op) else None


def twice_is_once(value: Value) -> Value | None:
    """``f(f(x))`` is ``f(x)`` for abs and relu."""
    inner = value.inputs[0]
    return inner if type(inner.op) is type(value.op) else None


def sign_is_lost(value: Value) -> Value | None:
    """``abs(-x)`` is ``abs(x)``; ``square(-x)`` and ``square(abs(x))`` are ``square(x)``."""
    inner = value.inputs[0]
    loses = (arithmetic.Negative, piecewise.Abs) if isinstance(value.op, powers.Square) else (arithmetic.Negative,)
    if isinstance(inner.op, loses) and isinstance(value.op, Operator):
        return _make(value, value.op, inner.inputs[0])
    return None


def same_operands(value: Value) -> Value | None:
    """The maximum and the minimum of x and x are x."""
    x, y = value.inputs
    return x if x is y else None


def small_power(value: Value) -> Value | None:
    """``x**0`` is 1, ``x**1`` is x, ``x**2`` is ``square(x)`` and ``x**-1`` is ``reciprocal(x)``.

    ``square`` and ``reciprocal`` are correctly rounded but ``power`` is not, so this rule may change the last bit.
    """
    x, y = value.inputs
    if _is(y, 0) or _is(y, -0.0):
        return _make(value, create.Full(1.0, value.shape, value.dtype))
    if _is(y, 1):
        return x
    if _is(y, 2):
        return _make(value, powers.Square(), x)
    return _make(value, powers.Reciprocal(), x) if _is(y, -1) else None


def same_type(value: Value) -> Value | None:
    """A cast, reshape, broadcast, slice, ... to the operand's own type is the operand.

    Only for operators that do nothing if the types are equal: a permute or a pad may preserve the shape too.
    """
    return value.inputs[0] if value.type == value.inputs[0].type else None


def cast_twice(value: Value) -> Value | None:
    """A cast after a cast that preserves all values is a single cast."""
    inner = value.inputs[0]
    if not isinstance(inner.op, convert.Cast):
        return None
    x = inner.inputs[0]
    if inner.dtype.name not in _WIDER.get(x.dtype.name, ()) or not is_float(value.dtype):
        return None
    return x if x.dtype == value.dtype else _make(value, convert.Cast(value.dtype), x)


def view_of_constant(value: Value) -> Value | None:
    """A constant broadcast, reshaped, permuted or sliced is a constant of another shape."""
    x = value.inputs[0]
    return _make(value, create.Full(x.op.value, value.shape, x.dtype)) if isinstance(x.op, create.Full) else None


def broadcast_twice(value: Value) -> Value | None:
    """Two consecutive broadcasts are one."""
    inner = value.inputs[0]
    if isinstance(inner.op, shape.BroadcastTo):
        return _make(value, shape.BroadcastTo(value.shape), inner.inputs[0])
    return None


def broadcast_leading_ones(value: Value) -> Value | None:
    """Leading axes of size 1 need not be inserted before a broadcast, which inserts them anyway."""
    inner = value.inputs[0]
    if not isinstance(inner.op, shape.Reshape):
        return None
    x = inner.inputs[0]
    new = len(inner.shape) - len(x.shape)
    if new < 0 or inner.shape != (1,) * new + x.shape:
        return None
    return _make(value, shape.BroadcastTo(value.shape), x)


def reshape_twice(value: Value) -> Value | None:
    """Two consecutive reshapes are one."""
    inner = value.inputs[0]
    if isinstance(inner.op, shape.Reshape):
        return _make(value, shape.Reshape(value.shape), inner.inputs[0])
    return None


def permute_nothing(value: Value) -> Value | None:
    """A permute that keeps the order of the axes is its operand."""
    assert isinstance(value.op, shape.Permute)
    return value.inputs[0] if value.op.axes == tuple(range(len(value.op.axes))) else None


def permute_twice(value: Value) -> Value | None:
    """Two consecutive permutes are one."""
    inner = value.inputs[0]
    if not isinstance(inner.op, shape.Permute) or not isinstance(value.op, shape.Permute):
        return None
    axes = tuple(inner.op.axes[axis] for axis in value.op.axes)
    return _make(value, shape.Permute(axes), inner.inputs[0])


def where_known(value: Value) -> Value | None:
    """A constant condition selects one operand; if both operands are x, the result is x."""
    condition, x, y = value.inputs
    if isinstance(condition.op, create.Full):
        return x if condition.op.value else y
    return x if x is y else None


def where_not(value: Value) -> Value | None:
    """``where(not c, x, y)`` is ``where(c, y, x)``."""
    condition, x, y = value.inputs
    if isinstance(condition.op, logic.LogicalNot):
        return _make(value, logic.Where(), condition.inputs[0], y, x)
    return None


def where_again(value: Value) -> Value | None:
    """A nested selection by the same condition is redundant."""
    condition, x, y = value.inputs
    if isinstance(x.op, logic.Where) and x.inputs[0] is condition:
        return _make(value, logic.Where(), condition, x.inputs[1], y)
    if isinstance(y.op, logic.Where) and y.inputs[0] is condition:
        return _make(value, logic.Where(), condition, x, y.inputs[2])
    return None


def pad_before(value: Value) -> Value | None:
    """The padding of a convolution, and of its weight gradient, becomes a separate pad of the image.

    Then the operator reads its image without bounds checks, and both operators share the padded image. The pad ends
    where the last window does: with a stride of two, a row and a column earlier.
    """
    op = value.op
    assert isinstance(op, Sliding)
    if not any(op.padding):
        return None
    image, other = value.inputs
    result, window = (
        (other, op.window) if isinstance(op, convolution.Conv2dWeightGradient) else (value, other.shape[2:])
    )
    ends = [
        (count - 1) * step + (taps - 1) * apart + 1
        for count, step, taps, apart in zip(result.shape[2:], op.stride, window, op.dilation, strict=True)
    ]
    high = [max(0, end - low - size) for end, low, size in zip(ends, op.padding, image.shape[2:], strict=True)]
    padded = shape.pad(image, (0, 0, *op.padding), (0, 0, *high), 0)
    return _make(value, replace(op, padding=(0,) * op.axes), padded, other)


def pad_twice(value: Value) -> Value | None:
    """Two consecutive pads with the same value are one."""
    outer, inner = value.op, value.inputs[0].op
    if not isinstance(outer, shape.Pad) or not isinstance(inner, shape.Pad) or any(outer.interior):
        return None
    low = tuple(a + b for a, b in zip(outer.low, inner.low, strict=True))
    high = tuple(a + b for a, b in zip(outer.high, inner.high, strict=True))
    made = replace(inner, low=low, high=high)
    if replace(made, value=outer.value).key() != made.key():
        return None
    return _make(value, made, value.inputs[0].inputs[0])


def matmul_of_transposed(value: Value) -> Value | None:
    """A transpose of an operand becomes a flag of the matrix product."""
    assert isinstance(value.op, contract.MatMul)
    (a, flip_a), (b, flip_b) = map(_untransposed, value.inputs)
    if not flip_a and not flip_b:
        return None
    op = contract.MatMul(value.op.transpose_a != flip_a, value.op.transpose_b != flip_b)
    return _make(value, op, a, b)


def _untransposed(x: Value) -> tuple[Value, bool]:
    """`x` without a transpose of its last two axes, and whether there was one."""
    rank = len(x.shape)
    if isinstance(x.op, shape.Permute) and x.op.axes == (*range(rank - 2), rank - 1, rank - 2):
        return x.inputs[0], True
    return x, False
