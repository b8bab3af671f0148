"""LAMB and LARS: learning rates that follow from the norm of each parameter, for large batches."""

from typing import ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import Values, check_range
from adjoint.optim.descent import Descent
from adjoint.optim.direction import Direction
from adjoint.optim.norms import norm
from adjoint.optim.scaling import add_decayed_weights, negate, scale_by_adam, scale_by_learning_rate, trace
from adjoint.optim.transform import Transform

__all__ = ["LAMB", "LARS", "scale_by_layer_rate", "scale_by_trust_ratio"]


@dataclass(frozen=True)
class scale_by_trust_ratio(Transform):  # noqa: N801
    """``d = norm(p) / norm(d) * d`` with 2-norms of single parameters; unchanged where one of the norms is 0.

    You et al. (2020), "Large batch optimization for deep learning: training BERT in 76 minutes".
    """

    def update(
        self,
        param: Value,
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,  # noqa: ARG002
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction times the quotient of the norms."""
        above, below = norm(param), norm(direction)
        ratio = ops.where(ops.logical_and(ops.greater(above, 0.0), ops.greater(below, 0.0)), above / below, 1.0)
        return ops.cast(ratio.named("trust_ratio"), param.dtype) * direction, {}


@dataclass(frozen=True)
class scale_by_layer_rate(Transform):  # noqa: N801
    """``d = trust_coefficient * norm(p) / (norm(d) + weight_decay * norm(p) + eps) * (d + weight_decay * p)``.

    You, Gitman and Ginsburg (2017), "Large batch training of convolutional networks". Norms are 2-norms of single
    parameters; where one of them is 0, it is ``d = d + weight_decay * p``.

    Parameters
    ----------
    trust_coefficient : float, default 1e-3
        Hyperparameter ``trust_coefficient``.
    weight_decay : float, default 0.0
        Hyperparameter ``weight_decay``. If 0, the graph contains none.
    eps : float, default 1e-8
        Hyperparameter ``eps``.

    Raises
    ------
    InvalidValueError
        If a number is negative or not finite.
    """

    trust_coefficient: float = 1e-3
    weight_decay: float = 0.0
    eps: float = 1e-8

    def __post_init__(self) -> None:
        for name in ("trust_coefficient", "weight_decay", "eps"):
            check_range("scale_by_layer_rate", name, getattr(self, name))

    def _numbers(self) -> dict[str, float]:
        return {name: value for name, value in super()._numbers().items() if name != "weight_decay" or value}

    def update(
        self,
        param: Value,
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction with decay, times the rate of this parameter."""
        above, below = norm(param), norm(direction)
        known = ops.logical_and(ops.greater(above, 0.0), ops.greater(below, 0.0))
        eps, coefficient = (ops.cast(scalars[name], above.dtype) for name in ("eps", "trust_coefficient"))
        total = below + eps
        if self.weight_decay:
            total = total + ops.cast(scalars["weight_decay"], above.dtype) * above
            direction = direction + scalars["weight_decay"] * param
        rate = ops.where(known, coefficient * above / total, 1.0)
        return ops.cast(rate.named("layer_rate"), param.dtype) * direction, {}


@dataclass(frozen=True)
class LAMB(Descent):
    """You et al. (2020), "Large batch optimization for deep learning: training BERT in 76 minutes".

    It is ``chain(scale_by_adam(...), add_decayed_weights(...), scale_by_trust_ratio(), scale_by_learning_rate(...))``:
    with the quotient ``r`` of Adam, for each parameter::

        u = r + weight_decay * p
        p = p - lr * norm(p) / norm(u) * u        # p - lr * u if a norm is 0

    Parameters
    ----------
    lr : float, default 1e-3
        Learning rate.
    betas : pair of float, default (0.9, 0.999)
        Decay rates of the running moments, at least 0 and below 1.
    eps : float, default 1e-6
        Added to the denominator.
    weight_decay : float, default 0.01
        If 0, the graph contains none.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range.
    """

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-6
    weight_decay: float = 1e-2
    maximize: bool = False

    def parts(self) -> tuple[Transform, ...]:
        """The transforms, without weight decay if it is 0."""
        return (
            *([negate()] if self.maximize else []),
            scale_by_adam(self.betas, self.eps),
            *([add_decayed_weights(self.weight_decay)] if self.weight_decay else []),
            scale_by_trust_ratio(),
            scale_by_learning_rate(self.lr),
        )


@dataclass(frozen=True)
class LARS(Descent):
    """You, Gitman and Ginsburg (2017), "Large batch training of convolutional networks".

    It is ``chain(scale_by_layer_rate(...), scale_by_learning_rate(...), trace(...))``: for each parameter::

        r = trust_coefficient * norm(p) / (norm(g) + weight_decay * norm(p) + eps)        # 1 if a norm is 0
        b = momentum * b + lr * r * (g + weight_decay * p)
        p = p - b

    Biases and the parameters of normalization usually take no part; give them to another optimizer with `partition`.

    Parameters
    ----------
    lr : float, default 0.1
        Learning rate.
    momentum : float, default 0.9
        If 0, the graph contains none.
    weight_decay : float, default 0.0
        If 0, the graph contains none.
    trust_coefficient : float, default 1e-3
        The size of a step relative to the parameter.
    eps : float, default 1e-8
        Added to the denominator.
    nesterov : bool, default False
        Nesterov's variant of momentum; requires momentum.
    maximize : bool, default False
        Ascend: use the negative gradient.

    Raises
    ------
    InvalidValueError
        If a setting is out of range, or `nesterov` is combined with no momentum.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "momentum", "weight_decay", "trust_coefficient", "eps")
    lr: float = 0.1
    momentum: float = 0.9
    weight_decay: float = 0.0
    trust_coefficient: float = 1e-3
    eps: float = 1e-8
    nesterov: bool = False
    maximize: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.nesterov and not self.momentum:
            raise InvalidValueError("LARS: nesterov requires momentum above 0, got momentum=0; set momentum=0.9")

    def parts(self) -> tuple[Transform, ...]:
        """The transforms, without momentum if it is 0."""
        return (
            *([negate()] if self.maximize else []),
            scale_by_layer_rate(self.trust_coefficient, self.weight_decay, self.eps),
            scale_by_learning_rate(self.lr),
            *([trace(self.momentum, nesterov=self.nesterov)] if self.momentum else []),
        )
