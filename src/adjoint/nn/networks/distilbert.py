"""`DistilBERT`: the encoder of the released DistilBERT models."""

from typing import Any

from adjoint.modules import Module
from adjoint.nn import functional
from adjoint.nn.containers import ModuleList
from adjoint.nn.dropout import Dropout
from adjoint.nn.embedding import Embedding
from adjoint.nn.linear import Linear
from adjoint.nn.networks.transformer_parts import (
    MaskedHead,
    PostNormLayer,
    begin_weights,
    check_transformer,
    masked,
    require_length,
)
from adjoint.nn.normalization import LayerNorm
from adjoint.tensor.creation import arange

__all__ = ["DistilBERT"]

#: Added to variances; the released models do not configure it.
_EPS = 1e-12


class DistilBERT(Module):
    """DistilBERT: BERT with half of its layers, and without token types.

    Sanh et al., "DistilBERT, a distilled version of BERT", 2019. The defaults are those of the released model.

    Parameters
    ----------
    vocabulary, tokens : int, default 30522 and 512
        Number of tokens there are, and most tokens of a sequence.
    layers, heads, width : int, default 6, 12 and 768
        Number of layers, of heads in each, and of features, a multiple of the number of heads.
    hidden : int, optional
        Number of hidden features of the perceptrons; default: four times `width`.
    head : {"lm", "classification", None}, default "lm"
        What is returned: logits ``[N, T, vocabulary]`` of all tokens, to be trained on masked ones; logits ``[N,
        classes]`` of sequences; or hidden states ``[N, T, width]``.
    classes : int, default 2
        Number of classes.
    dropout, attention_dropout, head_dropout : float, default 0.1, 0.1 and 0.2
        Probability of dropping features, attention weights, and features that are classified.
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
        layers: int = 6,
        heads: int = 12,
        width: int = 768,
        hidden: int | None = None,
        *,
        head: str | None = "lm",
        classes: int = 2,
        dropout: float = 0.1,
        attention_dropout: float = 0.1,
        head_dropout: float = 0.2,
        activation: str = "gelu",
        pad: int | None = 0,
        tied: bool = True,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        sizes = {"vocabulary": vocabulary, "tokens": tokens, "layers": layers, "heads": heads, "width": width}
        sizes |= {"hidden": hidden, "classes": classes}
        check_transformer("DistilBERT", activation, head, ("lm", "classification"), **sizes)
        self.settings = {
            **sizes,
            "head": head,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "head_dropout": head_dropout,
            "activation": activation,
            "pad": pad,
            "tied": tied,
        }
        self.positions = tokens
        self.tokens, self.places = Embedding(vocabulary, width, padding_idx=pad), Embedding(tokens, width)
        self.norm, self.drop = LayerNorm(width, eps=_EPS), Dropout(dropout)
        drops = {"attention_dropout": attention_dropout, "output_dropout": 0.0, "dropout": dropout}
        self.layers = ModuleList(
            [PostNormLayer(width, heads, hidden, activation=activation, eps=_EPS, **drops) for _ in range(layers)]
        )
        self.lm = MaskedHead(vocabulary, width, activation, _EPS, tied) if head == "lm" else None
        self.features = Linear(width, width) if head == "classification" else None
        self.head_drop = Dropout(head_dropout)
        self.classifier = Linear(width, classes) if head == "classification" else None
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
        require_length("DistilBERT", length, self.positions)
        mask, _ = masked(attention_mask, length, is_causal=False)
        x = self.drop(self.norm(self.tokens(input_ids) + self.places(arange(length))))
        for layer in self.layers:
            x = layer(x, mask)
        if self.lm is not None:
            return self.lm(x, self.tokens.weight)
        if self.classifier is not None and self.features is not None:
            return self.classifier(self.head_drop(functional.relu(self.features(x[:, 0]))))
        return x
