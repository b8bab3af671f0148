"""Methods of tensors that change them in place, for functions that are seldom used so.

Each calls the function of the same name, with the tensor as its first argument. What the function rounds to another
dtype, such as a comparison, is converted to that of the tensor.
"""

from collections.abc import Callable
from typing import Any

from adjoint.tensor import arithmetic, binary, comparison, cumulative, elementwise, linear_algebra
from adjoint.tensor.record import entry_of, record_in_place
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["MoreInPlace"]


def _in_place(function: Callable[..., Any]) -> Callable[..., Any]:
    """The method that changes a tensor to the result of an operation."""
    entry: Operation = entry_of(function)

    def method(self: Recorded, *args: Any, **keywords: Any) -> Any:
        return record_in_place(entry, self, *args, **keywords)

    method.__name__ = method.__qualname__ = f"{function.__name__}_"
    method.__doc__ = f"`{function.__name__}` in place."
    return method


class MoreInPlace(Recorded):
    """The part of `Tensor` that changes it by functions that are seldom used so. Each method returns the tensor."""

    acos_ = arccos_ = _in_place(elementwise.acos)
    acosh_ = arccosh_ = _in_place(elementwise.acosh)
    asin_ = arcsin_ = _in_place(elementwise.asin)
    asinh_ = arcsinh_ = _in_place(elementwise.asinh)
    atan_ = arctan_ = _in_place(elementwise.atan)
    atanh_ = arctanh_ = _in_place(elementwise.atanh)
    cosh_ = _in_place(elementwise.cosh)
    deg2rad_ = _in_place(elementwise.deg2rad)
    digamma_ = _in_place(elementwise.digamma)
    erfc_ = _in_place(elementwise.erfc)
    erfinv_ = _in_place(elementwise.erfinv)
    exp2_ = _in_place(elementwise.exp2)
    lgamma_ = _in_place(elementwise.lgamma)
    log10_ = _in_place(elementwise.log10)
    logit_ = _in_place(elementwise.logit)
    nan_to_num_ = _in_place(elementwise.nan_to_num)
    rad2deg_ = _in_place(elementwise.rad2deg)
    sgn_ = _in_place(elementwise.sgn)
    sinc_ = _in_place(elementwise.sinc)
    sinh_ = _in_place(elementwise.sinh)
    atan2_ = arctan2_ = _in_place(binary.atan2)
    copysign_ = _in_place(binary.copysign)
    heaviside_ = _in_place(binary.heaviside)
    hypot_ = _in_place(binary.hypot)
    ldexp_ = _in_place(binary.ldexp)
    xlogy_ = _in_place(binary.xlogy)
    cumsum_ = _in_place(cumulative.cumsum)
    cumprod_ = _in_place(cumulative.cumprod)
    absolute_ = _in_place(elementwise.abs)
    clip_ = _in_place(arithmetic.clamp)
    divide_ = true_divide_ = _in_place(arithmetic.div)
    fix_ = _in_place(elementwise.trunc)
    multiply_ = _in_place(arithmetic.mul)
    negative_ = _in_place(arithmetic.neg)
    subtract_ = _in_place(arithmetic.sub)
    eq_ = _in_place(comparison.eq)
    ge_ = greater_equal_ = _in_place(comparison.ge)
    gt_ = greater_ = _in_place(comparison.gt)
    le_ = less_equal_ = _in_place(comparison.le)
    lt_ = less_ = _in_place(comparison.lt)
    ne_ = not_equal_ = _in_place(comparison.ne)
    logical_and_ = _in_place(comparison.logical_and)
    logical_not_ = _in_place(comparison.logical_not)
    logical_or_ = _in_place(comparison.logical_or)
    logical_xor_ = _in_place(comparison.logical_xor)
    bitwise_and_ = _in_place(comparison.bitwise_and)
    bitwise_left_shift_ = _in_place(comparison.bitwise_left_shift)
    bitwise_not_ = _in_place(comparison.bitwise_not)
    bitwise_or_ = _in_place(comparison.bitwise_or)
    bitwise_right_shift_ = _in_place(comparison.bitwise_right_shift)
    bitwise_xor_ = _in_place(comparison.bitwise_xor)
    addbmm_ = _in_place(linear_algebra.addbmm)
    addmm_ = _in_place(linear_algebra.addmm)
    addmv_ = _in_place(linear_algebra.addmv)
    addr_ = _in_place(linear_algebra.addr)
    baddbmm_ = _in_place(linear_algebra.baddbmm)
