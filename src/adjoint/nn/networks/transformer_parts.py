"""Parts that the transformers of this folder share: attention, perceptrons, heads and masks."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional, init
from adjoint.nn.dropout import Dropout
from adjoint.nn.embedding import Embedding
from adjoint.nn.linear import Linear
from adjoint.nn.networks.checking import require_sizes
from adjoint.nn.normalization import LayerNorm
from adjoint.nn.parameters import wants_draws
from adjoint.tensor.creation import arange, ones, zeros
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = [
    "ACTIVATIONS",
    "MaskedHead",
    "Perceptron",
    "Pooler",
    "PostNormLayer",
    "SelfAttention",
    "begin_weight",
    "begin_weights",
    "check_transformer",
    "last_tokens",
    "masked",
    "require_length",
]

#: Standard deviation of initial weights (Devlin et al., 2019; Radford et al., 2019).
_SPREAD = 0.02

#: Activations by the names that networks take.
ACTIVATIONS: dict[str, Callable[[Any], Any]] = {
    "gelu": functional.gelu,
    "gelu_tanh": lambda x: functional.gelu(x, approximate="tanh"),
    "relu": functional.relu,
    "silu": functional.silu,
}


def check_transformer(
    name: str, activation: str, head: str | None, known: tuple[str, ...], /, *, width: int, heads: int, **sizes: int
) -> None:
    """Raise unless the settings that all transformers have are in range."""
    require_sizes(name, width=width, heads=heads, **sizes)
    if width % heads and "head_size" not in sizes:
        raise InvalidValueError(f"{name}: width must be a multiple of heads, got {width} and {heads}")
    if activation not in ACTIVATIONS:
        raise InvalidValueError(
            f"{name}: activation must be one of {', '.join(ACTIVATIONS)}, got {activation!r}; choose one of them"
        )
    if head is not None and head not in known:
        raise InvalidValueError(
            f"{name}: head must be {', '.join(map(repr, known))} or None, got {head!r}; choose one of them"
        )


def begin_weight(weight: Tensor) -> None:
    """Draw the elements of a matrix or a table of embeddings."""
    init.normal_(weight, 0.0, _SPREAD)


def begin_weights(network: Module) -> None:
    """Draw all matrices from a narrow normal distribution, and set biases of linear layers to zero."""
    for module in network.modules() if wants_draws() else ():
        if isinstance(module, Linear | Embedding):
            begin_weight(module.weight)
        if isinstance(module, Linear) and module.bias is not None:
            init.zeros_(module.bias)


def require_length(name: str, length: int, most: int) -> None:
    """Raise if sequences are longer than there are positions."""
    if length > most:
        raise InvalidValueError(f"{name}: a sequence may have up to {most} tokens, got {length}; shorten it")


def masked(attention_mask: Any, length: int, is_causal: bool) -> tuple[Any, bool]:
    """The mask of the scores, bool or None, and whether attention is causal beyond that.

    Parameters
    ----------
    attention_mask : Tensor or None
        Shape ``[N, T]``; keys where it is 0 get no attention.
    length : int
        T.
    is_causal : bool
        Whether a query attends to no later key.
    """
    if attention_mask is None:
        return None, is_causal
    seen = (attention_mask != 0)[:, None, None, :]
    if is_causal:
        seen = seen & ones(length, length, dtype="bool").tril()
    return seen, False


def last_tokens(hidden: Any, input_ids: Any, pad: int | None) -> Any:
    """What belongs to the last token of each sequence, ``[N, width]``; tokens `pad` do not count."""
    if pad is None:
        return hidden[:, -1]
    positions = arange(input_ids.shape[1])
    return hidden[arange(input_ids.shape[0]), (positions * (input_ids != pad)).argmax(-1)]


class SelfAttention(Module):
    """Self-attention with several heads (Vaswani et al., "Attention is all you need", 2017).

    Parameters
    ----------
    width, heads : int
        Number of features and of heads.
    groups : int, optional
        Number of heads of keys and values, each of which serves several heads of queries; default: `heads`.
    size : int, optional
        Number of features of a head; default: ``width // heads``.
    bias, output_bias : bool, default True
        Whether the projections of queries, keys and values, and that of the result, have biases.
    dropout : float, default 0.0
        Probability of dropping an attention weight.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        groups: int | None = None,
        size: int | None = None,
        bias: bool = True,
        output_bias: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        self.heads, self.groups, self.dropout = heads, groups or heads, dropout
        size = size or width // heads
        self.query = Linear(width, heads * size, bias=bias)
        self.key = Linear(width, self.groups * size, bias=bias)
        self.value = Linear(width, self.groups * size, bias=bias)
        self.output = Linear(heads * size, width, bias=output_bias)

    def forward(
        self, x: Any, mask: Any = None, is_causal: bool = False, turned: Callable[[Any], Any] | None = None
    ) -> Any:
        """Attention of all tokens; `turned` gives queries and keys their positions."""
        batch, length, _ = x.shape
        q = self.query(x).view(batch, length, self.heads, -1).transpose(1, 2)
        k = self.key(x).view(batch, length, self.groups, -1).transpose(1, 2)
        v = self.value(x).view(batch, length, self.groups, -1).transpose(1, 2)
        if turned is not None:
            q, k = turned(q), turned(k)
        y = functional.scaled_dot_product_attention(
            q, k, v, mask, self.dropout if self.training else 0.0, is_causal, enable_gqa=self.groups != self.heads
        )
        return self.output(y.transpose(1, 2).reshape(batch, length, -1))


class Perceptron(Module):
    """Two linear layers with an activation between them."""

    def __init__(self, width: int, hidden: int, activation: str) -> None:
        super().__init__()
        self.activation = activation
        self.up, self.down = Linear(width, hidden), Linear(hidden, width)

    def forward(self, x: Any) -> Any:
        """The same number of features."""
        return self.down(ACTIVATIONS[self.activation](self.up(x)))


class Pooler(Module):
    """A linear layer and tanh of the first token: what classifies a sequence."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = Linear(width, width)

    def forward(self, hidden: Any) -> Any:
        """Features ``[N, width]`` of hidden states ``[N, T, width]``."""
        return self.dense(hidden[:, 0]).tanh()


class MaskedHead(Module):
    """Logits of masked tokens: a linear layer, an activation and a norm, then a product with the token embeddings."""

    def __init__(self, vocabulary: int, width: int, activation: str, eps: float, tied: bool) -> None:
        super().__init__()
        self.activation = activation
        self.dense, self.norm = Linear(width, width), LayerNorm(width, eps=eps)
        self.bias = Parameter(zeros(vocabulary))
        self.decoder = None if tied else Linear(width, vocabulary, bias=False)

    def forward(self, hidden: Any, table: Any) -> Any:
        """Logits ``[N, T, vocabulary]``; `table` are the weights if they are tied."""
        x = self.norm(ACTIVATIONS[self.activation](self.dense(hidden)))
        return functional.linear(x, table if self.decoder is None else self.decoder.weight, self.bias)


class PostNormLayer(Module):
    """Self-attention and a perceptron, each added to its input and normalized."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str,
        eps: float,
        attention_dropout: float,
        output_dropout: float,
        dropout: float,
    ) -> None:
        super().__init__()
        self.attention = SelfAttention(width, heads, dropout=attention_dropout)
        self.attention_drop = Dropout(output_dropout)
        self.attention_norm = LayerNorm(width, eps=eps)
        self.mlp = Perceptron(width, hidden, activation)
        self.mlp_drop = Dropout(dropout)
        self.mlp_norm = LayerNorm(width, eps=eps)

    def forward(self, x: Any, mask: Any) -> Any:
        """The next hidden states."""
        x = self.attention_norm(x + self.attention_drop(self.attention(x, mask)))
        return self.mlp_norm(x + self.mlp_drop(self.mlp(x)))
