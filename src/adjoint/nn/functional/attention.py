"""Scaled dot-product attention, with one head or several."""

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.nn.functional.recording import Array, recorded
from adjoint.ops.attention import softmax_of_scores
from adjoint.tensor.autocasting import low_precision
from adjoint.tensor.random import next_key

__all__ = ["attention_of_heads", "scaled_dot_product_attention"]


def scaled_dot_product_attention(
    query: Array,
    key: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    scale: float | None = None,
    enable_gqa: bool = False,
) -> Array:
    """``softmax(query @ key.T * scale) @ value`` (Vaswani et al., 2017, formula 1).

    Parameters
    ----------
    query : Tensor
        Float, shape ``[..., T, D]``.
    key, value : Tensor
        Shapes ``[..., S, D]`` and ``[..., S, E]``.
    attn_mask : Tensor, optional
        Broadcasts to ``[..., T, S]``: either bool, True where a query attends to a key, or a float to be added to the
        scores. A query that attends to no key gets zeros.
    dropout_p : float, default 0.0
        Probability of dropping an attention weight.
    is_causal : bool, default False
        Query t attends to keys 0 to t only.
    scale : float, optional
        Default: ``1 / sqrt(D)``.
    enable_gqa : bool, default False
        Whether each head of `key` and `value`, on axis -3, serves several heads of `query`.

    Returns
    -------
    Tensor
        Shape ``[..., T, E]``.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    InvalidValueError
        If there are both a mask and ``is_causal=True``, or a number is out of range.
    """
    if attn_mask is not None and is_causal:
        raise InvalidValueError(
            "scaled_dot_product_attention: is_causal must be False with a mask, got both; make the mask causal"
        )
    if not 0 <= dropout_p <= 1:
        raise InvalidValueError(
            f"scaled_dot_product_attention: dropout_p must be from 0 to 1, got {dropout_p!r}; pass a probability"
        )
    seed = next_key() if dropout_p > 0 else None
    return _attention(query, key, value, attn_mask, seed, float(dropout_p), is_causal, scale, enable_gqa)


@low_precision
@recorded
def _attention(
    query: Array,
    key: Array,
    value: Array,
    mask: Array | None,
    seed: Array | None,
    dropout_p: float,
    is_causal: bool,
    scale: float | None,
    enable_gqa: bool,
) -> Array:
    if mask is not None and mask.dtype != DTYPES["bool"]:
        mask = ops.cast(mask, query.dtype)
    shape = (*query.shape[:-1], value.shape[-1])
    if enable_gqa:
        query, key, value, mask = _grouped(query, key, value, mask)
    found = ops.scaled_dot_product_attention(query, key, value, is_causal, scale, mask, dropout_p, seed)
    return ops.reshape(found, shape) if enable_gqa else found


def _grouped(query: Array, key: Array, value: Array, mask: Array | None) -> tuple[Array, ...]:
    """Operands with the heads of the query in groups, each of which has one head of key and value: no copies of them.

    The groups are an axis of their own after that of the heads, of size 1 in key and value.
    """
    heads = query.shape[-3] if len(query.shape) > 2 else 0
    own = {x.shape[-3] if len(x.shape) > 2 else 0 for x in (key, value)}
    (few,) = own if len(own) == 1 else (0,)
    if not few or heads % few:
        raise TypeRuleError(
            "scaled_dot_product_attention: the heads of the query must be a multiple of those of key and value, got "
            f"{heads} for {key.type} and {value.type}; change one"
        )

    def split(x: Array) -> Array:
        groups = (few, heads // few) if x.shape[-3] == heads else (1, 1)
        return ops.reshape(x, (*x.shape[:-3], *groups, *x.shape[-2:]))

    if mask is not None and len(mask.shape) > 2:
        mask = split(mask)
    return split(query), ops.expand_dims(key, -3), ops.expand_dims(value, -3), mask


def _weights(query: Array, key: Array, mask: Array | None, is_causal: bool) -> Array:
    """The attention weights, which are zeros for queries that attend to no key."""
    factor = query.shape[-1] ** -0.5
    return softmax_of_scores(ops.multiply(ops.matmul(query, key, transpose_b=True), factor), mask, is_causal)


@low_precision
@recorded
def attention_of_heads(
    query: Array,
    key: Array,
    value: Array,
    heads: int,
    mask: Array | None,
    padding: Array | None,
    is_causal: bool,
    wants: str,
    seed: Array | None = None,
    dropout_p: float = 0.0,
) -> tuple[Array, ...]:
    """Attention of several heads, of queries, keys and values that have been projected.

    Parameters
    ----------
    query, key, value : Tensor
        Shapes ``[N, T, E]``, ``[N, S, E]`` and ``[N, S, E]``.
    heads : int
        Number of heads; E is a multiple of it.
    mask : Tensor or None
        Shape ``[T, S]``, ``[N * heads, T, S]``: bool, True where a query may *not* attend, or a float to be added.
    padding : Tensor or None
        Shape ``[N, S]``: likewise, for keys.
    is_causal : bool
        Query t attends to keys 0 to t only.
    wants : {"none", "mean", "heads"}
        Whether attention weights are returned too, and whether they are averaged over heads.
    seed : Tensor, optional
        The key of the dropout.
    dropout_p : float, default 0.0
        Its probability.

    Returns
    -------
    tuple of Tensor
        The heads' results side by side, ``[N, T, E]``, and the attention weights, if wanted.
    """
    q, k, v = (_heads(x, heads) for x in (query, key, value))
    merged = _merged_masks(q, k, mask, padding)
    if wants == "none":
        found = ops.scaled_dot_product_attention(q, k, v, is_causal, None, merged, dropout_p, seed)
        return (_side_by_side(found),)
    weights = _weights(q, k, merged, is_causal)
    if seed is not None:
        weights = ops.dropout(weights, seed, dropout_p)
    result = _side_by_side(ops.matmul(weights, v))
    return result, ops.mean(weights, 1) if wants == "mean" else weights


def _heads(x: Array, heads: int) -> Array:
    """``[N, T, heads * D]`` as ``[N, heads, T, D]``."""
    n, rows, width = x.shape
    return ops.permute(ops.reshape(x, (n, rows, heads, width // heads)), (0, 2, 1, 3))


def _side_by_side(x: Array) -> Array:
    """``[N, heads, T, D]`` as ``[N, T, heads * D]``."""
    n, heads, rows, width = x.shape
    return ops.reshape(ops.permute(x, (0, 2, 1, 3)), (n, rows, heads * width))


def _merged_masks(q: Array, k: Array, mask: Array | None, padding: Array | None) -> Array | None:
    """One mask of `ops.scaled_dot_product_attention`: bool if the masks are, otherwise the sum of both as floats."""
    masks = []
    if mask is not None:
        three = len(mask.shape) == 3
        masks.append(ops.reshape(mask, (*q.shape[:2], q.shape[-2], k.shape[-2])) if three else mask)
    if padding is not None:
        masks.append(ops.reshape(padding, (padding.shape[0], 1, 1, padding.shape[1])))
    if not masks:
        return None
    if all(x.dtype == DTYPES["bool"] for x in masks):
        hidden = masks[0] if len(masks) == 1 else ops.logical_or(*masks)
        return ops.logical_not(hidden)
    added = [_added(x, q) for x in masks]
    return added[0] if len(added) == 1 else ops.add(*added)


def _added(mask: Array, like: Array) -> Array:
    if mask.dtype == DTYPES["bool"]:
        return ops.where(mask, ops.full(float("-inf"), mask.shape, like.dtype), 0.0)
    return ops.cast(mask, like.dtype)
