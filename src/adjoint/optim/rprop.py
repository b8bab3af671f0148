"""Rprop: step sizes that follow from the signs of gradients alone."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_range, hyper_dtype
from adjoint.optim.chaining import Chain
from adjoint.optim.descent import step_spec
from adjoint.optim.direction import Direction
from adjoint.optim.scaling import negate
from adjoint.optim.transform import Transform

__all__ = ["Rprop", "scale_by_rprop"]


@dataclass(frozen=True)
class scale_by_rprop(Transform):  # noqa: N801
    """The step of Riedmiller and Braun (1993), "A direct adaptive method for faster backpropagation learning".

    Elementwise, with the last direction ``q``::

        s = clip(s * eta_plus if q * d > 0 else s * eta_minus if q * d < 0 else s, *step_sizes)
        q = 0 if q * d < 0 else d
        d = sign(q) * s

    Parameters
    ----------
    lr : float, default 1e-2
        The initial step size, which later updates do not read.
    etas : pair of float, default (0.5, 1.2)
        Hyperparameters ``eta_minus`` and ``eta_plus``: between 0 and 1, and above 1.
    step_sizes : pair of float, default (1e-6, 50)
        Hyperparameters ``step_size_min`` and ``step_size_max``.

    Raises
    ------
    InvalidValueError
        If a number is out of range.

    Notes
    -----
    State: ``step`` (i64), then ``<parameter>_prev`` (q) and ``<parameter>_step_size`` (s).
    """

    slot_names: ClassVar[tuple[str, ...]] = ("prev", "step_size")
    lr: float = 1e-2
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)

    def __post_init__(self) -> None:
        check_range("scale_by_rprop", "lr", self.lr)
        for name in ("etas", "step_sizes"):
            object.__setattr__(self, name, _pair("scale_by_rprop", name, getattr(self, name)))
        if not 0.0 < self.etas[0] < 1.0 < self.etas[1]:
            raise InvalidValueError(
                f"scale_by_rprop: etas must be one number between 0 and 1 and one above 1, got {self.etas}; write "
                "etas=(0.5, 1.2)"
            )

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """The factors and the limits of the step sizes."""
        type_ = TensorType((), hyper_dtype(params))
        values = {
            "eta_minus": self.etas[0],
            "eta_plus": self.etas[1],
            "step_size_min": self.step_sizes[0],
            "step_size_max": self.step_sizes[1],
        }
        return tuple(StateSpec(name, type_, value) for name, value in values.items())

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``step``, zeros for the last directions, and the initial step sizes."""
        first = {f"{name}_step_size" for name in params}
        return tuple(
            StateSpec(spec.name, spec.type, float(self.lr)) if spec.name in first else spec
            for spec in super().init(params)
        )

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (step_spec(),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The hyperparameters."""
        return dict(hyper), {"step": (shared["step"] + 1).named("step_new")}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The step, the direction and the step sizes."""
        agreement = direction * slots["prev"]
        reverses = ops.less(agreement, 0.0)
        grown = ops.where(ops.greater(agreement, 0.0), slots["step_size"] * scalars["eta_plus"], slots["step_size"])
        size = ops.where(reverses, slots["step_size"] * scalars["eta_minus"], grown)
        size = ops.minimum(ops.maximum(size, scalars["step_size_min"]), scalars["step_size_max"])
        kept = ops.where(reverses, 0.0, direction).named(f"{param.label}_prev_new")
        size = size.named(f"{param.label}_step_size_new")
        return ops.sign(kept) * size, {"prev": kept, "step_size": size}


@dataclass(frozen=True)
class Rprop(Chain):
    """Riedmiller and Braun (1993), "A direct adaptive method for faster backpropagation learning"; `torch.optim.Rprop`.

    It is ``chain(scale_by_rprop(...))``, which has the formulas.

    Parameters
    ----------
    lr : float, default 1e-2
        The initial step size. Changing it later has no effect.
    etas : pair of float, default (0.5, 1.2)
        Factors of the step sizes after the sign of a gradient has changed, and after it has not.
    step_sizes : pair of float, default (1e-6, 50)
        The smallest and the largest step size.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "differentiable": False,
        "capturable": False,
    }
    lr: float = 1e-2
    etas: tuple[float, float] = (0.5, 1.2)
    step_sizes: tuple[float, float] = (1e-6, 50.0)
    maximize: bool = False

    def __post_init__(self) -> None:
        scale_by_rprop(self.lr, self.etas, self.step_sizes)

    def parts(self) -> tuple[Transform, ...]:
        """The transforms."""
        return (*([negate()] if self.maximize else []), scale_by_rprop(self.lr, self.etas, self.step_sizes))

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``step``, which PyTorch keeps as a float."""
        return {"step": np.asarray(shared["step"], np.float32)}


def _pair(owner: str, name: str, given: object) -> tuple[float, float]:
    """Two numbers that are at least 0."""
    found = tuple(given) if isinstance(given, list | tuple) else ()
    if len(found) != 2:
        raise InvalidValueError(f"{owner}: {name} must be two numbers, got {given!r}; write {name}=(a, b)")
    for value in found:
        check_range(owner, name, value)
    return float(found[0]), float(found[1])
