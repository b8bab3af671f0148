"""Normalization by mean and variance (batch and layer normalization), and the variance itself.

All are composed of `CentredSquares` and `Normalize`: two sums over the data in the forward pass and two in the backward
pass. The variance is computed from deviations from the mean rather than as a difference of squares, which would cancel
if the mean is large.
"""

from math import prod

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import dtype_name
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, divide, multiply, subtract
from adjoint.ops.axes import Axes, axes_of
from adjoint.ops.centred import CentredSquares, Normalize
from adjoint.ops.convert import cast
from adjoint.ops.logic import greater, where
from adjoint.ops.powers import rsqrt
from adjoint.ops.reduce import mean, widened
from adjoint.ops.rules import one_row, require_float
from adjoint.ops.shape import reshape
from adjoint.ops.sizes import count

__all__ = ["batch_norm", "batch_norm_inference", "check_channels", "check_eps", "layer_norm", "variance"]


def variance(x: Value, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Value:
    """The mean squared deviation from the mean, over axes.

    Parameters
    ----------
    x : Value
        Float. 16-bit floats are computed in f32 and rounded once.
    axis : int or sequence of int, optional
        The axes to reduce, negative counting from the end; default: all axes.
    correction : float, default 0
        Subtracted from the number of elements to get the divisor of the sum of squares: 0 for the variance of the
        elements, 1 for the unbiased estimate (Bessel's correction).
    keepdims : bool, default False
        Keep the axes in the result, with size 1.

    Raises
    ------
    InvalidValueError
        If the divisor is not positive.
    """
    require_float("variance", x)
    axes = axes_of("variance", axis, len(x.shape))
    size = _size(x, axes)
    if size - correction <= 0:
        raise InvalidValueError(
            f"variance: the number of elements must exceed the correction, got {size} over axes {axes} of {x.type} "
            f"with correction {correction}; reduce more elements or correct less"
        )
    wide = widened(x)
    squares = apply(CentredSquares(axes), wide, mean(wide, axes))
    divisor = count(wide, axes, wide.dtype)
    result = cast(divide(squares, subtract(divisor, float(correction)) if correction else divisor), x.dtype)
    return reshape(result, [1 if n in axes else size for n, size in enumerate(x.shape)]) if keepdims else result


def layer_norm(x: Value, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5) -> Value:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, over the last axis (Ba, Kiros and Hinton, 2016).

    Parameters
    ----------
    x : Value
        Float, shape ``[..., D]``. 16-bit floats are computed in f32 and rounded once.
    weight, bias : Value, optional
        Shape ``[D]``, same dtype as `x`.
    eps : float, default 1e-5
        At least 0; avoids a division by 0 for rows of equal elements.
    """
    require_float("layer_norm", x)
    if not x.shape or not x.shape[-1]:
        raise TypeRuleError(f"layer_norm: the last axis must not be empty, got {x.type}; reshape it")
    check_eps("layer_norm", eps)
    wide = widened(x)
    axes = (len(x.shape) - 1,)
    centre = mean(wide, axes)
    spread = divide(apply(CentredSquares(axes), wide, centre), float(x.shape[-1]))
    result = apply(Normalize(axes), wide, centre, rsqrt(add(spread, eps)))
    if weight is not None:
        result = multiply(result, cast(one_row("layer_norm", "weight", weight, x), wide.dtype))
    if bias is not None:
        result = add(result, cast(one_row("layer_norm", "bias", bias, x), wide.dtype))
    return cast(result, x.dtype)


def batch_norm(
    x: Value,
    running_mean: Value,
    running_var: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
    unbiased: bool = True,
) -> tuple[Value, Value, Value]:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, with the mean and variance of the batch itself.

    Ioffe and Szegedy, "Batch Normalization", 2015; like `torch.nn.functional.batch_norm` with ``training=True``.

    Parameters
    ----------
    x : Value
        Float, shape ``[N, C]`` or ``[N, C, ...]``, normalized over all axes except the second. 16-bit floats are
        computed in f32 and rounded once.
    running_mean, running_var : Value
        The states, shape ``[C]``.
    weight, bias : Value, optional
        Shape ``[C]``.
    momentum : float, default 0.1
        Between 0 and 1: the weight of this batch in the new states.
    eps : float, default 1e-5
        At least 0.
    unbiased : bool, default True
        Whether the variance in the new state has the number of elements minus one as its divisor (Bessel's correction),
        as in PyTorch, rather than their number, as in the formulas of the paper's algorithm 1.

    Returns
    -------
    tuple of Value
        The result, of the type of `x`, and the new states ``(1 - momentum) * running + momentum * own``. In a batch of
        fewer rows with a single element per channel, the running variance stays as it is.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match, or a channel has only one element.
    InvalidValueError
        If a setting is out of range.
    """
    name = "batch_norm"
    axes = check_channels(name, x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_eps(name, eps)
    if not 0.0 <= momentum <= 1.0:
        raise InvalidValueError(f"{name}: momentum must be between 0 and 1, got {momentum}; use 0.1")
    if _size(x, axes) < 2:
        raise TypeRuleError(f"{name}: a channel must have more than one element, got {x.type}; use larger batches")
    wide = widened(x)
    centre = mean(wide, axes)
    squares = apply(CentredSquares(axes), wide, centre)
    elements = count(wide, axes, wide.dtype)
    result = _normalized(x, axes, centre, divide(squares, elements), weight, bias, eps)
    own = (centre, divide(squares, subtract(elements, 1.0) if unbiased else elements))
    new_mean, new_var = (
        add(multiply(old, 1.0 - momentum), cast(multiply(new, momentum), old.dtype))
        for old, new in zip((running_mean, running_var), own, strict=True)
    )
    # A batch of fewer rows may have a single element per channel, which has no unbiased variance.
    return result, new_mean, where(greater(elements, 1.0), new_var, running_var)


def batch_norm_inference(
    x: Value,
    running_mean: Value,
    running_var: Value,
    weight: Value | None = None,
    bias: Value | None = None,
    eps: float = 1e-5,
) -> Value:
    """``(x - running_mean) / sqrt(running_var + eps) * weight + bias``: the inference mode of `batch_norm`.

    Parameters as in `batch_norm`; the states are not updated.
    """
    name = "batch_norm_inference"
    axes = check_channels(name, x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_eps(name, eps)
    dtype = widened(x).dtype
    return _normalized(x, axes, cast(running_mean, dtype), cast(running_var, dtype), weight, bias, eps)


def _normalized(
    x: Value,
    axes: tuple[int, ...],
    centre: Value,
    spread: Value,
    weight: Value | None,
    bias: Value | None,
    eps: float,
) -> Value:
    """Normalize with a single factor per channel, so that each element needs one multiplication."""
    wide = widened(x)
    scale = rsqrt(add(spread, eps))
    if weight is not None:
        scale = multiply(scale, cast(weight, wide.dtype))
    result = apply(Normalize(axes), wide, centre, scale)
    if bias is not None:
        result = add(result, reshape(cast(bias, wide.dtype), (x.shape[1], *(1 for _ in x.shape[2:]))))
    return cast(result, x.dtype)


def check_channels(name: str, x: Value, **given: Value | None) -> tuple[int, ...]:
    """The axes to normalize over; raises for an argument that does not have one element per channel."""
    require_float(name, x)
    if len(x.shape) < 2:
        raise TypeRuleError(f"{name}: the operand must have the shape [N, C, ...], got {x.type}; reshape it")
    for argument, value in given.items():
        if value is not None and (value.shape != x.shape[1:2] or value.dtype not in (x.dtype, widened(x).dtype)):
            wanted = f"{dtype_name(x.dtype)}[{x.shape[1]}]"
            raise TypeRuleError(
                f"{name}: {argument} must have one element per channel of {x.type}, got {value.type}; pass {wanted}"
            )
    return (0, *range(2, len(x.shape)))


def check_eps(name: str, eps: float) -> None:
    """Raise if what is added to the variance is negative."""
    if not eps >= 0:
        raise InvalidValueError(f"{name}: eps must be at least 0, got {eps}; use 1e-5")


def _size(x: Value, axes: tuple[int, ...]) -> int:
    return prod(x.shape[n] for n in axes)
