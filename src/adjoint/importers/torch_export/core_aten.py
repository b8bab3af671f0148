"""Operators of the core ATen set that layers are decomposed into, with the results that only their gradients need."""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.top_level import grid_sampler
from adjoint.tensor.elementwise import rsqrt
from adjoint.tensor.norms import cdist, pdist
from adjoint.tensor.reductions import var

__all__ = ["CORE"]


def _statistics(x: Any, axes: Sequence[int], eps: float) -> tuple[Any, Any]:
    """The mean along some axes, and the reciprocal of the standard deviation, with axes of size 1 in their places."""
    return x.mean(tuple(axes), keepdim=True), rsqrt(var(x, dim=tuple(axes), correction=0, keepdim=True) + eps)


def _layer_norm(x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> tuple[Any, Any, Any]:
    axes = range(len(x.shape) - len(shape), len(x.shape))
    return F.layer_norm(x, tuple(shape), weight, bias, eps), *_statistics(x, axes, eps)


def _group_norm(
    x: Any, weight: Any, bias: Any, rows: int, channels: int, pixels: int, groups: int, eps: float
) -> tuple[Any, Any, Any]:
    mean, factor = _statistics(x.reshape(rows, groups, channels * pixels // groups), (2,), eps)
    return F.group_norm(x, groups, weight, bias, eps), mean.reshape(rows, groups), factor.reshape(rows, groups)


def _batch_norm(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    axes = [axis for axis in range(len(x.shape)) if axis != 1]
    used = [one.reshape(-1) for one in _statistics(x, axes, eps)] if training else [x.new_empty(0), x.new_empty(0)]
    return F.batch_norm(x, mean, variance, weight, bias, training, momentum, eps), used[0], used[1]


def _batch_norm_of_batch(
    x: Any, weight: Any, bias: Any, training: bool, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    return _batch_norm(x, weight, bias, None, None, training, momentum, eps)


def _batch_norm_in_use(
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    return _batch_norm(x, weight, bias, mean, variance, False, momentum, eps)


#: Operators by name and overload.
CORE: dict[str, Callable[..., Any]] = {
    "native_layer_norm.default": _layer_norm,
    "native_group_norm.default": _group_norm,
    "native_batch_norm.default": _batch_norm,
    "_native_batch_norm_legit.default": _batch_norm,
    "_native_batch_norm_legit.no_stats": _batch_norm_of_batch,
    "_native_batch_norm_legit_no_training.default": _batch_norm_in_use,
    "_adaptive_avg_pool2d.default": F.adaptive_avg_pool2d,
    "_adaptive_avg_pool3d.default": F.adaptive_avg_pool3d,
    "_cdist_forward.default": lambda x, y, p, _mode: cdist(x, y, p),
    "_pdist_forward.default": pdist,
    "grid_sampler_2d.default": grid_sampler,
}
