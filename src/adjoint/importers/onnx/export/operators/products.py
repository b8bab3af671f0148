"""Matrix products, attention, convolution and pooling."""

from math import prod
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.importers.onnx.export.emitter import Emitter, Rule
from adjoint.ir import Value

__all__ = ["PRODUCTS"]


def _swapped(e: Emitter, value: Value) -> str:
    """An operand with its last two axes swapped."""
    rank = len(value.shape)
    return e.node("Transpose", e.of(value), perm=[*range(rank - 2), rank - 1, rank - 2])


def _matmul(e: Emitter, value: Value) -> str:
    op: Any = value.op
    a, b = value.inputs
    return e.node(
        "MatMul", _swapped(e, a) if op.transpose_a else e.of(a), _swapped(e, b) if op.transpose_b else e.of(b)
    )


def _attention(e: Emitter, value: Value) -> str:
    """``softmax(q @ k.T * scale + mask) @ v``, in operators of all versions; a row without any key gives zeros."""
    op: Any = value.op
    if op.dropout:
        raise InvalidValueError(
            f"to_onnx: attention must not drop weights, got dropout {op.dropout}; call eval() or pass dropout_p=0.0"
        )
    q, k, v, *mask = value.inputs
    dtype = value.dtype
    scores = e.node("Mul", e.node("MatMul", e.of(q), _swapped(e, k)), e.scalar(op.scale, dtype))
    minus = e.scalar(float("-inf"), dtype)
    allowed = []
    if op.causal:
        allowed.append(e.constant(np.tril(np.ones((q.shape[-2], k.shape[-2]), np.bool_))))
    if mask:
        given = e.of(mask[0])
        if mask[0].dtype == np.bool_:
            allowed.append(given)
        else:
            scores = e.node("Add", scores, given)
    for one in allowed:
        scores = e.node("Where", one, scores, minus)
    weights = e.node("Softmax", scores, axis=-1)
    if mask:  # NaN where there is no key
        zero = e.scalar(0, dtype)
        weights = e.node("Where", e.node("IsNaN", weights), zero, weights)
    return e.node("MatMul", weights, e.of(v))


def _settings(op: Any, pads: Any) -> dict[str, Any]:
    return {"strides": op.stride, "dilations": op.dilation, "group": op.groups, "pads": pads}


def _conv(e: Emitter, value: Value) -> str:
    op: Any = value.op
    x, w = value.inputs
    return e.node("Conv", e.of(x), e.of(w), kernel_shape=w.shape[2:], **_settings(op, [*op.padding, *op.padding]))


def _conv_transpose(e: Emitter, value: Value) -> str:
    """What windows with a stride do not reach is added at the end of each axis."""
    op: Any = value.op
    x, w = value.inputs
    extra = [
        size - ((old - 1) * step + (width - 1) * apart + 1 - 2 * pad)
        for size, old, step, width, apart, pad in zip(
            op.size, x.shape[2:], op.stride, w.shape[2:], op.dilation, op.padding, strict=True
        )
    ]
    settings = _settings(op, [*op.padding, *op.padding])
    return e.node("ConvTranspose", e.of(x), e.of(w), kernel_shape=w.shape[2:], output_padding=extra, **settings)


def _max_pool(e: Emitter, value: Value) -> str:
    op: Any = value.op
    return e.node("MaxPool", e.of(value.inputs[0]), kernel_shape=op.window, strides=op.stride)


def _sum_pool(e: Emitter, value: Value) -> str:
    op: Any = value.op
    mean = e.node("AveragePool", e.of(value.inputs[0]), kernel_shape=op.window, strides=op.stride)
    return e.node("Mul", mean, e.scalar(prod(op.window), value.dtype))


PRODUCTS: dict[str, Rule] = {
    "attention": _attention,
    "conv2d": _conv,
    "conv3d": _conv,
    "conv_transpose2d": _conv_transpose,
    "conv_transpose3d": _conv_transpose,
    "matmul": _matmul,
    "max_pool2d": _max_pool,
    "sum_pool2d": _sum_pool,
}
