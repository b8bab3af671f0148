"""Scaled dot-product attention, with one head or several."""

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.nn.functional.recording import Array, recorded
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
    if enable_gqa:
        key, value = (_repeated(x, query.shape[-3]) for x in (key, value))
    if mask is None and seed is None:
        return ops.scaled_dot_product_attention(query, key, value, is_causal, scale)
    weights = _weights(query, key, mask, is_causal, scale)
    if seed is not None:
        weights = ops.dropout(weights, seed, dropout_p)
    return ops.matmul(weights, value)


def _repeated(x: Array, heads: int) -> Array:
    """Keys or values with each head repeated for the heads of the queries that it serves."""
    own = x.shape[-3] if len(x.shape) > 2 else 0
    if not own or heads % own:
        raise TypeRuleError(
            f"scaled_dot_product_attention: the heads of the query must be a multiple of those of key and value, got "
            f"{heads} and {x.type}; change one"
        )
    lead, rows = x.shape[:-3], x.shape[-2:]
    spread = ops.broadcast_to(ops.expand_dims(x, -3), (*lead, own, heads // own, *rows))
    return ops.reshape(spread, (*lead, heads, *rows))


def _weights(query: Array, key: Array, mask: Array | None, is_causal: bool, scale: float | None) -> Array:
    """The attention weights, which are zeros for queries that attend to no key."""
    factor = query.shape[-1] ** -0.5 if scale is None else scale
    scores = ops.multiply(ops.matmul(query, key, transpose_b=True), factor)
    if is_causal:
        rows, columns = (ops.iota(scores.shape, axis) for axis in (-2, -1))
        mask = ops.greater_equal(rows, columns)
    if mask is None:
        return ops.softmax(scores)
    if mask.dtype == DTYPES["bool"]:
        scores = ops.where(mask, scores, float("-inf"))
    else:
        scores = ops.add(scores, ops.cast(mask, scores.dtype))
    some = ops.greater(ops.max(ops.stop_gradient(scores), -1, keepdims=True), float("-inf"))
    return ops.where(some, ops.softmax(ops.where(some, scores, 0.0)), 0.0)


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
    if wants == "none" and merged is None and seed is None:
        found = ops.scaled_dot_product_attention(q, k, v, is_causal)
        return (_side_by_side(found),)
    if is_causal and merged is not None:
        rows, columns = (ops.iota((q.shape[-2], k.shape[-2]), axis) for axis in (0, 1))
        merged = ops.where(ops.greater_equal(rows, columns), merged, float("-inf"))
        is_causal = False
    weights = _weights(q, k, merged, is_causal, None)
    if seed is not None:
        weights = ops.dropout(weights, seed, dropout_p)
    result = _side_by_side(ops.matmul(weights, v))
    if wants == "none":
        return (result,)
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
    """The sum of the masks as floats to be added to the scores."""
    merged = None
    if mask is not None:
        merged = _added(mask, q)
        if len(mask.shape) == 3:
            merged = ops.reshape(merged, (*q.shape[:2], q.shape[-2], k.shape[-2]))
    if padding is not None:
        keys = ops.reshape(_added(padding, q), (padding.shape[0], 1, 1, padding.shape[1]))
        merged = keys if merged is None else ops.add(merged, keys)
    return merged


def _added(mask: Array, like: Array) -> Array:
    if mask.dtype == DTYPES["bool"]:
        return ops.where(mask, ops.full(float("-inf"), mask.shape, like.dtype), 0.0)
    return ops.cast(mask, like.dtype)
