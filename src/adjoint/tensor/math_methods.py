"""Methods of tensors that are functions of mathematics, by what records each."""

from collections.abc import Callable
from typing import Any

from adjoint.tensor import binary, comparison, cumulative, elementwise, norms
from adjoint.tensor.record import entry_of, record, record_binary, record_unary
from adjoint.tensor.trace import Recorded

__all__ = ["MathMethods"]


def _named(method: Callable[..., Any], function: Any) -> Callable[..., Any]:
    name = function.__name__
    method.__name__, method.__qualname__, method.__doc__ = name, f"Tensor.{name}", f"See `adjoint.{name}`."
    return method


def _unary(function: Any) -> Callable[[Any], Any]:
    entry = entry_of(function)
    return _named(lambda self: record_unary(entry, self), function)


def _binary(function: Any) -> Callable[[Any, Any], Any]:
    entry = entry_of(function)
    return _named(lambda self, other: record_binary(entry, self, other), function)


class MathMethods(Recorded):
    """The part of `Tensor` with functions of mathematics beyond those of every program."""

    acos = arccos = _unary(elementwise.acos)
    acosh = arccosh = _unary(elementwise.acosh)
    asin = arcsin = _unary(elementwise.asin)
    asinh = arcsinh = _unary(elementwise.asinh)
    atan = arctan = _unary(elementwise.atan)
    atanh = arctanh = _unary(elementwise.atanh)
    digamma = _unary(elementwise.digamma)
    erfinv = _unary(elementwise.erfinv)
    fix = _unary(elementwise.trunc)
    isneginf = _unary(comparison.isneginf)
    isposinf = _unary(comparison.isposinf)
    lgamma = _unary(elementwise.lgamma)
    positive = _unary(elementwise.positive)
    sgn = _unary(elementwise.sign)
    signbit = _unary(elementwise.signbit)
    sinc = _unary(elementwise.sinc)
    bitwise_not = _unary(comparison.bitwise_not)

    arctan2 = atan2 = _binary(binary.atan2)
    bitwise_and = _binary(comparison.bitwise_and)
    bitwise_left_shift = __lshift__ = _binary(comparison.bitwise_left_shift)
    bitwise_or = _binary(comparison.bitwise_or)
    bitwise_right_shift = __rshift__ = _binary(comparison.bitwise_right_shift)
    bitwise_xor = _binary(comparison.bitwise_xor)
    copysign = _binary(binary.copysign)
    fmax = _binary(binary.fmax)
    fmin = _binary(binary.fmin)
    heaviside = _binary(binary.heaviside)
    hypot = _binary(binary.hypot)
    ldexp = _binary(binary.ldexp)
    logaddexp = _binary(binary.logaddexp)
    logaddexp2 = _binary(binary.logaddexp2)
    xlogy = _binary(binary.xlogy)

    def polygamma(self, n: int) -> Any:
        """See `adjoint.polygamma`."""
        return record(entry_of(elementwise.polygamma), (n, self))

    def cumsum(self, dim: int, *, dtype: Any = None, exclusive: bool = False, reverse: bool = False) -> Any:
        """See `adjoint.cumsum`."""
        keywords = {"dtype": dtype, "exclusive": exclusive, "reverse": reverse}
        return record(entry_of(cumulative.cumsum), (self, dim), keywords)

    def cumprod(self, dim: int, *, dtype: Any = None, exclusive: bool = False, reverse: bool = False) -> Any:
        """See `adjoint.cumprod`."""
        keywords = {"dtype": dtype, "exclusive": exclusive, "reverse": reverse}
        return record(entry_of(cumulative.cumprod), (self, dim), keywords)

    def logcumsumexp(self, dim: int) -> Any:
        """See `adjoint.logcumsumexp`."""
        return record(entry_of(cumulative.logcumsumexp), (self, dim))

    def cummax(self, dim: int) -> Any:
        """See `adjoint.cummax`."""
        return cumulative.cummax(self, dim)

    def cummin(self, dim: int) -> Any:
        """See `adjoint.cummin`."""
        return cumulative.cummin(self, dim)

    def diff(self, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
        """See `adjoint.diff`."""
        return cumulative.diff(self, n, dim, prepend, append)

    def norm(self, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        """See `adjoint.norm`."""
        return record(entry_of(norms.norm), (self, p, dim, keepdim, dtype))

    def dist(self, other: Any, p: float = 2) -> Any:
        """See `adjoint.dist`."""
        return record(entry_of(norms.dist), (self, other, p))

    def renorm(self, p: float, dim: int, maxnorm: float) -> Any:
        """See `adjoint.renorm`."""
        return record(entry_of(norms.renorm), (self, p, dim, maxnorm))

    def nansum(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """See `adjoint.nansum`."""
        return record(entry_of(norms.nansum), (self, dim, keepdim), {"dtype": dtype})

    def nanmean(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """See `adjoint.nanmean`."""
        return record(entry_of(norms.nanmean), (self, dim, keepdim), {"dtype": dtype})
