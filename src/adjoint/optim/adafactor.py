"""Adafactor: second moments of matrices as products of rows and columns."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_params, check_range
from adjoint.optim.chaining import Chain
from adjoint.optim.descent import F64, step_spec
from adjoint.optim.direction import Direction, Scale
from adjoint.optim.norms import rms, wide
from adjoint.optim.scaling import negate
from adjoint.optim.transform import Transform

__all__ = ["Adafactor", "scale_by_adafactor"]


@dataclass(frozen=True)
class scale_by_adafactor(Transform):  # noqa: N801
    """The step of Shazeer and Stern (2018), "Adafactor: adaptive learning rates with sublinear memory cost".

    At update ``t = 1, 2, ...``, for a parameter with two or more axes, where ``mean_rows`` is the mean over the last
    axis and ``mean_columns`` that over the last but one::

        w = t ** beta2_decay
        r = r + w * (mean_rows(g * g) - r)
        c = c + w * (mean_columns(g * g) - c)
        v = r * c / max(mean_columns(r), eps1)

    and for one with fewer, ``v = v + w * (g * g - v)``. Then, with the root of the mean square ``rms``::

        u = g / sqrt(max(v, eps1 * eps1))
        d = min(lr, 1 / sqrt(t)) * max(eps2, rms(p)) * u / max(1, rms(u) / d)

    Parameters and errors as for `Adafactor`. State: ``step`` (i64), then ``<parameter>_row_var`` and
    ``<parameter>_col_var``, or ``<parameter>_variance``.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("row_var", "col_var", "variance")
    lr: float = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0
    weight_decay: float = 0.0

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:  # noqa: ARG002
        """The settings, which are f64; without ``eps1`` if it is None, and without a weight decay of 0."""
        values = {"lr": self.lr, "beta2_decay": self.beta2_decay, "eps1": self.eps[0], "eps2": self.eps[1], "d": self.d}
        if self.weight_decay:
            values["weight_decay"] = self.weight_decay
        return tuple(StateSpec(name, F64, float(value)) for name, value in values.items() if value is not None)

    def init(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``step``, then for each parameter the means of its rows and columns, or of its elements."""
        check_params(params)
        found = [*self.shared()]
        for name, type_ in params.items():
            *rest, rows, columns = type_.shape if len(type_.shape) > 1 else (0, 0)
            shapes = {"row_var": (*rest, rows, 1), "col_var": (*rest, 1, columns)}
            for slot, shape in (shapes if len(type_.shape) > 1 else {"variance": type_.shape}).items():
                found.append(StateSpec(f"{name}_{slot}", TensorType(shape, type_.dtype), 0.0))
        return tuple(found)

    def shared(self) -> tuple[StateSpec, ...]:
        """The number of updates so far."""
        return (step_spec(),)

    def prepare(self, hyper: Values, shared: Values) -> tuple[dict[str, Value], dict[str, Value]]:
        """The rate, and the weight of the new squares."""
        step = (shared["step"] + 1).named("step_new")
        count = ops.cast(step, "f64")
        scalars = {name: value for name, value in hyper.items() if name in ("eps1", "eps2", "d")}
        scalars["fresh"] = ops.power(count, hyper["beta2_decay"]).named("fresh")
        scalars["rate"] = ops.minimum(hyper["lr"], count.rsqrt()).named("rate")
        if self.weight_decay:
            scalars["decay"] = hyper["lr"] * hyper["weight_decay"]
        return scalars, {"step": step}

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The step and the means of squares."""
        smallest = scalars["eps1"] if "eps1" in scalars else float(np.finfo(param.dtype).eps)
        square, fresh, updated = direction * direction, scalars["fresh"], {}
        for slot, old in slots.items():
            axis = {"row_var": -1, "col_var": -2}.get(slot)
            mean = square if axis is None else ops.mean(square, axis, keepdims=True)
            updated[slot] = (old + fresh * (mean - old)).named(f"{param.label}_{slot}_new")
        if "variance" in updated:
            variance = updated["variance"]
        else:
            rows = updated["row_var"]
            variance = rows * updated["col_var"] / ops.maximum(ops.mean(rows, -2, keepdims=True), smallest)
        unit = direction / ops.maximum(variance, smallest * smallest).sqrt()
        size = ops.maximum(rms(param), ops.cast(scalars["eps2"], wide(param).dtype))
        bound = ops.maximum(rms(unit) / ops.cast(scalars["d"], size.dtype), 1.0)
        return ops.cast(size / bound, param.dtype) * scalars["rate"] * unit, updated

    def rescale(self, scale: Scale, scalars: Values) -> Scale:
        """Decoupled weight decay."""
        return scale.with_decay(scalars["decay"]) if self.weight_decay else scale


@dataclass(frozen=True)
class Adafactor(Chain):
    """Shazeer and Stern (2018), "Adafactor: adaptive learning rates with sublinear memory cost".

    `torch.optim.Adafactor`. It is ``chain(scale_by_adafactor(...))``, which has the formulas. The parameter is
    multiplied by ``1 - lr * weight_decay`` before the step. A matrix has one row and one column of state.

    Parameters
    ----------
    lr : float, default 1e-2
        The largest step relative to the parameter.
    beta2_decay : float, default -0.8
        Exponent of the weight of new squares, at most 0.
    eps : pair of float, default (None, 1e-3)
        The least root of a mean square of gradients, for which None stands for the rounding unit of the parameter's
        dtype, and that of parameters.
    d : float, default 1.0
        Updates with a larger root of the mean square are scaled down; at least 1.
    weight_decay : float, default 0.0
        Decoupled weight decay. If 0, the graph contains none.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    implementation_options: ClassVar[dict[str, Any]] = {"foreach": None}
    lr: float = 1e-2
    beta2_decay: float = -0.8
    eps: tuple[float | None, float] = (None, 1e-3)
    d: float = 1.0
    weight_decay: float = 0.0
    maximize: bool = False

    def __post_init__(self) -> None:
        eps: object = self.eps
        if not isinstance(eps, tuple | list) or len(eps) != 2:
            raise InvalidValueError(f"Adafactor: eps must be two numbers, got {eps!r}; write eps=(None, 1e-3)")
        object.__setattr__(self, "eps", tuple(eps))
        numbers = {"lr": self.lr, "eps1": self.eps[0], "eps2": self.eps[1], "weight_decay": self.weight_decay}
        for name, value in numbers.items():
            if name != "eps1" or value is not None:
                check_range("Adafactor", name, value)  # type: ignore[arg-type]
        if not self.beta2_decay <= 0.0:
            raise InvalidValueError(f"Adafactor: beta2_decay must be at most 0, got {self.beta2_decay}")
        if not self.d >= 1.0:
            raise InvalidValueError(f"Adafactor: d must be at least 1, got {self.d}")

    def parts(self) -> tuple[Transform, ...]:
        """The transforms."""
        made = scale_by_adafactor(self.lr, self.beta2_decay, self.eps, self.d, self.weight_decay)
        return (*([negate()] if self.maximize else []), made)

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``step``, which PyTorch keeps as a float."""
        return {"step": np.asarray(shared["step"], np.float32)}
