"""Attention with several heads (Vaswani et al., "Attention Is All You Need", 2017)."""

from typing import Any

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import DTYPES
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.functional.attention import attention_of_heads
from adjoint.nn.functional.recording import recorded
from adjoint.nn.init import xavier_normal_
from adjoint.nn.linear import Linear
from adjoint.nn.parameters import check_sizes, drawn, filled, own_dtype
from adjoint.tensor.autocasting import low_precision
from adjoint.tensor.random import next_key
from adjoint.tensor.tensor import Parameter

__all__ = ["MultiheadAttention"]


@low_precision
@recorded
def _projected(x: Any, weight: Any, bias: Any, parts: int) -> tuple[Any, ...]:
    """The queries, keys and values of one tensor, which attends to itself."""
    whole = ops.matmul(x, weight, transpose_b=True)
    whole = whole if bias is None else ops.add(whole, bias)
    size = whole.shape[-1] // parts
    return tuple(ops.slice_axis(whole, -1, n * size, (n + 1) * size) for n in range(parts))


@recorded
def _rows(x: Any, start: int, stop: int) -> Any:
    return ops.slice_axis(x, 0, start, stop)


@recorded
def _with_more_rows(x: Any, row: Any, zeros: bool) -> Any:
    """Keys or values ``[N, S, E]`` with a row that all examples share, and a row of zeros."""
    size, _, width = x.shape
    rows = [] if row is None else [ops.broadcast_to(row, (size, 1, width))]
    if zeros:
        rows.append(ops.full(0.0, (size, 1, width), x.dtype))
    return ops.concat([x, *rows], axis=1)


@recorded
def _with_more_columns(mask: Any, count: int) -> Any:
    """A mask with columns for keys that every query attends to."""
    shape = (*mask.shape[:-1], count)
    return ops.concat([mask, ops.full(False if mask.dtype == DTYPES["bool"] else 0.0, shape, mask.dtype)], axis=-1)


@recorded
def _swapped(x: Any) -> Any:
    return ops.swapaxes(x, 0, 1)


@recorded
def _with_axis(x: Any) -> Any:
    return ops.expand_dims(x, 0)


@recorded
def _first(x: Any) -> Any:
    return ops.squeeze(x, 0)


class MultiheadAttention(Module):
    """Attention with several heads, between projections of queries, keys and values.

    Parameters
    ----------
    embed_dim : int
        Size of the queries and of the result, a multiple of `num_heads`.
    num_heads : int
        Number of heads.
    dropout : float, default 0.0
        Probability of dropping an attention weight.
    bias : bool, default True
        Whether the projections have biases.
    add_bias_kv : bool, default False
        Whether there is one more key and value, which are parameters, for all queries.
    add_zero_attn : bool, default False
        Whether there is one more key and value of zeros, for all queries.
    kdim, vdim : int, optional
        Sizes of keys and values; default: `embed_dim`.
    batch_first : bool, default False
        Whether tensors are ``[N, T, E]`` instead of ``[T, N, E]``.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Attributes
    ----------
    in_proj_weight : Parameter or None
        The three projections, shape ``[3 * embed_dim, embed_dim]``, drawn as by `init.xavier_uniform_`; None if keys or
        values have sizes of their own.
    q_proj_weight, k_proj_weight, v_proj_weight : Parameter or None
        The projections in that case.
    in_proj_bias : Parameter or None
        Shape ``[3 * embed_dim]``, zeros.
    bias_k, bias_v : Parameter or None
        With `add_bias_kv`, the other key and value, shape ``[1, 1, embed_dim]``, drawn as by `init.xavier_normal_`.
    out_proj : Linear
        The last projection, whose bias is zeros.

    Raises
    ------
    InvalidValueError
        If a setting is out of range or not supported.
    """

    in_proj_weight: Parameter | None
    in_proj_bias: Parameter | None
    bias_k: Parameter | None
    bias_v: Parameter | None
    q_proj_weight: Parameter | None
    k_proj_weight: Parameter | None
    v_proj_weight: Parameter | None

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        check_sizes("MultiheadAttention", embed_dim=embed_dim, num_heads=num_heads)
        if num_heads < 1 or embed_dim % num_heads:
            raise InvalidValueError(
                f"MultiheadAttention: embed_dim must be a multiple of num_heads, got {embed_dim} and {num_heads}; "
                "change one"
            )
        self.embed_dim, self.num_heads, self.head_dim = embed_dim, num_heads, embed_dim // num_heads
        self.kdim, self.vdim = (embed_dim if n is None else n for n in (kdim, vdim))
        self.dropout, self.batch_first = dropout, batch_first
        own = own_dtype(device, dtype)
        same = self.kdim == embed_dim and self.vdim == embed_dim
        shapes = {
            "in_proj_weight": (3 * embed_dim, embed_dim) if same else None,
            "q_proj_weight": None if same else (embed_dim, embed_dim),
            "k_proj_weight": None if same else (embed_dim, self.kdim),
            "v_proj_weight": None if same else (embed_dim, self.vdim),
        }
        for name, shape in shapes.items():
            bound = 0.0 if shape is None else (6.0 / sum(shape)) ** 0.5  # Glorot and Bengio, 2010
            self.register_parameter(name, None if shape is None else drawn(shape, bound, own))
        self.register_parameter("in_proj_bias", filled((3 * embed_dim,), 0.0, own) if bias else None)
        for name in ("bias_k", "bias_v"):
            row = filled((1, 1, embed_dim), 0.0, own) if add_bias_kv else None
            if row is not None:
                xavier_normal_(row)
            self.register_parameter(name, row)
        self.add_zero_attn = add_zero_attn
        self.out_proj = Linear(embed_dim, embed_dim, bias, device, dtype)
        if bias:
            self.out_proj.bias = filled((embed_dim,), 0.0, own)

    def forward(
        self,
        query: Any,
        key: Any,
        value: Any,
        key_padding_mask: Any = None,
        need_weights: bool = True,
        attn_mask: Any = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Any, Any]:
        """The result, and the attention weights.

        Parameters
        ----------
        query, key, value : Tensor
            Shapes ``[T, N, E]``, ``[S, N, K]`` and ``[S, N, V]``, with ``batch_first=True`` the first two axes
            exchanged; or without the axis of N.
        key_padding_mask : Tensor, optional
            Shape ``[N, S]`` or ``[S]``: bool, True for keys that no query attends to, or a float to be added.
        need_weights : bool, default True
            Whether the attention weights are returned; without them, attention takes less time and memory.
        attn_mask : Tensor, optional
            Shape ``[T, S]`` or ``[N * num_heads, T, S]``: bool, True where a query may not attend, or a float to be
            added.
        average_attn_weights : bool, default True
            Whether the weights are averaged over the heads.
        is_causal : bool, default False
            Says that the mask lets query t attend to keys 0 to t only; requires a mask, as in PyTorch.

        Returns
        -------
        tuple of (Tensor, Tensor or None)
            The result, of the shape of `query`, and the weights, ``[N, T, S]`` or ``[N, num_heads, T, S]``.

        Raises
        ------
        InvalidValueError
            If `is_causal` is given without a mask.
        TypeRuleError
            If shapes or dtypes do not match.
        """
        if is_causal and attn_mask is None:
            raise InvalidValueError("MultiheadAttention: is_causal requires attn_mask, got None; pass the mask too")
        single = len(query.shape) == 2
        itself = query is key and key is value
        if single:
            query, key, value = (_with_axis(x) for x in (query, key, value))
            key_padding_mask = None if key_padding_mask is None else _with_axis(key_padding_mask)
        elif len(query.shape) != 3:
            raise TypeRuleError(
                f"MultiheadAttention: the query must have 2 or 3 axes, got the shape {tuple(query.shape)}; reshape it"
            )
        elif not self.batch_first:
            query, key, value = (_swapped(x) for x in (query, key, value))
        q, k, v = self._project(query, key, value, itself)
        if self.bias_k is not None or self.add_zero_attn:
            k, v = (_with_more_rows(x, row, self.add_zero_attn) for x, row in ((k, self.bias_k), (v, self.bias_v)))
            more = (self.bias_k is not None) + self.add_zero_attn
            attn_mask = None if attn_mask is None else _with_more_columns(attn_mask, more)
            key_padding_mask = None if key_padding_mask is None else _with_more_columns(key_padding_mask, more)
        wants = "none" if not need_weights else "mean" if average_attn_weights else "heads"
        drops = self.training and self.dropout > 0
        found = attention_of_heads(
            q,
            k,
            v,
            self.num_heads,
            attn_mask,
            key_padding_mask,
            False,
            wants,
            next_key() if drops else None,
            self.dropout if drops else 0.0,
        )
        result = self.out_proj(found[0])
        weights = found[1] if need_weights else None
        if single:
            return _first(result), None if weights is None else _first(weights)
        return result if self.batch_first else _swapped(result), weights

    def _project(self, query: Any, key: Any, value: Any, itself: bool) -> tuple[Any, Any, Any]:
        size = self.embed_dim
        whole, bias = self.in_proj_weight, self.in_proj_bias
        if whole is not None and itself:
            return _projected(query, whole, bias, 3)
        found = []
        for n, (x, own) in enumerate(
            ((query, self.q_proj_weight), (key, self.k_proj_weight), (value, self.v_proj_weight))
        ):
            weight = _rows(whole, n * size, (n + 1) * size) if whole is not None else own
            part = None if bias is None else _rows(bias, n * size, (n + 1) * size)
            found.append(F.linear(x, weight, part))
        return found[0], found[1], found[2]

    def extra_repr(self) -> str:
        """The sizes."""
        return f"embed_dim={self.embed_dim}, num_heads={self.num_heads}, batch_first={self.batch_first}"
