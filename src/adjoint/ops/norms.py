"""Norms, distances, and sums over axes of what is true, not NaN or between neighbours: composed of operators."""

import math

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import DTYPES, is_float
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, divide, multiply, subtract
from adjoint.ops.axes import Axes, axis_of
from adjoint.ops.convert import cast
from adjoint.ops.logic import equal, logical_not, not_equal, where
from adjoint.ops.piecewise import abs
from adjoint.ops.powers import power, sqrt, square
from adjoint.ops.reduce import max, min, sum, widened
from adjoint.ops.rules import require_float
from adjoint.ops.shape import expand_dims, slice_axis

__all__ = ["all", "any", "cdist", "count_nonzero", "diff", "nanmean", "nansum", "norm", "trapezoid"]


def _true(x: Value) -> Value:
    return x if x.dtype == DTYPES["bool"] else not_equal(x, 0)


def count_nonzero(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The number of elements along axes that are not 0 or False, as i64; default: along all axes."""
    return sum(cast(_true(x), DTYPES["i64"]), axis, keepdims)


def any(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """Whether any element along axes is true, that is neither 0 nor False, as a bool; default: along all axes."""
    return not_equal(sum(cast(_true(x), DTYPES["i32"]), axis, keepdims), 0)


def all(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """Whether all elements along axes are true, that is neither 0 nor False, as a bool; default: along all axes."""
    return equal(sum(cast(logical_not(_true(x)), DTYPES["i32"]), axis, keepdims), 0)


def nansum(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The sum over axes of the numbers that are not NaN; default: over all axes. The gradient of NaN is 0."""
    return sum(where(equal(x, x), x, 0) if is_float(x.dtype) else x, axis, keepdims)


def nanmean(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """The mean over axes of the numbers that are not NaN, NaN if there are none; default: over all axes. `x` is float.

    The gradient of NaN is 0. 16-bit floats are computed in f32 and rounded once.
    """
    require_float("nanmean", x)
    wide = widened(x)
    given = cast(equal(wide, wide), wide.dtype)
    return cast(divide(nansum(wide, axis, keepdims), sum(given, axis, keepdims)), x.dtype)


def norm(x: Value, p: float = 2.0, axis: Axes = None, keepdims: bool = False) -> Value:
    """The p-norm over axes, ``sum(abs(x)**p)**(1/p)``; the gradient is 0 where the norm is 0, as in PyTorch.

    Parameters
    ----------
    x : Value
        Float. 16-bit floats are computed in f32 and rounded once.
    p : float, default 2.0
        The order: ``inf`` for the greatest and ``-inf`` for the least magnitude, 0 for the number of elements that are
        not 0, which has no gradient.
    axis : int or sequence of int, optional
        The axes, negative counting from the end; default: all axes.
    keepdims : bool, default False
        Keep the axes in the result, with size 1.
    """
    require_float("norm", x)
    order, wide = float(p), widened(x)
    if order == math.inf:
        return max(abs(x), axis, keepdims)
    if order == -math.inf:
        return min(abs(x), axis, keepdims)
    if order == 0:
        found = sum(cast(not_equal(wide, 0.0), wide.dtype), axis, keepdims)
    elif order == 1:
        found = sum(abs(wide), axis, keepdims)
    else:
        found = _root(sum(_powers(wide, order), axis, keepdims), order)
    return cast(found, x.dtype)


def _powers(x: Value, order: float) -> Value:
    if order == 2:
        return square(x)
    magnitude = abs(x)
    if order > 1:
        return power(magnitude, order)
    # The power has no finite derivative at 0, where that of the norm is 0.
    zero = equal(magnitude, 0.0)
    return where(zero, 0.0 if order > 0 else math.inf, power(where(zero, 1.0, magnitude), order))


def _root(total: Value, order: float) -> Value:
    """``total ** (1 / order)``; the root has no finite derivative at 0, and what is 0 or infinite for any order."""
    zero = equal(total, 0.0)
    safe = where(zero, 1.0, total)
    return where(zero, 0.0 if order > 0 else math.inf, sqrt(safe) if order == 2 else power(safe, 1 / order))


def diff(x: Value, n: int = 1, axis: int = -1) -> Value:
    """The differences of neighbours along an axis, n times: ``x[1:] - x[:-1]``; of bools, whether they differ.

    Parameters
    ----------
    x : Value
        Numbers or bools.
    n : int, default 1
        How often differences are taken; each time the axis is shorter by 1.
    axis : int, default -1
        The axis.
    """
    at = axis_of("diff", axis, len(x.shape))
    if n < 0:
        raise InvalidValueError(f"diff: n must be at least 0, got {n}; use cumsum for sums")
    for _ in range(n):
        size = x.shape[at]
        first, second = slice_axis(x, at, 0, size - 1 if size else 0), slice_axis(x, at, 1 if size else 0, size)
        x = not_equal(second, first) if x.dtype == DTYPES["bool"] else subtract(second, first)
    return x


def trapezoid(y: Value, x: Value | None = None, dx: float = 1.0, axis: int = -1) -> Value:
    """The integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : Value
        The values, float.
    x : Value, optional
        The places of the values: of the shape of `y`, or one for each position along the axis; default: they are `dx`
        apart.
    dx : float, default 1.0
        The distance of neighbours, without `x`.
    axis : int, default -1
        The axis.
    """
    require_float("trapezoid", y)
    at, rank = axis_of("trapezoid", axis, len(y.shape)), len(y.shape)
    size = y.shape[at]
    means = multiply(add(slice_axis(y, at, 0, size - 1), slice_axis(y, at, 1, size)), 0.5) if size else y
    if x is None:
        return sum(multiply(means, float(dx)), at)
    if len(x.shape) == 1 and rank > 1:
        gaps = diff(x)
        return sum(multiply(means, expand_dims(gaps, tuple(range(1, rank - at))) if at < rank - 1 else gaps), at)
    if len(x.shape) != rank:
        raise TypeRuleError(f"trapezoid: x must have one axis or those of y, got x {x.type} and y {y.type}; reshape x")
    return sum(multiply(means, diff(x, 1, at)), at)


def cdist(x: Value, y: Value, p: float = 2.0) -> Value:
    """The p-norms of the differences of all rows of x and all rows of y; the gradient is 0 where a norm is 0.

    Parameters
    ----------
    x : Value
        Float, shape ``[..., n, d]``.
    y : Value
        The same dtype, shape ``[..., m, d]``; the leading axes broadcast.
    p : float, default 2.0
        The order, as in `norm`.

    Returns
    -------
    Value
        Shape ``[..., n, m]``. The differences are taken before the squares, so near rows lose no digits.
    """
    if len(x.shape) < 2 or len(y.shape) < 2 or x.shape[-1] != y.shape[-1]:
        raise TypeRuleError(f"cdist: operands must be rows [..., n, d] of one length d, got {x.type} and {y.type}")
    return norm(subtract(expand_dims(x, -2), expand_dims(y, -3)), p, -1)
