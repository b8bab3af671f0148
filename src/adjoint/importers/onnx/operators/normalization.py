"""Normalization."""

from typing import Any

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, axes_of, axis_of, refuse
from adjoint.nn import functional
from adjoint.tensor import reductions

__all__ = ["NORMALIZATION"]


def _batch(node: Node, x: Array, scale: Array, bias: Array, mean: Array, var: Array, *, training: bool) -> Any:
    """With the statistics of the batch in training, which update the running ones, as in PyTorch.

    The file's `training_mode` does not count. PyTorch updates the running variance with the unbiased variance of the
    batch; ONNX does with the other one.
    """
    momentum = 1.0 - node.attrs["momentum"]
    y = functional.batch_norm(x, mean, var, scale, bias, training, momentum, node.attrs["epsilon"])
    return (y, mean, var)[: len(node.outputs)] if len(node.outputs) > 1 else y


def _only_result(node: Node) -> None:
    if len(node.outputs) > 1:
        raise refuse(node, "must return its result only", "its statistics too")


def _scaled(y: Array, scale: Array, bias: Array) -> Array:
    return y * scale if bias is None else y * scale + bias


def _layer(node: Node, x: Array, scale: Array, bias: Array = None) -> Array:
    _only_result(node)
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    shape, eps = tuple(x.shape[axis:]), node.attrs["epsilon"]
    if tuple(scale.shape) == shape and (bias is None or tuple(bias.shape) == shape):
        return functional.layer_norm(x, shape, scale, bias, eps)
    return _scaled(functional.layer_norm(x, shape, None, None, eps), scale, bias)


def _rms(node: Node, x: Array, scale: Array) -> Array:
    axis = axis_of(node, node.attrs["axis"], len(x.shape))
    shape, eps = tuple(x.shape[axis:]), node.attrs["epsilon"]
    if tuple(scale.shape) == shape:
        return functional.rms_norm(x, shape, scale, eps)
    return functional.rms_norm(x, shape, None, eps) * scale


def _group(node: Node, x: Array, scale: Array, bias: Array) -> Array:
    groups, eps = node.attrs["num_groups"], node.attrs["epsilon"]
    if node.since >= 21:  # a scale for each channel; before, one for each group
        return functional.group_norm(x, groups, scale, bias, eps)
    each = x.shape[1] // groups
    return functional.group_norm(x, groups, scale.repeat_interleave(each), bias.repeat_interleave(each), eps)


def _instance(node: Node, x: Array, scale: Array, bias: Array) -> Array:
    return functional.instance_norm(x, weight=scale, bias=bias, eps=node.attrs["epsilon"])


def _response(node: Node, x: Array) -> Array:
    size = node.attrs["size"]
    if size % 2 == 0:
        raise refuse(node, "must have an odd size", size)
    return functional.local_response_norm(x, size, node.attrs["alpha"], node.attrs["beta"], node.attrs["bias"])


def _lp(node: Node, x: Array) -> Array:
    return functional.normalize(x, float(node.attrs["p"]), axis_of(node, node.attrs["axis"], len(x.shape)))


def _mean_variance(node: Node, x: Array) -> Array:
    axes = axes_of(node, node.attrs["axes"], len(x.shape))
    centred = x - reductions.mean(x, axes, True)
    #: What ONNX adds to the standard deviation.
    return centred / (reductions.mean(centred * centred, axes, True).sqrt() + 1e-9)


NORMALIZATION: Table = {
    "BatchNormalization": Rule(_batch, mode=True, states=frozenset({3, 4})),
    "GroupNormalization": Rule(_group),
    "InstanceNormalization": Rule(_instance),
    "LRN": Rule(_response),
    "LayerNormalization": Rule(_layer),
    "LpNormalization": Rule(_lp),
    "MeanVarianceNormalization": Rule(_mean_variance),
    "RMSNormalization": Rule(_rms),
}
