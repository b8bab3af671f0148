"""Sizes of layers that are no sizes, and inputs that are no tensors."""

import pytest

from adjoint import nn
from adjoint.errors import AdjointError

REFUSED = {
    "Linear: in_features must be an integer, got the float 392.0; pass a whole number, such as a // b": (
        lambda: nn.Linear(784 / 2, 10)
    ),
    "Linear: out_features must be at least 0, got -1; pass a size": lambda: nn.Linear(4, -1),
    "Bilinear: in2_features must be an integer, got None; pass a whole number, such as a // b": (
        lambda: nn.Bilinear(4, None, 2)
    ),
    "Embedding: num_embeddings must be an integer, got the str '10'; pass a whole number, such as a // b": (
        lambda: nn.Embedding("10", 4)
    ),
    "EmbeddingBag: embedding_dim must be at least 0, got -4; pass a size": lambda: nn.EmbeddingBag(10, -4),
    "Conv2d: in_channels must be an integer, got a tuple; pass a whole number, such as a // b": (
        lambda: nn.Conv2d((3, 3), 8, 3)
    ),
    "Conv2d: a setting of windows must be an integer, got the float 1.5; pass a whole number, such as a // b": (
        lambda: nn.Conv2d(3, 8, 3, stride=1.5)
    ),
    "ConvTranspose1d: a setting of windows must be at least 0, got -3; pass a size": (
        lambda: nn.ConvTranspose1d(3, 8, -3)
    ),
    "Conv2d: groups must divide in_channels and out_channels, got 3 for 4 and 6; change one": (
        lambda: nn.Conv2d(4, 6, 3, groups=3)
    ),
    "LSTMCell: hidden_size must be an integer, got the float 8.0; pass a whole number, such as a // b": (
        lambda: nn.LSTMCell(4, 16 / 2)
    ),
    "GRU: num_layers must be an integer, got None; pass a whole number, such as a // b": lambda: nn.GRU(4, 8, None),
    "MultiheadAttention: embed_dim must be an integer, got the float 8.0; pass a whole number, such as a // b": (
        lambda: nn.MultiheadAttention(8.0, 2)
    ),
    "BatchNorm2d: num_features must be an integer, got the str 'same'; pass a whole number, such as a // b": (
        lambda: nn.BatchNorm2d("same")
    ),
    "InstanceNorm1d: num_features must be at least 0, got -2; pass a size": lambda: nn.InstanceNorm1d(-2, affine=True),
    "GroupNorm: num_channels must be an integer, got None; pass a whole number, such as a // b": (
        lambda: nn.GroupNorm(2, None)
    ),
    "PReLU: num_parameters must be an integer, got the float 2.5; pass a whole number, such as a // b": (
        lambda: nn.PReLU(2.5)
    ),
    "BatchNorm1d: the input must be a tensor, got None; does the layer before it return its result?": (
        lambda: nn.BatchNorm1d(4)(None)
    ),
    "InstanceNorm1d: the input must be a tensor, got a list; convert it with adjoint.tensor": (
        lambda: nn.InstanceNorm1d(4)([1.0])
    ),
    "GRUCell: the input must be a tensor, got the int 3; convert it with adjoint.tensor": lambda: nn.GRUCell(4, 2)(3),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence]()
    assert error.value.message == sentence
