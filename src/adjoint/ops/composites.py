"""Functions that are graphs of operators: activations, softmax and its kin, normalisation, the linear layer.

They need no gradient or lowering of their own: both follow from the operators, and fusion makes one kernel of what
belongs together. Where a greatest element is subtracted for the sake of exponentials it goes through
`stop_gradient`: the result does not depend on it, so its gradient is 0 and need not be computed.
"""

from math import pi, sqrt

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import dtype_name, is_float
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, divide, multiply, subtract
from adjoint.ops.axes import Axes, axes_of, without
from adjoint.ops.contract import matmul
from adjoint.ops.convert import cast, stop_gradient
from adjoint.ops.logic import equal, greater, where
from adjoint.ops.piecewise import maximum
from adjoint.ops.powers import rsqrt, square
from adjoint.ops.reduce import max, mean, sum, widened
from adjoint.ops.shape import reshape
from adjoint.ops.transcendental import erf, exp, expm1, log, log1p, sigmoid, tanh

__all__ = [
    "gelu",
    "layer_norm",
    "leaky_relu",
    "linear",
    "log_softmax",
    "logsumexp",
    "silu",
    "softmax",
    "softplus",
    "variance",
]


def _require_float(name: str, x: Value) -> None:
    if not is_float(x.dtype):
        raise TypeRuleError(f"{name}: needs a dtype that is float, got {x.type}; cast to a float such as f32 first")


def gelu(x: Value, approximate: str = "none") -> Value:
    """``x * P(Z <= x)`` for a standard normal Z: the Gaussian error linear unit.

    Parameters
    ----------
    x : Value
        Float, any shape.
    approximate : {"none", "tanh"}, default "none"
        "none": ``0.5 * x * (1 + erf(x / sqrt(2)))``. "tanh": ``0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
        x**3)))``. Both of Hendrycks and Gimpel, "Gaussian Error Linear Units", 2016, section 2.
    """
    _require_float("gelu", x)
    if approximate == "none":
        inner = erf(multiply(x, sqrt(0.5)))
    elif approximate == "tanh":
        cubic = add(x, multiply(multiply(square(x), x), 0.044715))
        inner = tanh(multiply(cubic, sqrt(2 / pi)))
    else:
        raise InvalidValueError(f"gelu: approximate is 'none' or 'tanh', got {approximate!r}; use one of them")
    return multiply(multiply(x, 0.5), add(inner, 1.0))


def silu(x: Value) -> Value:
    """``x * sigmoid(x)``, also called swish (Elfwing, Uchibe and Doya, 2017). `x` is float."""
    _require_float("silu", x)
    return multiply(x, sigmoid(x))


def softplus(x: Value) -> Value:
    """``log(1 + exp(x))``, accurate for all finite `x`; its gradient is ``sigmoid(x)``. `x` is float.

    With ``m = max(x, 0)`` it is ``m + log(exp(x - m) + exp(-m))``, of whose terms one is 1. It is smooth for m
    constant, so that derivatives of every order are right at 0 too.
    """
    _require_float("softplus", x)
    top = stop_gradient(maximum(x, 0.0))
    return add(top, log1p(add(exp(subtract(x, top)), expm1(multiply(top, -1.0)))))


def leaky_relu(x: Value, slope: float = 0.01) -> Value:
    """`x` where it is positive, else ``slope * x``; the gradient at 0 is `slope`, as PyTorch's. `x` is float."""
    _require_float("leaky_relu", x)
    return where(greater(x, 0.0), x, multiply(x, slope))


def softmax(x: Value, axis: Axes = -1) -> Value:
    """``exp(x) / sum(exp(x))`` along an axis, computed from ``x - max(x)``.

    Parameters
    ----------
    x : Value
        Float, of rank 1 or more.
    axis : int or sequence of int, default -1
        Along which the result adds up to 1; None is every axis.
    """
    _require_float("softmax", x)
    axes = axes_of("softmax", axis, len(x.shape))
    if 0 in x.shape:
        return x
    powers = exp(subtract(x, stop_gradient(max(x, axes, keepdims=True))))
    return divide(powers, sum(powers, axes, keepdims=True))


def log_softmax(x: Value, axis: Axes = -1) -> Value:
    """``log(softmax(x))``, without the overflow and underflow of computing it so.

    Parameters
    ----------
    x : Value
        Float, of rank 1 or more.
    axis : int or sequence of int, default -1
        Along which the exponentials of the result add up to 1; None is every axis.
    """
    _require_float("log_softmax", x)
    axes = axes_of("log_softmax", axis, len(x.shape))
    if 0 in x.shape:
        return x
    lowered = subtract(x, stop_gradient(max(x, axes, keepdims=True)))
    return subtract(lowered, log(sum(exp(lowered), axes, keepdims=True)))


def logsumexp(x: Value, axis: Axes = None, keepdims: bool = False) -> Value:
    """``log(sum(exp(x)))`` over axes, computed from ``x - max(x)``.

    It is -inf where every element is, and of nothing; its gradient is ``softmax(x)``.

    Parameters
    ----------
    x : Value
        Float.
    axis : int or sequence of int, optional
        What to add up over, negative counting from the end; default: every axis.
    keepdims : bool, default False
        Leave the axes in the result, with size 1.
    """
    _require_float("logsumexp", x)
    axes = axes_of("logsumexp", axis, len(x.shape))
    if any(x.shape[n] == 0 for n in axes):
        return add(sum(x, axes, keepdims), float("-inf"))
    top = max(x, axes, keepdims=True)
    # Infinities are not subtracted: inf - inf would be NaN where exp, sum and log give the right infinity.
    finite = equal(subtract(top, top), 0.0)
    top = stop_gradient(where(finite, top, 0.0))
    result = add(top, log(sum(exp(subtract(x, top)), axes, keepdims=True)))
    return result if keepdims else reshape(result, without(x.shape, axes))


def variance(x: Value, axis: Axes = None, correction: float = 0, keepdims: bool = False) -> Value:
    """The mean squared distance from the mean, over axes.

    Parameters
    ----------
    x : Value
        Float. Of 16 bits it is computed in f32 and rounded once.
    axis : int or sequence of int, optional
        What to reduce, negative counting from the end; default: every axis.
    correction : float, default 0
        Taken from the number of elements that the sum of squares is divided by: 0 for the variance of the
        elements, 1 for Bessel's estimate of the variance that they were drawn from.
    keepdims : bool, default False
        Leave the axes in the result, with size 1.

    Raises
    ------
    InvalidValueError
        Where the correction leaves nothing to divide by.
    """
    _require_float("variance", x)
    axes = axes_of("variance", axis, len(x.shape))
    count = 1
    for n in axes:
        count *= x.shape[n]
    if count - correction <= 0:
        raise InvalidValueError(
            f"variance: more elements than the correction, got {count} over axes {axes} of {x.type} with correction "
            f"{correction}; reduce more elements or correct less"
        )
    wide = widened(x)
    squares = square(subtract(wide, mean(wide, axes, keepdims=True)))
    return cast(divide(sum(squares, axes, keepdims), float(count - correction)), x.dtype)


def layer_norm(x: Value, weight: Value | None = None, bias: Value | None = None, eps: float = 1e-5) -> Value:
    """``(x - mean) / sqrt(variance + eps) * weight + bias``, over the last axis (Ba, Kiros and Hinton, 2016).

    Parameters
    ----------
    x : Value
        Float, shape ``[..., D]``. Of 16 bits it is computed in f32 and rounded once.
    weight, bias : Value, optional
        Shape ``[D]``, the dtype of `x`.
    eps : float, default 1e-5
        At least 0; keeps rows of equal elements from a division by 0.
    """
    _require_float("layer_norm", x)
    if not x.shape or not x.shape[-1]:
        raise TypeRuleError(f"layer_norm: the last axis has elements, got {x.type}; reshape it")
    if eps < 0:
        raise InvalidValueError(f"layer_norm: eps is at least 0, got {eps}; use 1e-5")
    wide = widened(x)
    centred = subtract(wide, mean(wide, -1, keepdims=True))
    result = multiply(centred, rsqrt(add(mean(square(centred), -1, keepdims=True), eps)))
    if weight is not None:
        result = multiply(result, cast(_row("layer_norm", "weight", weight, x), wide.dtype))
    if bias is not None:
        result = add(result, cast(_row("layer_norm", "bias", bias, x), wide.dtype))
    return cast(result, x.dtype)


def linear(x: Value, w: Value, b: Value | None = None) -> Value:
    """``x @ w + b``.

    Parameters
    ----------
    x : Value
        Shape ``[..., in]``.
    w : Value
        Shape ``[in, out]``; PyTorch stores its transpose.
    b : Value, optional
        Shape ``[out]``.
    """
    if len(w.shape) != 2:
        raise TypeRuleError(f"linear: w has the shape [in, out], got {w.type}; use matmul for other products")
    result = matmul(x, w)
    return result if b is None else add(result, _row("linear", "b", b, result))


def _row(name: str, argument: str, row: Value, x: Value) -> Value:
    """`row`, or a refusal where it is not one row along the last axis of `x`."""
    if row.shape != x.shape[-1:] or row.dtype != x.dtype:
        wanted = f"{dtype_name(x.dtype)}[{x.shape[-1]}]"
        raise TypeRuleError(f"{name}: {argument} is one row of {x.type}, got {row.type}; give it as {wanted}")
    return row
