"""Stochastic gradient descent, with momentum, dampening, Nesterov's variant and weight decay."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import check_range
from adjoint.optim.chaining import Chain
from adjoint.optim.scaling import add_decayed_weights, negate, scale_by_learning_rate, trace
from adjoint.optim.transform import Transform

__all__ = ["SGD"]


@dataclass(frozen=True)
class SGD(Chain):
    """``p -= lr * d``, where ``d`` is the gradient with decay and momentum; `torch.optim.SGD`.

    It is ``chain(add_decayed_weights(...), trace(...), scale_by_learning_rate(...))``::

        d = g + weight_decay * p
        b = momentum * b + (1 - dampening) * d        # without dampening in the first step: b = d
        d = d + momentum * b  if nesterov else  b
        p = p - lr * d

    ``SGD(model.parameters(), lr=0.1)`` is bound to parameters, which come before the settings; ``SGD(lr=0.1)`` is
    not yet (see `Optimizer.bind`).

    Parameters
    ----------
    lr : float, default 1e-3
        Learning rate.
    momentum : float, default 0.0
        If 0, the graph contains no momentum and no state for it.
    dampening : float, default 0.0
        If 0, the graph contains none; otherwise the state has ``step``, an i64 that counts the updates.
    weight_decay : float, default 0.0
        If 0, the graph contains none.
    nesterov : bool, default False
        Requires momentum, and no dampening.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is negative or not finite, or `nesterov` is combined with no momentum or with dampening.

    Notes
    -----
    Hyperparameters, which can be changed between steps without recompilation: ``lr``, and those of ``momentum``,
    ``dampening`` and ``weight_decay`` that are not 0 here. State: ``<parameter>_momentum_buffer``.
    """

    hyper_order: ClassVar[tuple[str, ...]] = ("lr", "momentum", "dampening", "weight_decay")
    implementation_options: ClassVar[dict[str, Any]] = {"foreach": None, "differentiable": False, "fused": None}
    lr: float = 1e-3
    momentum: float = 0.0
    dampening: float = 0.0
    weight_decay: float = 0.0
    nesterov: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        for name in self.hyper_order:
            check_range("SGD", name, getattr(self, name))
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise InvalidValueError(
                f"SGD: nesterov requires momentum above 0 and dampening 0, got momentum={self.momentum} and "
                f"dampening={self.dampening}"
            )

    def parts(self) -> tuple[Transform, ...]:
        """The transforms, those for a setting of 0 omitted."""
        return (
            *([negate()] if self.maximize else []),
            *([add_decayed_weights(self.weight_decay)] if self.weight_decay else []),
            *([trace(self.momentum, self.dampening, self.nesterov)] if self.momentum else []),
            scale_by_learning_rate(self.lr),
        )

    def export_shared(self, shared: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:  # noqa: ARG002
        """Nothing: in PyTorch, an update is the first one if there is no buffer."""
        return {}

    def import_shared(self, entry: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Whether an update is the first one, which is all that ``step`` is needed for."""
        return {"step": np.array(int("momentum_buffer" in entry))}
