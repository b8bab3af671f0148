"""Normalization within each example: group, instance, root mean square and local response normalization."""

from math import prod

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value, apply
from adjoint.ops.arithmetic import add, divide, multiply
from adjoint.ops.axes import Axes, axes_of
from adjoint.ops.centred import CentredSquares, Normalize
from adjoint.ops.convert import cast
from adjoint.ops.normalization import check_channels, check_eps
from adjoint.ops.pooling import SumPool2d
from adjoint.ops.powers import power, rsqrt, square
from adjoint.ops.reduce import mean, widened
from adjoint.ops.rules import require_float
from adjoint.ops.shape import pad, reshape

__all__ = ["group_norm", "instance_norm", "local_response_norm", "rms_norm"]


def group_norm(
    x: Value, num_groups: int, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5
) -> Value:
    """`layer_norm` over groups of channels and all pixels (Wu and He, 2018), then a factor and a term per channel.

    Parameters
    ----------
    x : Value
        Float, shape ``[N, C, ...]``. 16-bit floats are computed in f32 and rounded once.
    num_groups : int
        Number of groups; C is a multiple of it.
    weight, bias : Value, optional
        Shape ``[C]``.
    eps : float, default 1e-5
        At least 0; added to the variance.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match, or the whole batch has a single element per group channel.
    """
    if len(x.shape) < 2 or num_groups < 1 or x.shape[1] % num_groups:
        raise TypeRuleError(
            f"group_norm: the channels of [N, C, ...] must be a multiple of num_groups, got {x.type} and {num_groups}; "
            "change one"
        )
    check_channels("group_norm", x, weight=weight, bias=bias)
    check_eps("group_norm", eps)
    if prod(x.shape) == num_groups:
        raise TypeRuleError(
            f"group_norm: a group must have more than one element, got {x.type} in {num_groups} groups; use fewer "
            "groups"
        )
    return _grouped(x, num_groups, weight, bias, eps)


def _grouped(x: Value, groups: int, weight: Value | None, bias: Value | None, eps: float) -> Value:
    if 0 in x.shape:
        return x
    # One shape for everything, with the channels of a group and the pixels apart, so that no index is divided.
    each, pixels = x.shape[1] // groups, prod(x.shape[2:])
    wide = reshape(widened(x), (x.shape[0], groups, each, pixels))
    centre = mean(wide, (2, 3))
    spread = divide(apply(CentredSquares((2, 3)), wide, centre), float(each * pixels))
    result = apply(Normalize((2, 3)), wide, centre, rsqrt(add(spread, eps)))
    if weight is not None:
        result = multiply(result, reshape(cast(weight, wide.dtype), (groups, each, 1)))
    if bias is not None:
        result = add(result, reshape(cast(bias, wide.dtype), (groups, each, 1)))
    return cast(reshape(result, x.shape), x.dtype)


def instance_norm(
    x: Value,
    running_mean: Value | None = None,
    running_var: Value | None = None,
    weight: Value | None = None,
    bias: Value | None = None,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Value | tuple[Value, Value, Value]:
    """`group_norm` with one channel per group (Ulyanov et al., 2016).

    Parameters
    ----------
    x : Value
        Float, shape ``[N, C, ...]`` with more than one pixel.
    running_mean, running_var : Value, optional
        The states, shape ``[C]``, both or none.
    weight, bias : Value, optional
        Shape ``[C]``.
    momentum : float, default 0.1
        The weight of this batch in the new states.
    eps : float, default 1e-5
        At least 0; added to the variance.

    Returns
    -------
    Value or tuple of Value
        The result; with states also their new values ``(1 - momentum) * running + momentum * own``, where own are the
        means over the batch of the means and unbiased variances of all images, as in PyTorch.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match, or a channel of an image has only one element.
    """
    if len(x.shape) < 3 or prod(x.shape[2:]) == 1:
        raise TypeRuleError(
            f"instance_norm: the input must be [N, C, ...] with more than one pixel, got {x.type}; use larger images"
        )
    check_channels("instance_norm", x, running_mean=running_mean, running_var=running_var, weight=weight, bias=bias)
    check_eps("instance_norm", eps)
    result = _grouped(x, x.shape[1], weight, bias, eps)
    if running_mean is None or running_var is None:
        return result
    wide, axes, count = widened(x), tuple(range(2, len(x.shape))), prod(x.shape[2:])
    centre = mean(wide, axes)
    spread = divide(apply(CentredSquares(axes), wide, centre), float(count - 1))
    states = []
    for old, own in ((running_mean, centre), (running_var, spread)):
        states.append(add(multiply(old, 1.0 - momentum), cast(multiply(mean(own, 0), momentum), old.dtype)))
    return result, states[0], states[1]


def rms_norm(x: Value, weight: Value | None = None, axis: Axes = -1, eps: float | None = None) -> Value:
    """``x / sqrt(mean(x**2) + eps) * weight`` (Zhang and Sennrich, 2019).

    Parameters
    ----------
    x : Value
        Float. 16-bit floats are computed in f32 and rounded once.
    weight : Value, optional
        A factor, whose shape broadcasts to that of `x`.
    axis : int or sequence of int, default -1
        The axes over which it is normalized; None means all.
    eps : float, optional
        Added to the mean; default: the machine epsilon of the dtype in which it is computed.
    """
    require_float("rms_norm", x)
    axes = axes_of("rms_norm", axis, len(x.shape))
    wide = widened(x)
    least = float(np.finfo(wide.dtype).eps) if eps is None else eps
    result = multiply(wide, rsqrt(add(mean(square(wide), axes, keepdims=True), least)))
    if weight is not None:
        result = multiply(result, cast(weight, wide.dtype))
    return cast(result, x.dtype)


def local_response_norm(x: Value, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Value:
    """``x / (k + alpha * mean(x**2))**beta``, where the mean is over neighbouring channels (Krizhevsky et al., 2012).

    Parameters
    ----------
    x : Value
        Float, shape ``[N, C, ...]``. 16-bit floats are computed in f32 and rounded once.
    size : int
        Number of channels of a mean: ``size // 2`` before each, and ``(size - 1) // 2`` after it. Those that do not
        exist are 0.
    alpha, beta, k : float, default 1e-4, 0.75, 1
        The numbers of the formula.

    Raises
    ------
    TypeRuleError
        If there are no pixels.
    InvalidValueError
        If the size is not positive.
    """
    require_float("local_response_norm", x)
    if len(x.shape) < 3:
        raise TypeRuleError(f"local_response_norm: the input must be [N, C, ...] with pixels, got {x.type}; reshape it")
    if size < 1:
        raise InvalidValueError(f"local_response_norm: size must be at least 1, got {size}; use 5")
    wide = widened(x)
    flat = reshape(square(wide), (x.shape[0], 1, x.shape[1], prod(x.shape[2:])))
    padded = pad(flat, (0, 0, size // 2, 0), (0, 0, (size - 1) // 2, 0))
    nearby = reshape(divide(apply(SumPool2d((size, 1), (1, 1)), padded), float(size)), x.shape)
    return cast(divide(wide, power(add(multiply(nearby, alpha), k), beta)), x.dtype)
