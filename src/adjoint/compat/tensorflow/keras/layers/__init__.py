"""``tf.keras.layers``."""

from adjoint.compat.tensorflow.keras.inputs import Input
from adjoint.compat.tensorflow.keras.layers.base import Layer
from adjoint.compat.tensorflow.keras.layers.core import (
    ELU,
    Activation,
    Dense,
    Dropout,
    Embedding,
    Flatten,
    InputLayer,
    Lambda,
    LeakyReLU,
    Permute,
    ReLU,
    RepeatVector,
    Rescaling,
    Reshape,
    Softmax,
)  # fmt: skip
from adjoint.compat.tensorflow.keras.layers.images import (
    AveragePooling2D,
    Conv2D,
    DepthwiseConv2D,
    GlobalAveragePooling1D,
    GlobalAveragePooling2D,
    GlobalMaxPooling2D,
    MaxPooling2D,
    ZeroPadding2D,
)  # fmt: skip
from adjoint.compat.tensorflow.keras.layers.images import AveragePooling2D as AvgPool2D
from adjoint.compat.tensorflow.keras.layers.images import MaxPooling2D as MaxPool2D
from adjoint.compat.tensorflow.keras.layers.merging import (
    Add,
    Average,
    Concatenate,
    Maximum,
    Multiply,
    Subtract,
    add,
    concatenate,
    multiply,
)  # fmt: skip
from adjoint.compat.tensorflow.keras.layers.normalization import BatchNormalization, LayerNormalization
from adjoint.compat.tensorflow.keras.layers.recurrent import GRU, LSTM, SimpleRNN
from adjoint.compat.uncovered import uncovered

__all__ = [
    "ELU", "GRU", "LSTM", "Activation", "Add", "Average", "AveragePooling2D", "AvgPool2D", "BatchNormalization",
    "Concatenate", "Conv2D", "Dense", "DepthwiseConv2D", "Dropout", "Embedding", "Flatten", "GlobalAveragePooling1D",
    "GlobalAveragePooling2D", "GlobalMaxPooling2D", "Input", "InputLayer", "Lambda", "Layer", "LayerNormalization",
    "LeakyReLU", "MaxPool2D", "MaxPooling2D", "Maximum", "Multiply", "Permute", "ReLU", "RepeatVector", "Rescaling",
    "Reshape", "SimpleRNN", "Softmax", "Subtract", "ZeroPadding2D", "add", "concatenate", "multiply",
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {
        "MultiHeadAttention": "use adjoint.nn.MultiheadAttention",
        "Bidirectional": "use adjoint.nn.LSTM(bidirectional=True)",
        "Conv1D": "use adjoint.nn.Conv1d, with channels first",
        "Conv2DTranspose": "use adjoint.nn.ConvTranspose2d, with channels first",
    },
    "adjoint.nn",
)
