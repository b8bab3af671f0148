"""Modules, as in PyTorch: ``from adjoint import nn``.

Losses are the classes of `adjoint.losses`; functions are in `adjoint.nn.functional`, and initialization is in
`adjoint.nn.init`.
"""

from typing import TYPE_CHECKING

from adjoint.losses import (
    BCELoss,
    BCEWithLogitsLoss,
    CosineEmbeddingLoss,
    CrossEntropyLoss,
    GaussianNLLLoss,
    HingeEmbeddingLoss,
    HuberLoss,
    KLDivLoss,
    L1Loss,
    MarginRankingLoss,
    MSELoss,
    NLLLoss,
    PoissonNLLLoss,
    SmoothL1Loss,
    SoftMarginLoss,
    TripletMarginLoss,
)
from adjoint.missing import missing_name
from adjoint.modules import Module
from adjoint.nn import functional, init, utils
from adjoint.nn.activation import (
    CELU,
    ELU,
    GELU,
    GLU,
    SELU,
    Hardshrink,
    Hardsigmoid,
    Hardswish,
    Hardtanh,
    LeakyReLU,
    LogSigmoid,
    Mish,
    PReLU,
    ReLU,
    ReLU6,
    RReLU,
    Sigmoid,
    SiLU,
    Softplus,
    Softshrink,
    Softsign,
    SwiGLU,
    Tanh,
    Tanhshrink,
    Threshold,
)
from adjoint.nn.attention import (
    MultiheadAttention,
)
from adjoint.nn.containers import (
    ModuleDict,
    ModuleList,
    ParameterDict,
    ParameterList,
    Sequential,
)
from adjoint.nn.convolution import (
    Conv1d,
    Conv2d,
    ConvTranspose2d,
)
from adjoint.nn.distance import CosineSimilarity, PairwiseDistance
from adjoint.nn.dropout import (
    Dropout,
    Dropout1d,
    Dropout2d,
    Dropout3d,
)
from adjoint.nn.embedding import (
    Embedding,
    EmbeddingBag,
)
from adjoint.nn.linear import (
    Bilinear,
    Identity,
    Linear,
)
from adjoint.nn.normalization import (
    BatchNorm1d,
    BatchNorm2d,
    BatchNorm3d,
    GroupNorm,
    InstanceNorm1d,
    InstanceNorm2d,
    LayerNorm,
    RMSNorm,
)
from adjoint.nn.pooling import (
    AdaptiveAvgPool1d,
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool1d,
    AvgPool2d,
    MaxPool1d,
    MaxPool2d,
)
from adjoint.nn.reshaping import (
    Flatten,
    PixelShuffle,
    Unflatten,
    Upsample,
)
from adjoint.nn.softmax import LogSoftmax, Softmax, Softmax2d, Softmin
from adjoint.nn.summary import summary
from adjoint.nn.transformer import (
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerEncoder,
    TransformerEncoderLayer,
    causal_mask,
)
from adjoint.tensor.tensor import Parameter

__all__ = [
    "CELU",
    "ELU",
    "GELU",
    "GLU",
    "SELU",
    "AdaptiveAvgPool1d",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AvgPool1d",
    "AvgPool2d",
    "BCELoss",
    "BCEWithLogitsLoss",
    "BatchNorm1d",
    "BatchNorm2d",
    "BatchNorm3d",
    "Bilinear",
    "Conv1d",
    "Conv2d",
    "ConvTranspose2d",
    "CosineEmbeddingLoss",
    "CosineSimilarity",
    "CrossEntropyLoss",
    "Dropout",
    "Dropout1d",
    "Dropout2d",
    "Dropout3d",
    "Embedding",
    "EmbeddingBag",
    "Flatten",
    "GaussianNLLLoss",
    "GroupNorm",
    "Hardshrink",
    "Hardsigmoid",
    "Hardswish",
    "Hardtanh",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "Identity",
    "InstanceNorm1d",
    "InstanceNorm2d",
    "KLDivLoss",
    "L1Loss",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "LogSigmoid",
    "LogSoftmax",
    "MSELoss",
    "MarginRankingLoss",
    "MaxPool1d",
    "MaxPool2d",
    "Mish",
    "Module",
    "ModuleDict",
    "ModuleList",
    "MultiheadAttention",
    "NLLLoss",
    "PReLU",
    "PairwiseDistance",
    "Parameter",
    "ParameterDict",
    "ParameterList",
    "PixelShuffle",
    "PoissonNLLLoss",
    "RMSNorm",
    "RReLU",
    "ReLU",
    "ReLU6",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "Softmax",
    "Softmax2d",
    "Softmin",
    "Softplus",
    "Softshrink",
    "Softsign",
    "SwiGLU",
    "Tanh",
    "Tanhshrink",
    "Threshold",
    "TransformerDecoder",
    "TransformerDecoderLayer",
    "TransformerEncoder",
    "TransformerEncoderLayer",
    "TripletMarginLoss",
    "Unflatten",
    "Upsample",
    "causal_mask",
    "functional",
    "init",
    "summary",
    "utils",
]

if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
