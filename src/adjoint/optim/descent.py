"""`Descent`: what the optimizers that scale gradients have in common, weight decay and the learning rate."""

from collections.abc import Mapping
from itertools import repeat
from math import prod
from typing import ClassVar

import numpy as np

from adjoint.ir import DTYPES, TensorType
from adjoint.optim.base import StateSpec, check_range
from adjoint.optim.chaining import Chain
from adjoint.optim.scaling import (
    add_decayed_weights,
    checked_betas,
    decoupled_weight_decay,
    negate,
    scale_by_learning_rate,
)
from adjoint.optim.transform import Transform

__all__ = ["COUNT", "F64", "Descent", "power", "step_spec"]

#: Types of counts, and of scalars that are computed once per step.
COUNT = TensorType((), DTYPES["i64"])
F64 = TensorType((), DTYPES["f64"])


class Descent(Chain):
    """Base class of optimizers that are ``chain(decay, *scaling, decay, learning rate)``, with one of the decays.

    A subclass is a dataclass with the fields `lr`, `weight_decay` and `maximize`, and defines `scaling`.
    """

    hyper_order: ClassVar[tuple[str, ...]] = ("lr",)
    #: The settings that are numbers from 0 on.
    numbers: ClassVar[tuple[str, ...]] = ("lr", "eps", "weight_decay")
    #: The shared state that PyTorch keeps for each parameter, as a float.
    exported: ClassVar[tuple[str, ...]] = ("step",)
    lr: float
    weight_decay: float
    maximize: bool

    def __post_init__(self) -> None:
        name = type(self).__name__
        for setting in self.numbers:
            check_range(name, setting, getattr(self, setting))
        betas = getattr(self, "betas", None)
        if betas is not None:
            object.__setattr__(self, "betas", checked_betas(name, betas))
        self.parts()  # checks the other settings

    def scaling(self) -> tuple[Transform, ...]:
        """The transforms between weight decay and learning rate."""
        raise NotImplementedError

    def is_decoupled(self) -> bool:
        """Whether weight decay shrinks the parameter instead of being added to the gradient."""
        return False

    def parts(self) -> tuple[Transform, ...]:
        """The transforms, without weight decay if it is 0."""
        decoupled = self.is_decoupled()
        decay = decoupled_weight_decay if decoupled else add_decayed_weights
        decays = [decay(self.weight_decay)] if self.weight_decay else []
        return (
            *([negate()] if self.maximize else []),
            *([] if decoupled else decays),
            *self.scaling(),
            *(decays if decoupled else []),
            scale_by_learning_rate(self.lr),
        )

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The scalars that PyTorch keeps for each parameter, as floats."""
        return {name: np.asarray(shared[name], np.float32) for name in self.exported if name in shared}

    def import_shared(self, entry: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """What `export_shared` returned, with the powers of the betas."""
        found = {name: np.asarray(entry[name]) for name in self.exported if name in entry}
        betas: tuple[float, ...] = getattr(self, "betas", ())
        if "step" in found:
            step = int(found["step"])
            found |= {f"beta{i}_power": power(beta, step) for i, beta in enumerate(betas, 1)}
        return found


def power(beta: float, step: int) -> np.ndarray:
    """``beta ** step`` as the product that as many updates compute, an f64 scalar."""
    return np.array(prod(repeat(float(beta), step)), np.float64)


def step_spec() -> StateSpec:
    """The number of updates so far."""
    return StateSpec("step", COUNT, 0.0)
