"""Running sums, products and extremes along an axis, differences of neighbours, and integrals."""

from functools import partial
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, Value, as_dtype, is_float
from adjoint.tensor import return_types
from adjoint.tensor.elementwise import floating
from adjoint.tensor.record import operation

__all__ = ["cummax", "cummin", "cumprod", "cumsum", "diff", "logcumsumexp", "trapezoid", "trapz"]


def _scanned(x: Value, dtype: Any) -> Value:
    """The operand in the wanted dtype, otherwise integers and bools as i64."""
    if dtype is not None:
        return ops.cast(x, as_dtype(dtype))
    return x if is_float(x.dtype) else ops.cast(x, DTYPES["i64"])


def _at_least_1d(x: Value) -> Value:
    return x if x.shape else ops.reshape(x, (1,))


@partial(operation, numbers=False)
def cumsum(input: Value, dim: int, *, dtype: Any = None, exclusive: bool = False, reverse: bool = False) -> Value:
    """The running sum along an axis.

    Parameters
    ----------
    input : Tensor
        Integers and bools are added up as i64.
    dim : int
        The axis.
    dtype : dtype, optional
        Converted to before the sum.
    exclusive : bool, default False
        Leave out the element itself, so that the first result is 0. This and `reverse` are those of TensorFlow.
    reverse : bool, default False
        Run from the last element to the first.
    """
    x = _scanned(input, dtype)
    return ops.reshape(ops.cumsum(_at_least_1d(x), dim, exclusive, reverse), x.shape)


@partial(operation, numbers=False)
def cumprod(input: Value, dim: int, *, dtype: Any = None, exclusive: bool = False, reverse: bool = False) -> Value:
    """The running product along an axis; its gradient is right where elements are 0. Parameters as in `cumsum`.

    With `exclusive`, the first result is 1.
    """
    x = _scanned(input, dtype)
    return ops.reshape(ops.cumprod(_at_least_1d(x), dim, exclusive, reverse), x.shape)


@partial(operation, numbers=False)
def logcumsumexp(input: Value, dim: int) -> Value:
    """``log(cumsum(exp(input)))`` along an axis, computed without overflow."""
    x = floating(input)
    return ops.reshape(ops.logcumsumexp(_at_least_1d(x), dim), x.shape)


def _extreme(function: Any) -> Any:
    def pick(x: Value, dim: int) -> tuple[Value, Value]:
        wide = ops.cast(x, DTYPES["u8"]) if x.dtype.kind == "b" else x
        values, indices = function(_at_least_1d(wide), dim)
        return ops.reshape(ops.cast(values, x.dtype), x.shape), ops.reshape(indices, x.shape)

    return operation(pick, numbers=False)


_cummax, _cummin = _extreme(ops.cummax), _extreme(ops.cummin)


def cummax(input: Any, dim: int) -> Any:
    """The running maximum along an axis and its positions: the last of equal ones; NaN is greater than any number.

    Parameters
    ----------
    input : Tensor
        Numbers or bools.
    dim : int
        The axis.

    Returns
    -------
    tuple
        ``values`` and i64 ``indices``, of the shape of `input`.
    """
    return return_types.cummax(*_cummax(input, dim))


def cummin(input: Any, dim: int) -> Any:
    """The running minimum along an axis and its positions: the last of equal ones. Parameters as in `cummax`."""
    return return_types.cummin(*_cummin(input, dim))


@partial(operation, numbers=False)
def _diff(input: Value, n: int, dim: int, prepend: Value | None, append: Value | None) -> Value:
    parts = [part for part in (prepend, input, append) if part is not None]
    return ops.diff(ops.concat(*parts, axis=dim) if len(parts) > 1 else input, n, dim)


def diff(input: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The differences of neighbours along an axis, n times; of bools, whether they differ.

    Parameters
    ----------
    input : Tensor
        Numbers or bools.
    n : int, default 1
        How often differences are taken.
    dim : int, default -1
        The axis.
    prepend, append : Tensor, optional
        Joined to `input` along the axis first.
    """
    return _diff(input, n, dim, prepend, append) if n else input


@partial(operation, numbers=False)
def _trapezoid(y: Value, x: Value | None, dx: float, dim: int) -> Value:
    return ops.trapezoid(floating(y), None if x is None else ops.cast(x, floating(y).dtype), dx, dim)


def trapezoid(y: Any, x: Any = None, *, dx: float | None = None, dim: int = -1) -> Any:
    """The integral along an axis by the trapezoidal rule.

    Parameters
    ----------
    y : Tensor
        The values.
    x : Tensor, optional
        Their places: of the shape of `y`, or one for each position along the axis.
    dx : float, optional
        Their distance, without `x`; default: 1.
    dim : int, default -1
        The axis.
    """
    if x is not None and dx is not None:
        raise InvalidValueError(f"trapezoid: either x or dx must be given, got both, dx={dx!r}; leave dx out")
    return _trapezoid(y, x, 1.0 if dx is None else dx, dim)


trapz = trapezoid
