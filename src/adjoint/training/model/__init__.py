"""Models: a network with its loss, optimizer and metrics, and the loops that train, evaluate and use it.

`train_step` is one step, compiled as a whole; `native` repeats it over rows of arrays in native code; `loop` runs
epochs and calls callbacks, which see a `run`; `evaluation` computes metrics.
"""

from adjoint.training.model.model import Model
from adjoint.training.model.run import Run
from adjoint.training.model.train_step import TrainOneStep

__all__ = ["Model", "Run", "TrainOneStep"]
