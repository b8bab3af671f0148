"""`GPT`: a decoder-only transformer, and what it writes."""

from math import sqrt
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn import functional, init
from adjoint.nn.activation import GELU
from adjoint.nn.containers import ModuleList, Sequential
from adjoint.nn.dropout import Dropout
from adjoint.nn.embedding import Embedding
from adjoint.nn.linear import Linear
from adjoint.nn.networks.checking import require_sizes
from adjoint.nn.networks.decoder import Decoder
from adjoint.nn.normalization import LayerNorm
from adjoint.tensor.creation import arange

__all__ = ["GPT"]

#: Standard deviation of initial weights (Radford et al., 2019).
_SPREAD = 0.02


class _Attention(Module):
    """Causal self-attention with several heads."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout_p = heads, dropout
        self.qkv = Linear(width, 3 * width, bias=False)
        self.proj = Linear(width, width, bias=False)
        self.dropout = Dropout(dropout)

    def forward(self, x: Any) -> Any:
        batch, tokens, width = x.shape
        q, k, v = (t.view(batch, tokens, self.heads, -1).transpose(1, 2) for t in self.qkv(x).split(width, dim=2))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.dropout(self.proj(y.transpose(1, 2).reshape(batch, tokens, width)))


class _Block(Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.ln_1 = LayerNorm(width, bias=False)
        self.attn = _Attention(width, heads, dropout)
        self.ln_2 = LayerNorm(width, bias=False)
        wide, narrow = Linear(width, 4 * width, bias=False), Linear(4 * width, width, bias=False)
        self.mlp = Sequential(wide, GELU(), narrow, Dropout(dropout))

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(Decoder):
    """A GPT whose output weights are the token embeddings.

    Radford et al., "Language Models are Unsupervised Multitask Learners", 2019. Takes tokens, int [N, T], and returns
    logits [N, vocabulary, T], as `CrossEntropyLoss` takes them.

    Parameters
    ----------
    vocabulary : int
        Number of tokens.
    tokens : int, default 64
        Most tokens of a sequence.
    layers, heads, width : int, default 4, 4 and 128
        Number of blocks, of heads in each, and of features, a multiple of the number of heads.
    dropout : float, default 0.0
        Probability of dropout.

    Raises
    ------
    InvalidValueError
        If a size is out of range.
    """

    def __init__(
        self,
        vocabulary: int,
        tokens: int = 64,
        layers: int = 4,
        heads: int = 4,
        width: int = 128,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        require_sizes("GPT", vocabulary=vocabulary, tokens=tokens, layers=layers, heads=heads, width=width)
        if width % heads:
            raise InvalidValueError(f"GPT: width must be a multiple of heads, got {width} and {heads}")
        self.tokens = self.most_tokens = self.fewest_tokens = tokens
        self.wte = Embedding(vocabulary, width)
        self.wpe = Embedding(tokens, width)
        self.drop = Dropout(dropout)
        self.blocks = ModuleList([_Block(width, heads, dropout) for _ in range(layers)])
        self.ln_f = LayerNorm(width, bias=False)
        for name, tensor in self.named_parameters():
            if tensor.ndim == 2:
                # What is added to the residual stream is smaller, the more layers add to it.
                residual = name.endswith(("proj.weight", "mlp.2.weight"))
                init.normal_(tensor, 0.0, _SPREAD / sqrt(2 * layers) if residual else _SPREAD)

    def forward(self, ids: Any) -> Any:
        """Logits of the tokens that follow."""
        x = self.drop(self.wte(ids) + self.wpe(arange(ids.shape[1])))
        for block in self.blocks:
            x = block(x)
        return functional.linear(self.ln_f(x), self.wte.weight).transpose(1, 2)

    def next_logits(self, ids: Any) -> Any:
        """Logits with the vocabulary last."""
        return self.forward(ids).transpose(1, 2)
