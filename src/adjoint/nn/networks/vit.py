"""`ViT`: the encoder of the released vision transformers."""

from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.modules import Module
from adjoint.nn.containers import ModuleList
from adjoint.nn.convolution import Conv2d
from adjoint.nn.dropout import Dropout
from adjoint.nn.linear import Linear
from adjoint.nn.networks.transformer_parts import (
    Perceptron,
    Pooler,
    SelfAttention,
    begin_weight,
    begin_weights,
    check_transformer,
)
from adjoint.nn.normalization import LayerNorm
from adjoint.tensor.creation import zeros
from adjoint.tensor.joining import cat
from adjoint.tensor.tensor import Parameter

__all__ = ["ViT"]


class _Layer(Module):
    """Attention and a perceptron, each added to its input."""

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        *,
        activation: str,
        eps: float,
        bias: bool,
        dropout: float,
        attention_dropout: float,
    ) -> None:
        super().__init__()
        self.attention_norm = LayerNorm(width, eps=eps)
        self.attention = SelfAttention(width, heads, bias=bias, dropout=attention_dropout)
        self.mlp_norm = LayerNorm(width, eps=eps)
        self.mlp = Perceptron(width, hidden, activation)
        self.attention_drop, self.mlp_drop = Dropout(dropout), Dropout(dropout)

    def forward(self, x: Any) -> Any:
        x = x + self.attention_drop(self.attention(self.attention_norm(x)))
        return x + self.mlp_drop(self.mlp(self.mlp_norm(x)))


class ViT(Module):
    """A vision transformer: an encoder of the patches of an image, with layer norm before each part.

    Dosovitskiy et al., "An Image is Worth 16x16 Words", 2021. The defaults are those of ViT-Base. Takes images ``[N,
    channels, size, size]``.

    Parameters
    ----------
    size, patch : int, default 224 and 16
        Height and width of an image, and of a patch, of which it is a multiple.
    channels : int, default 3
        Number of channels of an image.
    layers, heads, width : int, default 12, 12 and 768
        Number of layers, of heads in each, and of features, a multiple of the number of heads.
    hidden : int, optional
        Number of hidden features of the perceptrons; default: four times `width`.
    head : {"classification", None}, default "classification"
        What is returned: logits ``[N, classes]``, or hidden states ``[N, 1 + patches, width]``, of which `pooler` makes
        features ``[N, width]``.
    classes : int, default 1000
        Number of classes.
    dropout, attention_dropout : float, default 0.0
        Probability of dropping features, and attention weights.
    eps : float, default 1e-12
        Added to variances.
    activation : {"gelu", "gelu_tanh", "relu", "silu"}, default "gelu"
        Activation of the perceptrons.
    qkv_bias : bool, default True
        Whether the projections of queries, keys and values have biases.

    Raises
    ------
    InvalidValueError
        If a size is out of range, or `activation` or `head` is not one of these.
    """

    def __init__(
        self,
        size: int = 224,
        patch: int = 16,
        channels: int = 3,
        layers: int = 12,
        heads: int = 12,
        width: int = 768,
        hidden: int | None = None,
        *,
        head: str | None = "classification",
        classes: int = 1000,
        dropout: float = 0.0,
        attention_dropout: float = 0.0,
        eps: float = 1e-12,
        activation: str = "gelu",
        qkv_bias: bool = True,
    ) -> None:
        super().__init__()
        hidden = 4 * width if hidden is None else hidden
        sizes = {"layers": layers, "heads": heads, "width": width, "hidden": hidden, "classes": classes}
        pixels = {"size": size, "patch": patch, "channels": channels}
        check_transformer("ViT", activation, head, ("classification",), **sizes, **pixels)
        if size % patch:
            raise InvalidValueError(f"ViT: size must be a multiple of patch, got {size} and {patch}")
        self.settings = {
            **pixels,
            **sizes,
            "head": head,
            "dropout": dropout,
            "attention_dropout": attention_dropout,
            "eps": eps,
            "activation": activation,
            "qkv_bias": qkv_bias,
        }
        self.size = size
        self.patches = Conv2d(channels, width, patch, stride=patch)
        self.first = Parameter(zeros(1, 1, width))
        self.places = Parameter(zeros(1, (size // patch) ** 2 + 1, width))
        self.drop = Dropout(dropout)
        drops = {"dropout": dropout, "attention_dropout": attention_dropout}
        self.layers = ModuleList(
            [
                _Layer(width, heads, hidden, activation=activation, eps=eps, bias=qkv_bias, **drops)
                for _ in range(layers)
            ]
        )
        self.norm = LayerNorm(width, eps=eps)
        self.pooler = Pooler(width) if head is None else None
        self.classifier = Linear(width, classes) if head == "classification" else None
        begin_weights(self)
        begin_weight(self.places)

    def forward(self, pixel_values: Any) -> Any:
        """Logits, or hidden states, of images ``[N, channels, size, size]``."""
        if tuple(pixel_values.shape[2:]) != (self.size, self.size):
            raise InvalidValueError(
                f"ViT: images must have {self.size} times {self.size} pixels, got the shape "
                f"{list(pixel_values.shape)}; resize them"
            )
        x = self.patches(pixel_values).flatten(2).transpose(1, 2)
        x = self.drop(cat([self.first.expand(x.shape[0], -1, -1), x], dim=1) + self.places)
        for layer in self.layers:
            x = layer(x)
        x = self.norm(x)
        return x if self.classifier is None else self.classifier(x[:, 0])
