"""Activation functions composed of operators, with PyTorch's conventions where the derivative is not unique."""

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.value import Value
from adjoint.ops.arithmetic import add, divide, multiply, negative, subtract
from adjoint.ops.axes import Axes
from adjoint.ops.composites import silu, softmax, softplus
from adjoint.ops.convert import stop_gradient
from adjoint.ops.logic import greater, less, logical_and, where
from adjoint.ops.piecewise import abs, clip
from adjoint.ops.rules import require_float
from adjoint.ops.shape import reshape, slice_axis
from adjoint.ops.transcendental import expm1, sigmoid, tanh

__all__ = [
    "celu",
    "elu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "logsigmoid",
    "mish",
    "prelu",
    "relu6",
    "selu",
    "softmin",
    "softshrink",
    "softsign",
    "swiglu",
    "tanhshrink",
    "threshold",
]

#: Klambauer et al., "Self-Normalizing Neural Networks", 2017.
_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946


def _between(x: Value, low: float, high: float) -> Value:
    """`x` within bounds; unlike `clip`, without a gradient at the bounds."""
    return where(logical_and(greater(x, low), less(x, high)), x, stop_gradient(clip(x, low, high)))


def relu6(x: Value) -> Value:
    """``min(max(x, 0), 6)`` for floats; the gradient at 0 and 6 is 0."""
    return _between(x, 0.0, 6.0)


def hardtanh(x: Value, low: float = -1.0, high: float = 1.0) -> Value:
    """``min(max(x, low), high)`` for floats; the gradient at the bounds is 0."""
    if not low <= high:
        raise InvalidValueError(f"hardtanh: min_val must be at most max_val, got {low} and {high}; exchange them?")
    return _between(x, low, high)


def hardsigmoid(x: Value) -> Value:
    """``min(max(x / 6 + 1/2, 0), 1)`` for floats; the gradient at -3 and 3 is 0."""
    return divide(_between(add(x, 3.0), 0.0, 6.0), 6.0)


def hardswish(x: Value) -> Value:
    """``x * hardsigmoid(x)`` for floats (Howard et al., "Searching for MobileNetV3", 2019)."""
    return divide(multiply(x, _between(add(x, 3.0), 0.0, 6.0)), 6.0)


def mish(x: Value) -> Value:
    """``x * tanh(softplus(x))`` for floats (Misra, 2019)."""
    return multiply(x, tanh(softplus(x)))


def softsign(x: Value) -> Value:
    """``x / (1 + abs(x))`` for floats."""
    return divide(x, add(abs(x), 1.0))


def tanhshrink(x: Value) -> Value:
    """``x - tanh(x)`` for floats."""
    return subtract(x, tanh(x))


def logsigmoid(x: Value) -> Value:
    """``log(sigmoid(x))`` for floats, computed as ``-softplus(-x)``."""
    return negative(softplus(negative(x)))


def elu(x: Value, alpha: float = 1.0) -> Value:
    """`x` if it is positive, otherwise ``alpha * (exp(x) - 1)``, for floats (Clevert et al., 2015)."""
    return _elu(x, alpha, 1.0)


def celu(x: Value, alpha: float = 1.0) -> Value:
    """`x` if it is positive, otherwise ``alpha * (exp(x / alpha) - 1)``, for floats (Barron, 2017)."""
    return _elu(x, alpha, 1.0 / alpha)


def selu(x: Value) -> Value:
    """`elu` with the two constants for which activations normalize themselves (Klambauer et al., 2017)."""
    return multiply(_elu(x, _SELU_ALPHA, 1.0), _SELU_SCALE)


def _elu(x: Value, alpha: float, slope: float) -> Value:
    # The minimum keeps the exponential of large elements, and so its gradient, finite.
    below = where(greater(x, 0.0), 0.0, x)
    return where(greater(x, 0.0), x, multiply(expm1(multiply(below, slope)), alpha))


def threshold(x: Value, limit: float, value: float) -> Value:
    """`x` where it exceeds the limit, otherwise `value`."""
    return where(greater(x, limit), x, value)


def softshrink(x: Value, limit: float = 0.5) -> Value:
    """``x - limit`` above the limit, ``x + limit`` below ``-limit``, and 0 between, for floats."""
    above = where(greater(x, limit), subtract(x, limit), 0.0)
    return where(less(x, -limit), add(x, limit), above)


def hardshrink(x: Value, limit: float = 0.5) -> Value:
    """`x`, and 0 where its absolute value is at most the limit, for floats."""
    return where(greater(abs(x), limit), x, 0.0)


def prelu(x: Value, weight: Value) -> Value:
    """`x` if it is positive, otherwise ``weight * x``.

    Parameters
    ----------
    x : Value
        Float; its axis 1 has the channels.
    weight : Value
        The slope: a single one, shape ``[1]`` or ``[]``, or one per channel.
    """
    if weight.type.size == 1 and len(weight.shape) < 2:
        weight = reshape(weight, ())
    else:
        if len(x.shape) < 2 or weight.shape != x.shape[1:2]:
            raise TypeRuleError(
                f"prelu: the weight must have one element, or one per channel of {x.type}, got {weight.type}; "
                "change num_parameters"
            )
        weight = reshape(weight, (weight.shape[0], *(1 for _ in x.shape[2:])))
    return where(greater(x, 0.0), x, multiply(x, weight))


def glu(x: Value, axis: int = -1) -> Value:
    """The first half along an axis times the sigmoid of the second half (Dauphin et al., 2016)."""
    first, second = _halves("glu", x, axis)
    return multiply(first, sigmoid(second))


def swiglu(x: Value, axis: int = -1) -> Value:
    """`silu` of the first half along an axis times the second half (Shazeer, 2020): the gate of Llama."""
    first, second = _halves("swiglu", x, axis)
    return multiply(silu(first), second)


def _halves(name: str, x: Value, axis: int) -> tuple[Value, Value]:
    rank = len(x.shape)
    if not -rank <= axis < rank or x.shape[axis] % 2:
        raise TypeRuleError(f"{name}: the axis dim must have an even size, got {x.type} and dim={axis}; reshape it")
    half = x.shape[axis] // 2
    return slice_axis(x, axis, 0, half), slice_axis(x, axis, half, 2 * half)


def softmin(x: Value, axis: Axes = -1) -> Value:
    """``softmax(-x)`` along an axis, for floats."""
    require_float("softmin", x)
    return softmax(negative(x), axis)
