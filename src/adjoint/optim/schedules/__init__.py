"""Schedules within a compiled step: factors of the learning rate as functions of the number of updates so far.

``chain(AdamW(1e-3), scale_by_schedule(schedules.Warmup(100, schedules.Cosine(900))))``. A schedule is called with a
graph value, the number of updates before this one as an f64 scalar, and returns the factor. They are the formulas of
PyTorch's schedulers, divided by the initial rate (by the largest one for `OneCycle` and `Cyclic`); those of
`adjoint.optim.lr_scheduler` set the rates of optimizers that are bound to parameters. Several `scale_by_schedule` in
one chain multiply their factors.
"""

from adjoint.optim.schedules.base import Schedule
from adjoint.optim.schedules.cycles import Cosine, CosineRestarts, Cyclic, OneCycle
from adjoint.optim.schedules.formulas import (
    Constant,
    Exponential,
    InverseSqrt,
    Linear,
    MultiStep,
    Piecewise,
    Polynomial,
    Sequential,
    Step,
    Warmup,
)

__all__ = [
    "Constant",
    "Cosine",
    "CosineRestarts",
    "Cyclic",
    "Exponential",
    "InverseSqrt",
    "Linear",
    "MultiStep",
    "OneCycle",
    "Piecewise",
    "Polynomial",
    "Schedule",
    "Sequential",
    "Step",
    "Warmup",
]
