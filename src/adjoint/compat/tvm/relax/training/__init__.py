"""Training: losses, optimizers, `SetupTrainer` and `Trainer`."""

from adjoint.compat.tvm.relax.training import loss, optimizer, setup_trainer, trainer, utils
from adjoint.compat.tvm.relax.training.setup_trainer import SetupTrainer
from adjoint.compat.tvm.relax.training.trainer import Trainer
from adjoint.compat.tvm.relax.transform import AppendLoss
from adjoint.compat.uncovered import uncovered

__all__ = ["AppendLoss", "SetupTrainer", "Trainer", "loss", "optimizer", "setup_trainer", "trainer", "utils"]
__getattr__ = uncovered(__name__, {}, "adjoint")
