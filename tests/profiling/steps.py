"""Steps to measure, and a machine to measure them by."""

from adjoint import losses, optim
from adjoint.ir import DTYPES, TensorType
from adjoint.models import mlp
from adjoint.profiling.machine import Level, Peaks
from adjoint.training import SetupTrainer

#: 100 GFLOP/s, 50 GB/s from a cache of 10 kB, 10 GB/s from memory.
PEAKS = Peaks("made-up", 256, 1, 100.0, (Level("L1", 10_000, 50.0), Level("memory", None, 10.0)))


def mlp_step(optimizer=None, sizes=(256, 128, 128, 10), rows=64):
    """The perceptron and everything that trains it."""
    types = (TensorType((rows, sizes[-1])), TensorType((rows,), DTYPES["i64"]))
    setup = SetupTrainer(losses.CrossEntropyLoss(), optimizer or optim.SGD(0.01), types)
    return setup(mlp(sizes, rows))
