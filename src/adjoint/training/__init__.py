"""Training: passes that build a training module, and the trainer that runs it.

`setup` composes loss, gradients and optimizer into one step; `trainer` keeps its parameters and states between steps,
`epochs` runs it over a dataset, `checkpoint` saves it and `tensors` reads and writes files of weights.
"""

from adjoint.training.epochs import EpochResult
from adjoint.training.passes import AppendLoss, Gradient
from adjoint.training.predict import inference_function
from adjoint.training.setup import SetupTrainer
from adjoint.training.tensors import read_arrays, write_arrays
from adjoint.training.trainer import Trainer

__all__ = [
    "AppendLoss",
    "EpochResult",
    "Gradient",
    "SetupTrainer",
    "Trainer",
    "inference_function",
    "read_arrays",
    "write_arrays",
]
