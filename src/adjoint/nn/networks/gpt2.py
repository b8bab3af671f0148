"""`GPT2`: the decoder of the released GPT-2 models."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional
from adjoint.nn.containers import ModuleList
from adjoint.nn.dropout import Dropout
from adjoint.nn.embedding import Embedding
from adjoint.nn.linear import Linear
from adjoint.nn.networks.decoder import Decoder
from adjoint.nn.networks.transformer_parts import (
    Perceptron,
    begin_weights,
    check_transformer,
    last_tokens,
    masked,
    require_length,
)
from adjoint.nn.normalization import LayerNorm
from adjoint.tensor.creation import arange

__all__ = ["GPT2"]


class _Attention(Module):
    """Causal self-attention whose queries, keys and values come from one product."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.qkv = Linear(width, 3 * width)
        self.output = Linear(width, width)

    def forward(self, x: Any, mask: Any, is_causal: bool) -> Any:
        batch, length, width = x.shape
        q, k, v = (t.view(batch, length, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        dropout = self.dropout if self.training else 0.0
        y = functional.scaled_dot_product_attention(q, k, v, mask, dropout, is_causal)
        return self.output(y.transpose(1, 2).reshape(batch, length, width))


class _Block(Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(
        self, width: int, heads: int, hidden: int, activation: str, eps: float, dropout: float, attention_dropout: float
    ) -> None:
        super().__init__()
        self.attention_norm = LayerNorm(width, eps=eps)
        self.attention = _Attention(width, heads, attention_dropout)
        self.mlp_norm = LayerNorm(width, eps=eps)
        self.mlp = Perceptron(width, hidden, activation)
        self.attention_drop, self.mlp_drop = Dropout(dropout), Dropout(dropout)

    def forward(self, x: Any, mask: Any, is_causal: bool) -> Any:
        x = x + self.attention_drop(self.attention(self.attention_norm(x), mask, is_causal))
        return x + self.mlp_drop(self.mlp(self.mlp_norm(x)))


class GPT2(Decoder):
    """GPT-2: a decoder with learned positions, biases and layer norm before each part.

    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019. The defaults are those of the smallest
    released model. `adjoint.nn.networks.GPT` is a smaller network in the same style, without biases.

    Parameters
    ----------
    vocabulary, tokens : int, default 50257 and 1024
        Number of tokens there are, and most tokens of a sequence.
    layers, heads, width : int, default 12, 12 and 768
        Number of blocks, of heads in each, and of features, a multiple of the number of heads.
    hidden : int, optional
        Number of hidden features of the perceptrons; default: four times `width`.
    head : {"lm", "classification", None}, default "lm"
        What is returned: logits ``[N, T, vocabulary]`` of the tokens that follow, logits ``[N, classes]`` of the last
        token of a sequence, or hidden states ``[N, T, width]``.
    classes : int, default 2
        Number of classes.
    dropout, attention_dropout : float, default 0.1
        Probability of dropping features, and attention weights.
    eps : float, default 1e-5
        Added to variances.
    activation : {"gelu_tanh", "gelu", "relu", "silu"}, default "gelu_tanh"
        Activation of the perceptrons.
    pad : int, optional
        The token that fills short sequences up; classification reads the last other one.
    tied : bool, default True
        Whether the weights of the head "lm" are the token embeddings.

    Raises
    ------
    InvalidValueError
        If a size is out of range, or `activation` or `head` is not one of these.
    """

    def __init__(
        self,
        vocabulary: int = 50257,
        tokens: int = 1024,
        layers: int = 12,
        heads: int = 12,
        width: int = 768,
        hidden: int | None = None,
        *,
        head: str | None = "lm",
        classes: int = 2,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        eps: float = 1e-5,
        activation: str = "gelu_tanh",
        pad: int | None = None,
        tied: bool = True,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        sizes = {"vocabulary": vocabulary, "tokens": tokens, "layers": layers, "heads": heads, "width": width}
        sizes |= {"hidden": hidden, "classes": classes}
        check_transformer("GPT2", activation, head, ("lm", "classification"), **sizes)
        self.settings = {
            **sizes,
            "head": head,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "eps": eps,
            "activation": activation,
            "pad": pad,
            "tied": tied,
        }
        self.head, self.pad, self.most_tokens = head, pad, tokens
        self.tokens, self.places = Embedding(vocabulary, width), Embedding(tokens, width)
        self.drop = Dropout(dropout)
        self.layers = ModuleList(
            [_Block(width, heads, hidden, activation, eps, dropout, attention_dropout) for _ in range(layers)]
        )
        self.norm = LayerNorm(width, eps=eps)
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
        require_length("GPT2", length, self.most_tokens)
        mask, is_causal = masked(attention_mask, length, is_causal=True)
        x = self.drop(self.tokens(input_ids) + self.places(arange(length)))
        for layer in self.layers:
            x = layer(x, mask, is_causal)
        x = self.norm(x)
        if self.classifier is not None:
            return self.classifier(last_tokens(x, input_ids, self.pad))
        if self.head is None:
            return x
        return functional.linear(x, self.tokens.weight if self.lm is None else self.lm.weight)

    def next_logits(self, ids: Any) -> Any:
        """Logits of the tokens that follow."""
        return self.forward(ids)
