"""Attention and what belongs to it."""

from typing import Any

import numpy as np

from adjoint.importers.onnx.graph import Node
from adjoint.importers.onnx.operators.base import Array, Rule, Table, as_tensor, refuse
from adjoint.nn import functional
from adjoint.tensor import comparison, joining

__all__ = ["ATTENTION"]


#: Settings other than 0 or -1 that are refused; the others are used, or concern rounding only.
_REFUSED = ("softcap", "left_window_size", "right_window_size")


def _heads(node: Node, x: Array, name: str) -> Array:
    """``[B, T, heads * D]`` as ``[B, heads, T, D]``, which an input of four axes is already."""
    if len(x.shape) == 4:
        return x
    count = node.attrs.get(name)
    if not count or x.shape[-1] % count:
        raise refuse(node, f"must have a {name} that divides the size of its input, {x.shape[-1]}", count)
    return x.reshape((x.shape[0], x.shape[1], count, x.shape[2] // count)).transpose(1, 2)


def _attention(
    node: Node,
    query: Array,
    key: Array,
    value: Array,
    mask: Array = None,
    past_key: Array = None,
    past_value: Array = None,
    lengths: Array = None,
) -> Any:
    settings = [name for name in _REFUSED if node.attrs.get(name, -1) not in (0, -1)]
    if settings or lengths is not None or len(node.outputs) > 3:
        found = ", ".join(settings) or ("lengths of keys" if lengths is not None else "scores as a result")
        raise refuse(node, "must attend to all keys that masks allow, and return the result", found)
    flat = len(query.shape) == 3
    query, key, value = (
        _heads(node, x, name) for x, name in ((query, "q_num_heads"), (key, "kv_num_heads"), (value, "kv_num_heads"))
    )
    if past_key is not None:
        key, value = joining.cat([past_key, key], 2), joining.cat([past_value, value], 2)
    causal = bool(node.attrs["is_causal"])
    if causal and (mask is not None or past_key is not None):
        seen = past_key.shape[2] if past_key is not None else 0
        allowed = as_tensor(np.tril(np.ones((query.shape[2], key.shape[2]), np.bool_), seen))
        mask, causal = _both(allowed, mask), False
    y = functional.scaled_dot_product_attention(
        query, key, value, mask, 0.0, causal, node.attrs.get("scale"), query.shape[1] != key.shape[1]
    )
    if flat:
        y = y.transpose(1, 2).reshape((y.shape[0], y.shape[2], y.shape[1] * y.shape[3]))
    return (y, key, value)[: len(node.outputs)] if len(node.outputs) > 1 else y


def _both(allowed: Array, mask: Array) -> Array:
    """A mask of bools combined with another one, of bools or of what is added to scores."""
    if mask is None:
        return allowed
    if mask.dtype == np.bool_:
        return comparison.logical_and(allowed, mask)
    return comparison.where(allowed, mask, float("-inf"))


def _rotary(node: Node, x: Array, cos: Array, sin: Array, positions: Array = None) -> Array:
    """Rotary position embedding (Su et al., 2021) of the first elements of each head."""
    flat = len(x.shape) == 3
    heads = _heads(node, x, "num_heads")
    size = node.attrs["rotary_embedding_dim"] or heads.shape[-1]
    turned, rest = heads[..., :size], heads[..., size:]
    if positions is not None:
        cos, sin = cos[positions], sin[positions]
    cos, sin = (one[..., : size // 2].unsqueeze(1) for one in (cos, sin))
    if node.attrs["interleaved"]:
        a, b = turned[..., 0::2], turned[..., 1::2]
    else:
        a, b = turned[..., : size // 2], turned[..., size // 2 :]
    real, imaginary = a * cos - b * sin, a * sin + b * cos
    if node.attrs["interleaved"]:
        made = joining.stack([real, imaginary], -1).reshape(turned.shape)
    else:
        made = joining.cat([real, imaginary], -1)
    y = joining.cat([made, rest], -1) if size < heads.shape[-1] else made
    return y.transpose(1, 2).reshape(x.shape) if flat else y


ATTENTION: Table = {"Attention": Rule(_attention), "RotaryEmbedding": Rule(_rotary)}
