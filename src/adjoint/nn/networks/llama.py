"""`Llama`: the decoder of the released Llama models."""

from collections.abc import Mapping
from math import pi
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional
from adjoint.nn.containers import ModuleList
from adjoint.nn.embedding import Embedding
from adjoint.nn.linear import Linear
from adjoint.nn.networks.decoder import Decoder
from adjoint.nn.networks.transformer_parts import (
    ACTIVATIONS,
    SelfAttention,
    begin_weights,
    check_transformer,
    last_tokens,
    masked,
    require_length,
)
from adjoint.nn.normalization import RMSNorm
from adjoint.tensor.creation import arange
from adjoint.tensor.joining import cat
from adjoint.tensor.linear_algebra import outer
from adjoint.tensor.making import from_array

__all__ = ["Llama"]


class _GatedPerceptron(Module):
    """SwiGLU: Shazeer, "GLU Variants Improve Transformer", 2020."""

    def __init__(self, width: int, hidden: int, activation: str, bias: bool) -> None:
        super().__init__()
        self.activation = activation
        self.gate, self.up = Linear(width, hidden, bias=bias), Linear(width, hidden, bias=bias)
        self.down = Linear(hidden, width, bias=bias)

    def forward(self, x: Any) -> Any:
        return self.down(ACTIVATIONS[self.activation](self.gate(x)) * self.up(x))


class _Block(Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self, attention: SelfAttention, mlp: _GatedPerceptron, width: int, eps: float) -> None:
        super().__init__()
        self.attention_norm, self.attention = RMSNorm(width, eps=eps), attention
        self.mlp_norm, self.mlp = RMSNorm(width, eps=eps), mlp

    def forward(self, x: Any, mask: Any, is_causal: bool, cos: Any, sin: Any) -> Any:
        def turned(states: Any) -> Any:
            first, second = states.chunk(2, dim=-1)
            return states * cos + cat((-second, first), dim=-1) * sin

        x = x + self.attention(self.attention_norm(x), mask, is_causal, turned)
        return x + self.mlp(self.mlp_norm(x))


class Llama(Decoder):
    """Llama: a decoder with rotary positions, grouped-query attention, RMS norms and gated perceptrons.

    Touvron et al., "LLaMA: Open and Efficient Foundation Language Models", 2023; Grattafiori et al., "The Llama 3 Herd
    of Models", 2024. The defaults are those of Llama 2 7B, of which each parameter takes 4 bytes.

    Parameters
    ----------
    vocabulary, tokens : int, default 32000 and 4096
        Number of tokens there are, and most tokens of a sequence.
    layers, heads, width : int, default 32, 32 and 4096
        Number of blocks, of heads in each, and of features.
    hidden : int, default 11008
        Number of hidden features of the perceptrons.
    groups : int, optional
        Number of heads of keys and values, a divisor of `heads`; default: `heads`.
    head_size : int, optional
        Number of features of a head, even; default: ``width // heads``.
    head : {"lm", "classification", None}, default "lm"
        What is returned: logits ``[N, T, vocabulary]`` of the tokens that follow, logits ``[N, classes]`` of the last
        token of a sequence, or hidden states ``[N, T, width]``.
    classes : int, default 2
        Number of classes.
    attention_dropout : float, default 0.0
        Probability of dropping attention weights.
    eps : float, default 1e-5
        Added to mean squares.
    activation : {"silu", "gelu", "gelu_tanh", "relu"}, default "silu"
        Activation of the gates.
    theta : float, default 10000.0
        Base of the wavelengths of rotary positions.
    scaling : mapping, optional
        How wavelengths are stretched, as in transformers: ``{"rope_type": "linear", "factor": 2.0}``, or "llama3" with
        `factor`, `low_freq_factor`, `high_freq_factor` and `original_max_position_embeddings`.
    attention_bias, mlp_bias : bool, default False
        Whether linear layers of attention and of perceptrons have biases.
    pad : int, optional
        The token that fills short sequences up; classification reads the last other one.
    tied : bool, default False
        Whether the weights of the head "lm" are the token embeddings.

    Raises
    ------
    InvalidValueError
        If a size is out of range, or `activation`, `head` or `scaling` is not one of these.
    """

    def __init__(
        self,
        vocabulary: int = 32000,
        tokens: int = 4096,
        layers: int = 32,
        heads: int = 32,
        width: int = 4096,
        hidden: int = 11008,
        *,
        groups: int | None = None,
        head_size: int | None = None,
        head: str | None = "lm",
        classes: int = 2,
        attention_dropout: float = 0.0,
        eps: float = 1e-5,
        activation: str = "silu",
        theta: float = 10000.0,
        scaling: Mapping[str, Any] | None = None,
        attention_bias: bool = False,
        mlp_bias: bool = False,
        pad: int | None = None,
        tied: bool = False,
    ) -> None:
        super().__init__()
        groups = heads if groups is None else groups
        sizes = {"vocabulary": vocabulary, "tokens": tokens, "layers": layers, "heads": heads, "width": width}
        sizes |= {"hidden": hidden, "groups": groups, "classes": classes}
        if head_size is not None:
            sizes["head_size"] = head_size
        check_transformer("Llama", activation, head, ("lm", "classification"), **sizes)
        head_size = width // heads if head_size is None else head_size
        if heads % groups or head_size % 2:
            raise InvalidValueError(
                "Llama: heads must be a multiple of groups, and the size of a head even, got "
                f"{heads}, {groups} and {head_size}; change one"
            )
        self.settings = {
            **sizes,
            "head_size": head_size,
            "head": head,
            "attention_dropout": attention_dropout,
            "eps": eps,
            "activation": activation,
            "theta": theta,
            "scaling": None if scaling is None else dict(scaling),
            "attention_bias": attention_bias,
            "mlp_bias": mlp_bias,
            "pad": pad,
            "tied": tied,
        }
        self.head, self.pad, self.most_tokens = head, pad, tokens
        self.register_buffer("frequencies", from_array(_frequencies(head_size, theta, scaling)), persistent=False)
        self.tokens = Embedding(vocabulary, width, padding_idx=pad)
        self.layers = ModuleList()
        for _ in range(layers):
            own = SelfAttention(
                width,
                heads,
                groups=groups,
                size=head_size,
                bias=attention_bias,
                output_bias=attention_bias,
                dropout=attention_dropout,
            )
            self.layers.append(_Block(own, _GatedPerceptron(width, hidden, activation, mlp_bias), width, eps))
        self.norm = RMSNorm(width, eps=eps)
        self.lm = Linear(width, vocabulary, bias=False) if head == "lm" and not tied else None
        self.classifier = Linear(width, classes, bias=False) if head == "classification" else None
        begin_weights(self)

    def forward(self, input_ids: Any, attention_mask: Any = None) -> Any:
        """Logits, or hidden states.

        Parameters
        ----------
        input_ids : Tensor
            Tokens, int ``[N, T]``.
        attention_mask : Tensor, optional
            Shape ``[N, T]``; tokens where it is 0 get no attention.
        """
        length = input_ids.shape[1]
        require_length("Llama", length, self.most_tokens)
        mask, is_causal = masked(attention_mask, length, is_causal=True)
        x = self.tokens(input_ids)
        frequencies: Any = self.get_buffer("frequencies")
        angles: Any = outer(arange(length).float(), frequencies.float())
        angles = angles.repeat(1, 2)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for layer in self.layers:
            x = layer(x, mask, is_causal, cos, sin)
        x = self.norm(x)
        if self.classifier is not None:
            return self.classifier(last_tokens(x, input_ids, self.pad))
        if self.head is None:
            return x
        return functional.linear(x, self.tokens.weight if self.lm is None else self.lm.weight)

    def next_logits(self, ids: Any) -> Any:
        """Logits of the tokens that follow."""
        return self.forward(ids)


def _frequencies(size: int, theta: float, scaling: Mapping[str, Any] | None) -> np.ndarray:
    """Angles between neighbouring positions: Su et al., "RoFormer", 2021, and stretched as Llama 3.1 does."""
    exponents = np.arange(0, size, 2, dtype=np.float32) / np.float32(size)
    frequencies: np.ndarray = (1.0 / np.power(np.float32(theta), exponents)).astype(np.float32)
    kind = "default" if scaling is None else str(scaling.get("rope_type", scaling.get("type")))
    if kind == "default" or scaling is None:
        return frequencies
    numbers: list[Any] = [scaling.get(name) for name in _SCALING.get(kind, ("",))]
    right = all(isinstance(n, int | float) and not isinstance(n, bool) and 0 < n < np.inf for n in numbers)
    if not right or (kind == "llama3" and not numbers[1] < numbers[2]):
        raise InvalidValueError(
            "Llama: scaling must have a rope_type 'default', 'linear' or 'llama3' and its numbers above 0, got "
            f"{dict(scaling)!r}; other kinds are not there"
        )
    if kind == "linear":
        return (frequencies / np.float32(numbers[0])).astype(np.float32)
    factor, low, high, before = numbers
    periods = before * frequencies / (2 * pi)  # in a sequence of the length before
    part = np.clip((periods - low) / (high - low), 0.0, 1.0)
    stretched: np.ndarray = (1 - part) * frequencies / factor + part * frequencies
    return stretched.astype(np.float32)


#: The numbers of each kind of scaling.
_SCALING = {
    "linear": ("factor",),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"),
}
