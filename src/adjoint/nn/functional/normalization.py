"""Normalization by mean and variance, with PyTorch's arguments."""

from collections.abc import Sequence
from math import prod
from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES, Value
from adjoint.nn.functional.recording import Array, recorded
from adjoint.tensor.autocasting import full_precision, own_precision
from adjoint.tensor.record import rebind
from adjoint.tensor.scalar_axes import accepts_scalars

__all__ = [
    "batch_norm",
    "group_norm",
    "instance_norm",
    "layer_norm",
    "local_response_norm",
    "normalize",
    "rms_norm",
    "train_batch_norm",
]


@own_precision
def layer_norm(
    input: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
) -> Array:
    """``(input - mean) / sqrt(variance + eps) * weight + bias`` over the last axes.

    Parameters
    ----------
    input : Tensor
        Float, shape ``[..., *normalized_shape]``.
    normalized_shape : sequence of int
        The sizes of the axes over which it is normalized.
    weight, bias : Tensor, optional
        Of the shape `normalized_shape`.
    eps : float, default 1e-5
        Added to the variance.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    """
    if len(normalized_shape) == 1:  # by far the most frequent case; numbers are found faster than sequences
        return _row_norm(input, normalized_shape[0], weight, bias, eps)
    return _layer_norm(input, tuple(normalized_shape), weight, bias, eps)


@recorded
def _row_norm(input: Array, size: int, weight: Array | None, bias: Array | None, eps: float) -> Array:
    _split("layer_norm", input, (size,))
    return ops.layer_norm(input, weight, bias, eps)


@recorded
def _layer_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> Array:
    lead, size = _split("layer_norm", input, normalized_shape)
    factor, term = (None if one is None else ops.reshape(one, (size,)) for one in (weight, bias))
    return ops.reshape(ops.layer_norm(ops.reshape(input, (*lead, size)), factor, term, eps), input.shape)


def _split(name: str, x: Array, shape: Sequence[int]) -> tuple[tuple[int, ...], int]:
    """The sizes of the axes before those of a shape, and the number of elements in those."""
    wanted = tuple(shape)
    rank = len(x.shape) - len(wanted)
    if not wanted or rank < 0 or x.shape[rank:] != wanted:
        raise TypeRuleError(
            f"{name}: the last axes of the input must be normalized_shape, got {x.type} and {list(wanted)}; change one"
        )
    return x.shape[:rank], prod(wanted)


@own_precision
@recorded
def rms_norm(
    input: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None
) -> Array:
    """``input / sqrt(mean(input**2) + eps) * weight`` over the last axes (Zhang and Sennrich, 2019).

    Parameters
    ----------
    input : Tensor
        Float, shape ``[..., *normalized_shape]``; 16-bit floats are computed in f32 and rounded once.
    normalized_shape : sequence of int
        The sizes of the axes over which it is normalized.
    weight : Tensor, optional
        Of the shape `normalized_shape`.
    eps : float, optional
        Added to the mean; default: the machine epsilon of the dtype in which it is computed.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    """
    lead, _ = _split("rms_norm", input, normalized_shape)
    return ops.rms_norm(input, weight, tuple(range(len(lead), len(input.shape))), eps)


@own_precision
@recorded
def group_norm(
    input: Array, num_groups: int, weight: Array | None = None, bias: Array | None = None, eps: float = 1e-5
) -> Array:
    """`layer_norm` over groups of channels and all pixels (Wu and He, 2018), then a factor and a term per channel.

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C, ...]``.
    num_groups : int
        Number of groups; C is a multiple of it.
    weight, bias : Tensor, optional
        Shape ``[C]``.
    eps : float, default 1e-5
        Added to the variance.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match.
    """
    return ops.group_norm(input, num_groups, weight, bias, eps)


@own_precision
def instance_norm(
    input: Array,
    running_mean: Array | None = None,
    running_var: Array | None = None,
    weight: Array | None = None,
    bias: Array | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Array:
    """`group_norm` with one channel per group (Ulyanov et al., 2016).

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C, ...]`` with more than one pixel.
    running_mean, running_var : Tensor, optional
        Running statistics, shape ``[C]``. They are used instead of the input's if `use_input_stats` is False; otherwise
        they get the new values ``(1 - momentum) * running + momentum * own``, where own are the means over the batch of
        the means and unbiased variances of all images.
    weight, bias : Tensor, optional
        Shape ``[C]``.
    use_input_stats : bool, default True
        Whether each channel of each image is normalized by its own mean and variance.
    momentum : float, default 0.1
        The weight of this batch in the running statistics.
    eps : float, default 1e-5
        Added to the variance.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match, or running statistics of a graph value would have to be changed.
    InvalidValueError
        If there are no statistics.
    """
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise InvalidValueError(
                "instance_norm: running statistics must be given unless use_input_stats, got None; pass both"
            )
        return _running_batch_norm(input, running_mean, running_var, weight, bias, eps)
    if running_mean is None or running_var is None:
        return _own_instance_norm(input, weight, bias, eps)
    if isinstance(input, Value):
        raise TypeRuleError(
            f"instance_norm: running statistics of a graph value cannot be changed, got {input.type}; use "
            "ops.instance_norm, which returns them"
        )
    result, *new = _instance_norm(input, running_mean, running_var, weight, bias, momentum, eps)
    for target, one in zip((running_mean, running_var), new, strict=True):
        rebind(target, one)
    return result


@recorded
def _own_instance_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    return ops.instance_norm(x, None, None, weight, bias, 0.0, eps)


@recorded
def _instance_norm(
    x: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None,
    bias: Array | None,
    momentum: float,
    eps: float,
) -> tuple[Array, ...]:
    y, *new = ops.instance_norm(x, running_mean, running_var, weight, bias, momentum, eps)
    return (y, *(ops.stop_gradient(one) for one in new))


@full_precision
@recorded
def local_response_norm(input: Array, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Array:
    """``input / (k + alpha * mean(input**2))**beta``, a mean over neighbouring channels (Krizhevsky et al., 2012).

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C, ...]``.
    size : int
        Number of channels of a mean: ``size // 2`` before each, and ``(size - 1) // 2`` after it.
    alpha, beta, k : float, default 1e-4, 0.75, 1
        The numbers of the formula.

    Raises
    ------
    TypeRuleError
        If there are no pixels.
    InvalidValueError
        If the size is not positive.
    """
    return ops.local_response_norm(input, size, alpha, beta, k)


@own_precision
def batch_norm(
    input: Array,
    running_mean: Array | None,
    running_var: Array | None,
    weight: Array | None = None,
    bias: Array | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
    unbiased: bool = True,
) -> Array:
    """``(input - mean) / sqrt(variance + eps) * weight + bias`` per channel (Ioffe and Szegedy, 2015).

    Parameters
    ----------
    input : Tensor
        Float, shape ``[N, C]`` or ``[N, C, ...]``.
    running_mean, running_var : Tensor or None
        The statistics to normalize with, shape ``[C]``. If `training`, those of the batch are used instead, and these,
        unless None, get the new values ``(1 - momentum) * running + momentum * own``.
    weight, bias : Tensor, optional
        Shape ``[C]``.
    training : bool, default False
        Whether the statistics are those of the batch.
    momentum : float, default 0.1
        The weight of this batch in the running statistics.
    eps : float, default 1e-5
        Added to the variance.
    unbiased : bool, default True
        Whether the running variance is the unbiased estimate, as in PyTorch, rather than the variance of the batch.

    Raises
    ------
    TypeRuleError
        If the shapes or dtypes do not match, or running statistics of a graph value would have to be changed.
    InvalidValueError
        If there are no statistics.
    """
    if not training:
        if running_mean is None or running_var is None:
            raise InvalidValueError(
                "batch_norm: running statistics must be given unless training, got None; pass training=True"
            )
        return _running_batch_norm(input, running_mean, running_var, weight, bias, eps)
    if running_mean is None or running_var is None:
        return _own_batch_norm(input, weight, bias, eps)
    return train_batch_norm(input, running_mean, running_var, None, weight, bias, momentum, eps, unbiased)


@own_precision
def train_batch_norm(
    input: Array,
    running_mean: Array,
    running_var: Array,
    count: Array | None,
    weight: Array | None,
    bias: Array | None,
    momentum: float | None,
    eps: float,
    unbiased: bool = True,
) -> Array:
    """Normalize with the statistics of the batch, and rebind the running ones to their new values.

    Parameters
    ----------
    input, running_mean, running_var, weight, bias, eps, unbiased
        As in `batch_norm`.
    count : Tensor or None
        The number of batches before, i64; it gets the next number.
    momentum : float or None
        None, only with a count, for the mean over all batches.

    Raises
    ------
    TypeRuleError
        If the input is a graph value.
    """
    if isinstance(input, Value):
        raise TypeRuleError(
            f"batch_norm: running statistics of a graph value cannot be changed, got {input.type}; use ops.batch_norm, "
            "which returns them"
        )
    arguments: tuple[Any, ...] = (input, running_mean, running_var, weight, bias, momentum, eps, unbiased)
    found = _batch_norm(*arguments) if count is None else _counted_batch_norm(count, *arguments)
    targets = (running_mean, running_var) if count is None else (running_mean, running_var, count)
    for target, new in zip(targets, found[1:], strict=True):
        rebind(target, new)
    return found[0]


@recorded
def _batch_norm(
    x: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None,
    bias: Array | None,
    momentum: float,
    eps: float,
    unbiased: bool,
) -> tuple[Array, ...]:
    y, mean, var = ops.batch_norm(x, running_mean, running_var, weight, bias, momentum, eps, unbiased)
    return y, ops.stop_gradient(mean), ops.stop_gradient(var)


@recorded
def _counted_batch_norm(
    count: Array,
    x: Array,
    running_mean: Array,
    running_var: Array,
    weight: Array | None,
    bias: Array | None,
    momentum: float | None,
    eps: float,
    unbiased: bool,
) -> tuple[Array, ...]:
    batches = ops.add(count, 1)
    own = 1.0 if momentum is None else momentum
    y, *new = ops.batch_norm(x, running_mean, running_var, weight, bias, own, eps, unbiased)
    if momentum is None:
        number = ops.cast(batches, running_mean.dtype)
        pairs = zip((running_mean, running_var), new, strict=True)
        new = [ops.add(old, ops.divide(ops.subtract(found, old), number)) for old, found in pairs]
    return (y, *(ops.stop_gradient(one) for one in new), batches)


@recorded
def _running_batch_norm(
    x: Array, running_mean: Array, running_var: Array, weight: Array | None, bias: Array | None, eps: float
) -> Array:
    return ops.batch_norm_inference(x, running_mean, running_var, weight, bias, eps)


@recorded
def _own_batch_norm(x: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    nothing = ops.full(0.0, x.shape[1:2], x.dtype)
    return ops.batch_norm(x, nothing, nothing, weight, bias, 0.0, eps)[0]


@recorded
@accepts_scalars()
def normalize(input: Array, p: float = 2.0, dim: int = 1, eps: float = 1e-12) -> Array:
    """``input / max(norm, eps)``, where the norm is ``sum(abs(input)**p)**(1/p)`` along an axis.

    Parameters
    ----------
    input : Tensor
        Float.
    p : float, default 2.0
        The exponent of the norm; ``inf`` for the greatest absolute value.
    dim : int, default 1
        The axis.
    eps : float, default 1e-12
        The least divisor.
    """
    wide = input if input.dtype.itemsize > 2 else ops.cast(input, DTYPES["f32"])
    if p == 2:
        # The root of the greater of both squares, so that vectors of zeros have a gradient.
        total = ops.sum(ops.square(wide), dim, keepdims=True)
        return ops.cast(ops.multiply(wide, ops.rsqrt(ops.maximum(total, eps * eps))), input.dtype)
    size = ops.abs(wide)
    if p == 1:
        norm = ops.sum(size, dim, keepdims=True)
    elif p == float("inf"):
        norm = ops.max(size, dim, keepdims=True)
    else:
        norm = ops.norm(wide, float(p), dim, keepdims=True)
    return ops.cast(ops.divide(wide, ops.maximum(norm, eps)), input.dtype)
