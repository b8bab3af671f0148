"""Activation functions, with PyTorch's names and settings.

Those that work element by element take ``inplace=True``, which also gives the operand the result.
"""

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.nn.functional.recording import Array, elementwise, recorded
from adjoint.tensor.autocasting import low_precision
from adjoint.tensor.elementwise import floating
from adjoint.tensor.random import next_key
from adjoint.tensor.record import entry_of, operation, record_in_place
from adjoint.tensor.scalar_axes import accepts_scalars

__all__ = [
    "celu",
    "elu",
    "gelu",
    "glu",
    "hardshrink",
    "hardsigmoid",
    "hardswish",
    "hardtanh",
    "leaky_relu",
    "log_softmax",
    "logsigmoid",
    "mish",
    "prelu",
    "relu",
    "relu6",
    "rrelu",
    "selu",
    "sigmoid",
    "silu",
    "softmax",
    "softmin",
    "softplus",
    "softshrink",
    "softsign",
    "swiglu",
    "tanh",
    "tanhshrink",
    "threshold",
]


@elementwise
def relu(input: Array) -> Array:
    """``max(input, 0)``; the gradient at 0 is 0."""
    return ops.relu(input)


@elementwise
def relu6(input: Array) -> Array:
    """``min(max(input, 0), 6)``."""
    return ops.relu6(input)


@elementwise
def sigmoid(input: Array) -> Array:
    """``1 / (1 + exp(-input))``."""
    return ops.sigmoid(input)


@elementwise
def tanh(input: Array) -> Array:
    """The hyperbolic tangent."""
    return ops.tanh(input)


@elementwise
def silu(input: Array) -> Array:
    """``input * sigmoid(input)``."""
    return ops.silu(input)


@elementwise
def mish(input: Array) -> Array:
    """``input * tanh(softplus(input))`` (Misra, "Mish: A Self Regularized Non-Monotonic Activation Function", 2019)."""
    return ops.mish(input)


@elementwise
def softsign(input: Array) -> Array:
    """``input / (1 + abs(input))``."""
    return ops.softsign(floating(input))


@elementwise
def tanhshrink(input: Array) -> Array:
    """``input - tanh(input)``."""
    return ops.tanhshrink(floating(input))


@elementwise
def logsigmoid(input: Array) -> Array:
    """``log(sigmoid(input))``, computed as ``-softplus(-input)``."""
    return ops.logsigmoid(input)


@elementwise
def hardsigmoid(input: Array) -> Array:
    """``min(max(input / 6 + 1/2, 0), 1)``; the gradient at -3 and 3 is 0."""
    return ops.hardsigmoid(input)


@elementwise
def hardswish(input: Array) -> Array:
    """``input * hardsigmoid(input)`` (Howard et al., "Searching for MobileNetV3", 2019)."""
    return ops.hardswish(input)


@elementwise
def hardtanh(input: Array, min_val: float = -1.0, max_val: float = 1.0) -> Array:
    """``min(max(input, min_val), max_val)``; the gradient at the bounds is 0."""
    return ops.hardtanh(input, min_val, max_val)


@elementwise
def leaky_relu(input: Array, negative_slope: float = 0.01) -> Array:
    """`input` if it is positive, otherwise ``negative_slope * input``."""
    return ops.leaky_relu(input, negative_slope)


@operation
def _rrelu(x: Array, lower: float, upper: float, key: Array) -> Array:
    slopes = ops.cast(ops.random.uniform(key, x.shape, low=lower, high=upper), x.dtype)
    return ops.where(ops.greater(x, 0.0), x, ops.multiply(x, slopes))


def rrelu(
    input: Array, lower: float = 1.0 / 8, upper: float = 1.0 / 3, training: bool = False, inplace: bool = False
) -> Array:
    """`input` if it is positive, otherwise times a slope, which may be drawn (Xu et al., 2015).

    Parameters
    ----------
    input : Tensor
        Float.
    lower, upper : float, default 1/8 and 1/3
        The limits of the slopes.
    training : bool, default False
        Whether the slopes are drawn, one for each element, from the uniform distribution; otherwise all are its mean.
    inplace : bool, default False
        Whether the input gets the result too.

    Raises
    ------
    InvalidValueError
        If `lower` is above `upper`.
    """
    if not lower <= upper:
        raise InvalidValueError(f"rrelu: lower must be at most upper, got {lower} and {upper}; exchange them?")
    if not training:
        return leaky_relu(input, (lower + upper) / 2, inplace=inplace)
    if inplace:
        return record_in_place(entry_of(_rrelu), input, float(lower), float(upper), next_key())
    return _rrelu(input, float(lower), float(upper), next_key())


@elementwise
def elu(input: Array, alpha: float = 1.0) -> Array:
    """`input` if it is positive, otherwise ``alpha * (exp(input) - 1)`` (Clevert et al., 2015)."""
    return ops.elu(input, alpha)


@elementwise
def celu(input: Array, alpha: float = 1.0) -> Array:
    """`input` if it is positive, otherwise ``alpha * (exp(input / alpha) - 1)`` (Barron, 2017)."""
    return ops.celu(input, alpha)


@elementwise
def selu(input: Array) -> Array:
    """`elu` with the two constants for which activations normalize themselves (Klambauer et al., 2017)."""
    return ops.selu(input)


@elementwise
def softplus(input: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """``log(1 + exp(beta * input)) / beta``, and `input` itself where ``beta * input`` exceeds the threshold."""
    scaled = input if beta == 1 else ops.multiply(input, beta)
    smooth = ops.softplus(scaled)
    smooth = smooth if beta == 1 else ops.divide(smooth, beta)
    return ops.where(ops.greater(scaled, threshold), input, smooth)


@elementwise
def threshold(input: Array, threshold: float, value: float) -> Array:
    """`input` where it exceeds the threshold, otherwise `value`."""
    return ops.threshold(input, threshold, value)


@elementwise
def softshrink(input: Array, lambd: float = 0.5) -> Array:
    """``input - lambd`` above `lambd`, ``input + lambd`` below ``-lambd``, and 0 between."""
    return ops.softshrink(input, lambd)


@elementwise
def hardshrink(input: Array, lambd: float = 0.5) -> Array:
    """`input`, and 0 where its absolute value is at most `lambd`."""
    return ops.hardshrink(input, lambd)


@recorded
def gelu(input: Array, approximate: str = "none") -> Array:
    """The Gaussian error linear unit, exactly or, with ``approximate="tanh"``, by a hyperbolic tangent."""
    return ops.gelu(input, approximate)


@low_precision
@recorded
def prelu(input: Array, weight: Array) -> Array:
    """`input` if it is positive, otherwise ``weight * input``.

    Parameters
    ----------
    input : Tensor
        Float; its axis 1 has the channels.
    weight : Tensor
        The slope: a single one, shape ``[1]`` or ``[]``, or one per channel.
    """
    return ops.prelu(input, weight)


@recorded
def glu(input: Array, dim: int = -1) -> Array:
    """The first half along an axis times the sigmoid of the second half (Dauphin et al., 2016)."""
    return ops.glu(input, dim)


@recorded
def swiglu(input: Array, dim: int = -1) -> Array:
    """`silu` of the first half along an axis times the second half (Shazeer, "GLU Variants Improve Transformer", 2020).

    PyTorch has no function of this name; Llama's gate is the first half.
    """
    return ops.swiglu(input, dim)


@recorded
@accepts_scalars()
def softmax(input: Array, dim: int | None = None, dtype: object = None) -> Array:
    """``exp(input) / sum(exp(input))`` along an axis.

    Parameters
    ----------
    input : Tensor
        Float.
    dim : int
        The axis along which the result adds up to 1.
    dtype : str or numpy dtype, optional
        Convert the input to it first.
    """
    return ops.softmax(_prepared("softmax", input, dim, dtype), dim)


@recorded
@accepts_scalars()
def log_softmax(input: Array, dim: int | None = None, dtype: object = None) -> Array:
    """``log(softmax(input))`` along an axis; arguments as in `softmax`."""
    return ops.log_softmax(_prepared("log_softmax", input, dim, dtype), dim)


@recorded
@accepts_scalars()
def softmin(input: Array, dim: int | None = None, dtype: object = None) -> Array:
    """``softmax(-input)`` along an axis; arguments as in `softmax`."""
    return ops.softmin(_prepared("softmin", input, dim, dtype), dim)


def _prepared(name: str, x: Array, dim: int | None, dtype: object) -> Array:
    if dim is None:
        raise TypeRuleError(f"{name}: the axis must be given, got dim=None; pass dim=-1 for the last one")
    return x if dtype is None else ops.cast(x, dtype)
