"""Lion: steps of equal size in every element, whose signs follow from momentum."""

from collections.abc import Mapping
from typing import ClassVar

from adjoint import ops
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values
from adjoint.optim.descent import F64, Descent
from adjoint.optim.direction import Direction
from adjoint.optim.scaling import checked_betas
from adjoint.optim.transform import Transform

__all__ = ["Lion", "scale_by_lion"]


@dataclass(frozen=True)
class scale_by_lion(Transform):  # noqa: N801
    """The sign of Chen et al. (2023), "Symbolic discovery of optimization algorithms".

    ::

        c = beta1 * m + (1 - beta1) * d
        m = beta2 * m + (1 - beta2) * d
        d = sign(c)                       # 0 where c is 0

    Parameters
    ----------
    betas : pair of float, default (0.9, 0.99)
        Hyperparameters ``beta1`` and ``beta2``, at least 0 and below 1.

    Raises
    ------
    InvalidValueError
        If one is out of range.

    Notes
    -----
    State: ``<parameter>_exp_avg`` (m).
    """

    slot_names: ClassVar[tuple[str, ...]] = ("exp_avg",)
    betas: tuple[float, float] = (0.9, 0.99)

    def __post_init__(self) -> None:
        object.__setattr__(self, "betas", checked_betas("scale_by_lion", self.betas))

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:  # noqa: ARG002
        """``beta1`` and ``beta2``, which are f64."""
        return tuple(StateSpec(f"beta{i}", F64, float(beta)) for i, beta in enumerate(self.betas, 1))

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:  # noqa: ARG002
        """The weights of the new direction, in f64."""
        return {f"fresh{i}": (1.0 - hyper[f"beta{i}"]).named(f"fresh{i}") for i in (1, 2)}, {}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The sign and the momentum."""
        old = slots["exp_avg"]
        change = direction - old
        new = (old + scalars["fresh2"] * change).named(f"{param.label}_exp_avg_new")
        return ops.sign(old + scalars["fresh1"] * change), {"exp_avg": new}


@dataclass(frozen=True)
class Lion(Descent):
    """Chen et al. (2023), "Symbolic discovery of optimization algorithms".

    It is ``chain(scale_by_lion(...), decoupled_weight_decay(...), scale_by_learning_rate(...))``::

        p = (1 - lr * weight_decay) * p - lr * sign(beta1 * m + (1 - beta1) * g)
        m = beta2 * m + (1 - beta2) * g

    Parameters
    ----------
    lr : float, default 1e-4
        Learning rate, typically 3 to 10 times smaller than that of `AdamW`.
    betas : pair of float, default (0.9, 0.99)
        Weights of the momentum in the step, and in its own update; at least 0 and below 1.
    weight_decay : float, default 0.0
        Decoupled weight decay. If 0, the graph contains none.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "weight_decay")
    lr: float = 1e-4
    betas: tuple[float, float] = (0.9, 0.99)
    weight_decay: float = 0.0
    maximize: bool = False

    def is_decoupled(self) -> bool:
        """Weight decay shrinks the parameter."""
        return True

    def scaling(self) -> tuple[Transform, ...]:
        """`scale_by_lion`."""
        return (scale_by_lion(self.betas),)
