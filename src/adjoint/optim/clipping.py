"""Transforms that limit directions, elementwise or by a norm, and that subtract their mean."""

from collections.abc import Hashable, Mapping
from functools import reduce
from operator import add

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_range
from adjoint.optim.direction import Direction
from adjoint.optim.norms import norm
from adjoint.optim.transform import Transform

__all__ = ["centralize", "clip_by_global_norm", "clip_by_norm", "clip_by_value"]

#: Added to the norm before it divides, so that a norm of 0 does not; the value is that of PyTorch's `clip_grad_norm_`.
_NORM_EPS = 1e-6


@dataclass(frozen=True)
class clip_by_value(Transform):  # noqa: N801
    """``d = min(max(d, -limit), limit)``, elementwise; `torch.nn.utils.clip_grad_value_`.

    Parameters
    ----------
    limit : float
        Hyperparameter ``limit``, at least 0.

    Raises
    ------
    InvalidValueError
        If it is negative or not finite.
    """

    limit: float

    def __post_init__(self) -> None:
        check_range("clip_by_value", "limit", self.limit)

    def update(
        self,
        param: Value,  # noqa: ARG002
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,
    ) -> tuple[Direction, dict[str, Value]]:
        """The limited direction."""
        limit = scalars["limit"]
        return ops.minimum(ops.maximum(direction, -limit), limit), {}


@dataclass(frozen=True)
class clip_by_global_norm(Transform):  # noqa: N801
    """``d = d * min(1, max_norm / (norm + 1e-6))`` with the 2-norm of all directions together.

    The formula is that of `torch.nn.utils.clip_grad_norm_`. Pascanu, Mikolov and Bengio (2013), "On the difficulty of
    training recurrent neural networks".

    Parameters
    ----------
    max_norm : float
        Hyperparameter ``max_norm``, at least 0.

    Raises
    ------
    InvalidValueError
        If it is negative or not finite.

    Notes
    -----
    Squares are added in f64 if a parameter is f64, otherwise in f32, because those of f16 overflow from 256.
    """

    max_norm: float

    def __post_init__(self) -> None:
        check_range("clip_by_global_norm", "max_norm", self.max_norm)

    def measure(self, directions: Values, scalars: Values) -> dict[str, Value]:
        """The factor."""
        norm = global_norm(directions)
        clip = ops.cast(scalars["max_norm"], norm.dtype) / (norm + _NORM_EPS)
        return {"clip": ops.minimum(clip, 1.0).named("clip")}

    def update(
        self,
        param: Value,  # noqa: ARG002
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction times the factor."""
        return scalars["clip"] * direction, {}


@dataclass(frozen=True)
class clip_by_norm(Transform):  # noqa: N801
    """``d = d * min(1, max_norm / (norm + 1e-6))`` with the 2-norm of each parameter's direction.

    Parameters
    ----------
    max_norm : float
        Hyperparameter ``max_norm``, at least 0.

    Raises
    ------
    InvalidValueError
        If it is negative or not finite.

    Notes
    -----
    `clip_by_global_norm` has the norm of all directions, and says how squares are added.
    """

    max_norm: float

    def __post_init__(self) -> None:
        check_range("clip_by_norm", "max_norm", self.max_norm)

    def update(
        self,
        param: Value,
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction times the factor."""
        size = norm(direction)
        clip = ops.minimum(ops.cast(scalars["max_norm"], size.dtype) / (size + _NORM_EPS), 1.0)
        return ops.cast(clip.named("clip"), param.dtype) * direction, {}


@dataclass(frozen=True)
class centralize(Transform):  # noqa: N801
    """The directions of parameters with two or more axes, minus their mean over all axes but one.

    Yong et al. (2020), "Gradient centralization: a new optimization technique for deep neural networks".

    Parameters
    ----------
    axis : int, default 0
        The axis of a layer's outputs, over which no mean is taken: 0 for the weights of PyTorch's layers, -1 for the
        right operand of a matrix product.

    Raises
    ------
    InvalidValueError
        If a parameter has no such axis.
    """

    axis: int = 0

    def structure(self) -> Hashable:
        """With the axis."""
        return (super().structure(), self.axis)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:  # noqa: ARG002
        """None: the axis is part of the graph."""
        return ()

    def applies_to(self, name: str, type_: TensorType) -> bool:
        """Whether a parameter has two or more axes."""
        rank = len(type_.shape)
        if rank > 1 and not -rank <= self.axis < rank:
            raise InvalidValueError(
                f"centralize: axis must be from {-rank} to {rank - 1} for {name} of {type_}, got {self.axis}; use 0 or "
                "-1"
            )
        return rank > 1

    def update(
        self,
        param: Value,
        direction: Value,
        slots: Values,  # noqa: ARG002
        scalars: Values,  # noqa: ARG002
    ) -> tuple[Direction, dict[str, Value]]:
        """The direction without its mean."""
        rank = len(param.shape)
        axes = tuple(i for i in range(rank) if i != self.axis % rank)
        return direction - ops.mean(direction, axes, keepdims=True), {}


def global_norm(tensors: Values) -> Value:
    """The 2-norm of all elements of some tensors; f64 if any of them is, otherwise f32."""
    wide = DTYPES["f64"] if any(x.dtype == DTYPES["f64"] for x in tensors.values()) else DTYPES["f32"]
    squares = [ops.cast(x, wide).square().sum() for x in tensors.values()]
    return reduce(add, squares).sqrt().named("global_norm")
