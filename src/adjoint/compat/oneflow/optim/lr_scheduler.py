"""Schedules of learning rates, as ``oneflow.optim.lr_scheduler``."""

from adjoint.compat.uncovered import uncovered
from adjoint.optim.lr_scheduler import (
    ChainedScheduler,
    ConstantLR,
    CosineAnnealingLR,
    CosineAnnealingWarmRestarts,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    ReduceLROnPlateau,
    SequentialLR,
    StepLR,
)

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "ExponentialLR",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

__getattr__ = uncovered(
    __name__,
    {
        "CosineDecayLR": "use CosineAnnealingLR(optimizer, decay_steps, alpha * lr)",
        "PolynomialLR": "use LambdaLR(optimizer, lambda step: max(1 - step / steps, 0) ** power)",
        "WarmUpLR": "use SequentialLR of LinearLR and the schedule that follows",
    },
    "adjoint.optim.lr_scheduler",
)
