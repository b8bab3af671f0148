"""Adam and AdamW: updates scaled by running moments of the gradient."""

from collections.abc import Mapping
from itertools import repeat
from math import prod
from typing import Any, ClassVar

import numpy as np

from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import check_range
from adjoint.optim.chaining import Chain
from adjoint.optim.scaling import (
    add_decayed_weights,
    checked_betas,
    decoupled_weight_decay,
    negate,
    scale_by_adam,
    scale_by_learning_rate,
)
from adjoint.optim.transform import Transform

__all__ = ["Adam", "AdamW"]


@dataclass(frozen=True)
class Adam(Chain):
    """Kingma and Ba (2015), "Adam: a method for stochastic optimization"; `torch.optim.Adam`.

    It is ``chain(add_decayed_weights(...), scale_by_adam(...), scale_by_learning_rate(...))``. At update
    ``t = 1, 2, ...``, elementwise::

        g = g + weight_decay * p
        m = m + (1 - beta1) * (g - m)
        v = beta2 * v + (1 - beta2) * g * g
        p = p - lr / (1 - beta1**t) * m / (sqrt(v) / sqrt(1 - beta2**t) + eps)

    ``Adam(model.parameters(), lr=0.1)`` is bound to parameters, which come before the settings; ``Adam(lr=0.1)`` is
    not yet (see `Optimizer.bind`).

    Parameters
    ----------
    lr : float, default 1e-3
        Learning rate.
    betas : pair of float, default (0.9, 0.999)
        Decay rates of the running moments, at least 0 and below 1.
    eps : float, default 1e-8
        Added to the denominator.
    weight_decay : float, default 0.0
        Weight decay, added to the gradient. If 0, the graph contains none.
    amsgrad : bool, default False
        Divide by the largest second moment so far: Reddi, Kale and Kumar (2018), "On the convergence of Adam and
        beyond".
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.

    Notes
    -----
    Hyperparameters, which can be changed between steps without recompilation: ``lr``, ``beta1``, ``beta2``, ``eps``,
    and ``weight_decay`` unless it is 0 here. State: ``step`` (i64), ``beta1_power`` and ``beta2_power``, then
    ``<parameter>_exp_avg`` (m), ``<parameter>_exp_avg_sq`` (v) and, with `amsgrad`,
    ``<parameter>_max_exp_avg_sq``.

    ``beta1**t`` is maintained as a product of one factor per step, so if ``beta1`` changes, the correction is that of
    the betas actually used; PyTorch uses a power of the latest. Betas and their powers are f64, and the quantities
    common to all parameters are computed from them in f64, once per step. In f32, ``1 - 0.999`` loses four digits, and
    after 1000 steps at ``lr=0.01`` the parameters would differ from PyTorch's by 8e-6 instead of 5e-7.
    """

    hyper_order: ClassVar[tuple[str, ...]] = ("lr", "beta1", "beta2", "eps", "weight_decay")
    #: Whether weight decay shrinks the parameter (AdamW) instead of being added to the gradient.
    decoupled: ClassVar[bool] = False
    implementation_options: ClassVar[dict[str, Any]] = {
        "foreach": None,
        "capturable": False,
        "differentiable": False,
        "fused": None,
        "decoupled_weight_decay": False,
    }
    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8
    weight_decay: float = 0.0
    amsgrad: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        name = type(self).__name__
        for setting in ("lr", "eps", "weight_decay"):
            check_range(name, setting, getattr(self, setting))
        object.__setattr__(self, "betas", checked_betas(name, self.betas))

    def parts(self) -> tuple[Transform, ...]:
        """The transforms, without weight decay if it is 0."""
        decay = decoupled_weight_decay if self.decoupled else add_decayed_weights
        decays = [decay(self.weight_decay)] if self.weight_decay else []
        return (
            *([negate()] if self.maximize else []),
            *([] if self.decoupled else decays),
            scale_by_adam(self.betas, self.eps, self.amsgrad),
            *(decays if self.decoupled else []),
            scale_by_learning_rate(self.lr),
        )

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """``step``, which PyTorch keeps as a float."""
        return {"step": np.asarray(shared["step"], np.float32)}

    def import_shared(self, entry: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The number of updates, and the powers of the betas: products, with the bits that these updates give."""
        if "step" not in entry:
            return {}
        step = int(entry["step"])
        powers = [np.array(prod(repeat(float(beta), step)), np.float64) for beta in self.betas]
        return {"step": np.array(step), "beta1_power": powers[0], "beta2_power": powers[1]}


@dataclass(frozen=True)
class AdamW(Adam):
    """Adam with decoupled weight decay: ``p = (1 - lr * weight_decay) * p``, then Adam's step.

    Loshchilov and Hutter (2019), "Decoupled weight decay regularization"; `torch.optim.AdamW`. It is
    ``chain(scale_by_adam(...), decoupled_weight_decay(...), scale_by_learning_rate(...))``. Parameters, state and
    errors as for `Adam`, except that `weight_decay` is 0.01 by default.
    """

    decoupled: ClassVar[bool] = True
    implementation_options: ClassVar[dict[str, Any]] = {
        **Adam.implementation_options,
        "decoupled_weight_decay": True,
    }
    weight_decay: float = 1e-2
