"""``tf.keras``: layers, models, optimizers, losses, metrics and callbacks."""

from adjoint.compat.tensorflow.keras import (
    activations,
    callbacks,
    datasets,
    initializers,
    layers,
    losses,
    metrics,
    models,
    optimizers,
    utils,
)  # fmt: skip
from adjoint.compat.tensorflow.keras.inputs import Input
from adjoint.compat.tensorflow.keras.models import Model, Sequential
from adjoint.compat.uncovered import uncovered

__all__ = [
    "Input", "Model", "Sequential", "activations", "callbacks", "datasets", "initializers", "layers", "losses",
    "metrics", "models", "optimizers", "utils",
]  # fmt: skip
__getattr__ = uncovered(
    __name__,
    {"applications": "use adjoint.nn.networks", "regularizers": "use weight_decay of AdamW"},
    "adjoint.nn",
)
