"""Schedules of learning rates, with PyTorch's names and meaning: they set ``lr`` in `Optimizer.param_groups`.

`base` has the base class and rates from a function, `factors` those that multiply the initial rate by a formula,
`cosine` annealing and the one-cycle policy, `cyclic` the one that goes up and down, `plateau` the schedule that follows
a metric, and `composed` combinations.
"""

from typing import TYPE_CHECKING

from adjoint.missing import missing_name
from adjoint.optim.lr_scheduler.base import LambdaLR, LRScheduler, MultiplicativeLR
from adjoint.optim.lr_scheduler.composed import ChainedScheduler, SequentialLR
from adjoint.optim.lr_scheduler.cosine import CosineAnnealingLR, CosineAnnealingWarmRestarts, OneCycleLR
from adjoint.optim.lr_scheduler.cyclic import CyclicLR
from adjoint.optim.lr_scheduler.factors import ConstantLR, ExponentialLR, LinearLR, MultiStepLR, PolynomialLR, StepLR
from adjoint.optim.lr_scheduler.plateau import ReduceLROnPlateau

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]

if not TYPE_CHECKING:  # so that type checkers report names that do not exist

    def __getattr__(name):
        """Say what to use instead of a name of PyTorch that is not here."""
        raise missing_name(__name__, name, __all__)
