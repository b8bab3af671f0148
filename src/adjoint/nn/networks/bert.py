"""`BERT`: the encoder of the released BERT models."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn.containers import ModuleList
from adjoint.nn.dropout import Dropout
from adjoint.nn.embedding import Embedding
from adjoint.nn.linear import Linear
from adjoint.nn.networks.transformer_parts import (
    MaskedHead,
    Pooler,
    PostNormLayer,
    begin_weights,
    check_transformer,
    masked,
    require_length,
)
from adjoint.nn.normalization import LayerNorm
from adjoint.tensor.creation import arange, zeros_like

__all__ = ["BERT"]


class BERT(Module):
    """BERT: an encoder with learned positions and token types, and layer norm after each part.

    Devlin et al., "BERT: Pre-training of Deep Bidirectional Transformers for Language Understanding", 2019. The
    defaults are those of BERT-base.

    Parameters
    ----------
    vocabulary, tokens, types : int, default 30522, 512 and 2
        Number of tokens there are, most tokens of a sequence, and number of token types.
    layers, heads, width : int, default 12, 12 and 768
        Number of layers, of heads in each, and of features, a multiple of the number of heads.
    hidden : int, optional
        Number of hidden features of the perceptrons; default: four times `width`.
    head : {"lm", "classification", None}, default "lm"
        What is returned: logits ``[N, T, vocabulary]`` of all tokens, to be trained on masked ones; logits ``[N,
        classes]`` of sequences; or hidden states ``[N, T, width]``, of which `pooler` makes features ``[N, width]``.
    classes : int, default 2
        Number of classes.
    dropout, attention_dropout : float, default 0.1
        Probability of dropping features, and attention weights.
    head_dropout : float, optional
        That of features that are classified; default: `dropout`.
    eps : float, default 1e-12
        Added to variances.
    activation : {"gelu", "gelu_tanh", "relu", "silu"}, default "gelu"
        Activation of the perceptrons.
    pad : int or None, default 0
        The token that fills short sequences up, whose embedding gets no gradient.
    tied : bool, default True
        Whether the weights of the head "lm" are the token embeddings.

    Raises
    ------
    InvalidValueError
        If a size is out of range, or `activation` or `head` is not one of these.
    """

    def __init__(
        self,
        vocabulary: int = 30522,
        tokens: int = 512,
        layers: int = 12,
        heads: int = 12,
        width: int = 768,
        hidden: int | None = None,
        *,
        types: int = 2,
        head: str | None = "lm",
        classes: int = 2,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        head_dropout: float | None = None,
        eps: float = 1e-12,
        activation: str = "gelu",
        pad: int | None = 0,
        tied: bool = True,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        sizes = {"vocabulary": vocabulary, "tokens": tokens, "layers": layers, "heads": heads, "width": width}
        sizes |= {"hidden": hidden, "types": types, "classes": classes}
        check_transformer("BERT", activation, head, ("lm", "classification"), **sizes)
        self.settings = {
            **sizes,
            "head": head,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "head_dropout": head_dropout,
            "eps": eps,
            "activation": activation,
            "pad": pad,
            "tied": tied,
        }
        self.positions = tokens
        self.tokens, self.places = Embedding(vocabulary, width, padding_idx=pad), Embedding(tokens, width)
        self.types = Embedding(types, width)
        self.norm, self.drop = LayerNorm(width, eps=eps), Dropout(dropout)
        drops = {"attention_dropout": attention_dropout, "output_dropout": dropout, "dropout": dropout}
        self.layers = ModuleList(
            [PostNormLayer(width, heads, hidden, activation=activation, eps=eps, **drops) for _ in range(layers)]
        )
        self.pooler = Pooler(width) if head != "lm" else None
        self.lm = MaskedHead(vocabulary, width, activation, eps, tied) if head == "lm" else None
        self.head_drop = Dropout(dropout if head_dropout is None else head_dropout)
        self.classifier = Linear(width, classes) if head == "classification" else None
        begin_weights(self)

    def forward(self, input_ids: Any, attention_mask: Any = None, token_type_ids: Any = None) -> Any:
        """Logits, or hidden states.

        Parameters
        ----------
        input_ids : Tensor
            Tokens, int ``[N, T]``.
        attention_mask : Tensor, optional
            Shape ``[N, T]``; tokens where it is 0 get no attention.
        token_type_ids : Tensor, optional
            Types of tokens, int ``[N, T]``; default: zeros.
        """
        length = input_ids.shape[1]
        require_length("BERT", length, self.positions)
        mask, _ = masked(attention_mask, length, is_causal=False)
        kinds = zeros_like(input_ids) if token_type_ids is None else token_type_ids
        x = self.drop(self.norm(self.tokens(input_ids) + self.types(kinds) + self.places(arange(length))))
        for layer in self.layers:
            x = layer(x, mask)
        if self.lm is not None:
            return self.lm(x, self.tokens.weight)
        if self.classifier is not None and self.pooler is not None:
            return self.classifier(self.head_drop(self.pooler(x)))
        return x
