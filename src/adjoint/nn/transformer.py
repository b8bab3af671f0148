"""Layers of transformers (Vaswani et al., "Attention Is All You Need", 2017)."""

from collections.abc import Callable
from copy import deepcopy
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional as F  # noqa: N812
from adjoint.nn.attention import MultiheadAttention
from adjoint.nn.containers import ModuleList
from adjoint.nn.dropout import Dropout
from adjoint.nn.init import xavier_uniform_
from adjoint.nn.linear import Linear
from adjoint.nn.normalization import LayerNorm
from adjoint.tensor.environment import check_device
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor

__all__ = [
    "Transformer",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TransformerLayer",
    "causal_mask",
]


def causal_mask(size: int, dtype: np.dtype | type = np.float32) -> Tensor:
    """A mask that lets query t attend to keys 0 to t only: 0 there, and -inf elsewhere.

    Parameters
    ----------
    size : int
        Number of queries and of keys.
    dtype : numpy dtype, default f32
        A float dtype.
    """
    return from_array(np.triu(np.full((size, size), -np.inf, dtype), 1), copy=False)


class TransformerLayer(Module):
    """What the layers share: attention to itself, and two linear layers.

    Parameters
    ----------
    d_model, nhead : int
        Size of the vectors, and number of heads.
    dim_feedforward : int, default 2048
        Size of the vectors between the two linear layers.
    dropout : float, default 0.1
        Probability of dropping an element.
    activation : {"relu", "gelu"} or callable, default "relu"
        The function between the two linear layers.
    layer_norm_eps : float, default 1e-5
        Added to variances.
    batch_first : bool, default False
        Whether tensors are ``[N, T, E]`` instead of ``[T, N, E]``.
    norm_first : bool, default False
        Whether inputs are normalized before attention and linear layers, instead of sums after them.
    bias : bool, default True
        Whether there are biases.
    device : str, optional
        "cpu".
    dtype : str or numpy dtype, optional
        Dtype of the parameters; default: `adjoint.get_default_dtype`.

    Raises
    ------
    InvalidValueError
        If the activation is unknown.
    """

    #: Number of parts whose result is added to the input.
    parts = 2

    def __init__(
        self,
        d_model: int,
        nhead: int,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        own: dict[str, Any] = {"device": device, "dtype": dtype}
        known: dict[Any, Callable[[Any], Any]] = {"relu": F.relu, "gelu": F.gelu}
        if isinstance(activation, str) and activation not in known:
            raise InvalidValueError(
                f"{type(self).__name__}: the activation must be relu, gelu or a function, got {activation!r}; pass one"
            )
        self.self_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **own)
        if self.parts == 3:
            self.multihead_attn = MultiheadAttention(d_model, nhead, dropout, bias, batch_first=batch_first, **own)
        self.linear1 = Linear(d_model, dim_feedforward, bias, **own)
        self.dropout = Dropout(dropout)
        self.linear2 = Linear(dim_feedforward, d_model, bias, **own)
        self.norm_first = norm_first
        for n in range(1, self.parts + 1):
            setattr(self, f"norm{n}", LayerNorm(d_model, layer_norm_eps, bias=bias, **own))
        for n in range(1, self.parts + 1):
            setattr(self, f"dropout{n}", Dropout(dropout))
        self.activation = known.get(activation, activation)

    def _attend(self, attention: MultiheadAttention, x: Any, memory: Any, mask: Any, padding: Any) -> Any:
        return attention(x, memory, memory, key_padding_mask=padding, need_weights=False, attn_mask=mask)[0]

    def _feed(self, x: Any) -> Any:
        hidden: Any = self.activation(self.linear1(x))  # type: ignore[operator]
        return self.linear2(self.dropout(hidden))

    def _add(self, n: int, x: Any, part: Callable[[Any], Any]) -> Any:
        """The sum of an input and of part n of it, with the normalization before or after."""
        own = self.__dict__
        norm, dropout = own[f"norm{n}"], own[f"dropout{n}"]
        if self.norm_first:
            return x + dropout(part(norm(x)))
        return norm(x + dropout(part(x)))


class TransformerEncoderLayer(TransformerLayer):
    """Attention of a sequence to itself, and two linear layers; settings are those of `TransformerLayer`."""

    def forward(self, src: Any, src_mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        """The sequence after the layer.

        Parameters
        ----------
        src : Tensor
            The sequence, shape ``[T, N, E]`` or ``[T, E]``, with ``batch_first=True`` ``[N, T, E]``.
        src_mask, src_key_padding_mask : Tensor, optional
            The `attn_mask` and the `key_padding_mask` of `MultiheadAttention`.
        is_causal : bool, default False
            Says that the mask is causal; it must be given besides.
        """
        _check_causal(is_causal, src_mask)
        x = self._add(1, src, lambda x: self._attend(self.self_attn, x, x, src_mask, src_key_padding_mask))
        return self._add(2, x, self._feed)


class TransformerDecoderLayer(TransformerLayer):
    """Attention of a sequence to itself, then to another one, and two linear layers; settings: `TransformerLayer`."""

    parts = 3

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
        tgt_is_causal: bool = False,
        memory_is_causal: bool = False,
    ) -> Any:
        """The sequence after the layer.

        Parameters
        ----------
        tgt, memory : Tensor
            The sequence and the one that it attends to, shapes ``[T, N, E]`` and ``[S, N, E]``, with
            ``batch_first=True`` the first two axes exchanged.
        tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            The `attn_mask` and the `key_padding_mask` of `MultiheadAttention`, for each of them.
        tgt_is_causal, memory_is_causal : bool, default False
            Say that a mask is causal; it must be given besides.
        """
        _check_causal(tgt_is_causal, tgt_mask)
        _check_causal(memory_is_causal, memory_mask)
        x = self._add(1, tgt, lambda x: self._attend(self.self_attn, x, x, tgt_mask, tgt_key_padding_mask))
        x = self._add(
            2, x, lambda x: self._attend(self.multihead_attn, x, memory, memory_mask, memory_key_padding_mask)
        )
        return self._add(3, x, self._feed)


def _check_causal(is_causal: bool, mask: Any) -> None:
    if is_causal and mask is None:
        raise InvalidValueError("a causal layer requires its mask, got None; pass the mask too, as nn.causal_mask(T)")


class TransformerEncoder(Module):
    """Several encoder layers, one after the other.

    Parameters
    ----------
    encoder_layer : TransformerEncoderLayer
        The layer, of which each is a copy.
    num_layers : int
        Their number.
    norm : Module, optional
        What is applied to the result.
    enable_nested_tensor, mask_check : bool, default True
        Accepted for compatibility, without an effect: padded positions are computed.
    """

    def __init__(
        self,
        encoder_layer: Module,
        num_layers: int,
        norm: Module | None = None,
        enable_nested_tensor: bool = True,  # noqa: ARG002
        mask_check: bool = True,  # noqa: ARG002
    ) -> None:
        super().__init__()
        self.layers = ModuleList(deepcopy(encoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(self, src: Any, mask: Any = None, src_key_padding_mask: Any = None, is_causal: bool = False) -> Any:
        """The sequence after all layers; arguments as in `TransformerEncoderLayer`."""
        _check_causal(is_causal, mask)
        for layer in self.layers:
            src = layer(src, mask, src_key_padding_mask)
        return src if self.norm is None else self.norm(src)


class TransformerDecoder(Module):
    """Several decoder layers, one after the other.

    Parameters
    ----------
    decoder_layer : TransformerDecoderLayer
        The layer, of which each is a copy.
    num_layers : int
        Their number.
    norm : Module, optional
        What is applied to the result.
    """

    def __init__(self, decoder_layer: Module, num_layers: int, norm: Module | None = None) -> None:
        super().__init__()
        self.layers = ModuleList(deepcopy(decoder_layer) for _ in range(num_layers))
        self.num_layers, self.norm = num_layers, norm

    def forward(
        self,
        tgt: Any,
        memory: Any,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:
        """The sequence after all layers; arguments as in `TransformerDecoderLayer`."""
        for layer in self.layers:
            tgt = layer(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)
        return tgt if self.norm is None else self.norm(tgt)


class Transformer(Module):
    """An encoder of a sequence and a decoder of another one, which attends to the first.

    Parameters
    ----------
    d_model : int, default 512
        Size of the vectors.
    nhead : int, default 8
        Number of heads.
    num_encoder_layers, num_decoder_layers : int, default 6
        Numbers of layers.
    dim_feedforward, dropout, activation
        As in `TransformerLayer`.
    custom_encoder, custom_decoder : Module, optional
        Take the place of the encoder and of the decoder.
    layer_norm_eps, batch_first, norm_first, bias, device, dtype
        As in `TransformerLayer`.

    Attributes
    ----------
    encoder, decoder : Module
        `TransformerEncoder` and `TransformerDecoder`, each with a `LayerNorm` at its end. Parameters of at least two
        axes are drawn as by `init.xavier_uniform_`.
    """

    def __init__(
        self,
        d_model: int = 512,
        nhead: int = 8,
        num_encoder_layers: int = 6,
        num_decoder_layers: int = 6,
        dim_feedforward: int = 2048,
        dropout: float = 0.1,
        activation: str | Callable[[Any], Any] = "relu",
        custom_encoder: Module | None = None,
        custom_decoder: Module | None = None,
        layer_norm_eps: float = 1e-5,
        batch_first: bool = False,
        norm_first: bool = False,
        bias: bool = True,
        device: object = None,
        dtype: object = None,
    ) -> None:
        super().__init__()
        settings: tuple[Any, ...] = (
            d_model,
            nhead,
            dim_feedforward,
            dropout,
            activation,
            layer_norm_eps,
            batch_first,
            norm_first,
            bias,
            device,
            dtype,
        )

        def norm() -> LayerNorm:
            return LayerNorm(d_model, layer_norm_eps, bias=bias, device=device, dtype=dtype)

        self.encoder = custom_encoder or TransformerEncoder(
            TransformerEncoderLayer(*settings), num_encoder_layers, norm()
        )
        self.decoder = custom_decoder or TransformerDecoder(
            TransformerDecoderLayer(*settings), num_decoder_layers, norm()
        )
        self.d_model, self.nhead, self.batch_first = d_model, nhead, batch_first
        for parameter in self.parameters():
            if len(parameter.shape) > 1:
                xavier_uniform_(parameter)

    def forward(
        self,
        src: Any,
        tgt: Any,
        src_mask: Any = None,
        tgt_mask: Any = None,
        memory_mask: Any = None,
        src_key_padding_mask: Any = None,
        tgt_key_padding_mask: Any = None,
        memory_key_padding_mask: Any = None,
    ) -> Any:
        """The decoded sequence.

        Parameters
        ----------
        src, tgt : Tensor
            The sequences to encode and to decode, shapes ``[S, N, E]`` and ``[T, N, E]``, with ``batch_first=True``
            the first two axes exchanged; or without the axis of N.
        src_mask, tgt_mask, memory_mask : Tensor, optional
            The `attn_mask` of the attention in the encoder, in the decoder, and of the decoder to the encoder.
        src_key_padding_mask, tgt_key_padding_mask, memory_key_padding_mask : Tensor, optional
            Their `key_padding_mask`.
        """
        memory = self.encoder(src, src_mask, src_key_padding_mask)
        return self.decoder(tgt, memory, tgt_mask, memory_mask, tgt_key_padding_mask, memory_key_padding_mask)

    @staticmethod
    def generate_square_subsequent_mask(sz: int, device: object = None, dtype: Any = None) -> Tensor:
        """`causal_mask`: 0 for keys up to the query, and minus infinity for others."""
        check_device(device)
        return causal_mask(sz, dtype or np.float32)
