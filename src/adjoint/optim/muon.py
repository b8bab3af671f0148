"""Muon: momentum whose matrix is replaced by a nearly orthogonal one."""

from collections.abc import Hashable, Mapping
from typing import ClassVar

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import TensorType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.optim.base import StateSpec, Values, check_range
from adjoint.optim.descent import Descent
from adjoint.optim.direction import Direction
from adjoint.optim.norms import norm
from adjoint.optim.transform import Transform

__all__ = ["Muon", "orthogonalize"]

#: Jordan et al. chose them so that small singular values grow fast.
_COEFFICIENTS = (3.4445, -4.7750, 2.0315)


@dataclass(frozen=True)
class orthogonalize(Transform):  # noqa: N801
    """Momentum, then Newton and Schulz's iteration towards the nearest orthogonal matrix.

    Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks". With the coefficients ``a, b, c``::

        m = momentum * m + (1 - momentum) * d
        x = (1 - momentum) * d + momentum * m  if nesterov else  m
        x = x / max(norm(x), eps)
        x = a * x + (b * (x @ x.T) + c * (x @ x.T) @ (x @ x.T)) @ x        # ns_steps times
        d = r * x

    where ``r`` is ``sqrt(max(1, rows / columns))`` with `adjust_lr_fn` None or ``"original"``, and ``0.2 *
    sqrt(max(rows, columns))`` with ``"match_rms_adamw"``. A matrix with more rows than columns is transposed meanwhile.
    The products are computed in the parameter's dtype, where PyTorch rounds to bfloat16.

    Parameters and errors as for `Muon`. State: ``<parameter>_momentum_buffer``.
    """

    slot_names: ClassVar[tuple[str, ...]] = ("momentum_buffer",)
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = _COEFFICIENTS
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None

    def __post_init__(self) -> None:
        check_range("Muon", "momentum", self.momentum)
        check_range("Muon", "eps", self.eps)
        coefficients: object = self.ns_coefficients
        if not isinstance(coefficients, tuple | list) or len(coefficients) != 3:
            raise InvalidValueError(
                f"Muon: ns_coefficients must be three numbers, got {coefficients!r}; write {_COEFFICIENTS}"
            )
        object.__setattr__(self, "ns_coefficients", tuple(float(each) for each in coefficients))
        if not 0 <= self.ns_steps < 100:
            raise InvalidValueError(f"Muon: ns_steps must be from 0 to 99, got {self.ns_steps}")
        if self.adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise InvalidValueError(
                f"Muon: adjust_lr_fn must be 'original' or 'match_rms_adamw', got {self.adjust_lr_fn!r}"
            )

    def structure(self) -> Hashable:
        """With the number of iterations and their coefficients, which are part of the graph."""
        return (super().structure(), self.ns_steps, self.ns_coefficients)

    def hyper(self, params: Mapping[str, TensorType]) -> tuple[StateSpec, ...]:
        """``momentum`` and ``eps``."""
        return tuple(spec for spec in super().hyper(params) if spec.name in ("momentum", "eps"))

    def check_names(self, params: Mapping[str, TensorType]) -> None:
        """Raise if a parameter is not a matrix."""
        for name, type_ in params.items():
            if len(type_.shape) != 2:
                raise InvalidValueError(
                    f"Muon: parameters must be matrices, got {name} of {type_}; give it to another optimizer, such as "
                    "AdamW"
                )

    def update(
        self, param: Value, direction: Value, slots: Values, scalars: Values
    ) -> tuple[Direction, dict[str, Value]]:
        """The orthogonalized momentum."""
        old, weight = slots["momentum_buffer"], scalars["momentum"]
        new = (direction + weight * (old - direction)).named(f"{param.label}_momentum_buffer_new")
        x = direction + weight * (new - direction) if self.nesterov else new
        rows, columns = param.shape
        x = ops.transpose(x) if rows > columns else x
        size = norm(x)
        x = x / ops.cast(ops.maximum(size, ops.cast(scalars["eps"], size.dtype)), x.dtype)
        a, b, c = self.ns_coefficients
        for _ in range(self.ns_steps):
            gram = x @ ops.transpose(x)
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        x = ops.transpose(x) if rows > columns else x
        ratio = max(1.0, rows / columns) ** 0.5
        if self.adjust_lr_fn == "match_rms_adamw":
            ratio = 0.2 * max(rows, columns) ** 0.5
        return (x if ratio == 1.0 else ratio * x), {"momentum_buffer": new}


@dataclass(frozen=True)
class Muon(Descent):
    """Jordan et al. (2024), "Muon: an optimizer for hidden layers in neural networks"; `torch.optim.Muon`.

    It is ``chain(orthogonalize(...), decoupled_weight_decay(...), scale_by_learning_rate(...))``; `orthogonalize` has
    the formulas. It is for matrices only; give embeddings, biases and other vectors to another optimizer, in a graph
    with `partition`.

    Parameters
    ----------
    lr : float, default 1e-3
        Learning rate.
    weight_decay : float, default 0.1
        Decoupled weight decay. If 0, the graph contains none.
    momentum : float, default 0.95
        Weight of the old momentum.
    nesterov : bool, default True
        Nesterov's variant.
    ns_coefficients : three floats, default (3.4445, -4.775, 2.0315)
        Coefficients of the iteration, which are part of the graph.
    eps : float, default 1e-7
        The least norm that divides.
    ns_steps : int, default 5
        The number of iterations, below 100.
    adjust_lr_fn : {"original", "match_rms_adamw"}, optional
        How the rate depends on the shape.

    Raises
    ------
    InvalidValueError
        If a setting is out of range, or a parameter is no matrix.
    """

    numbers: ClassVar[tuple[str, ...]] = ("lr", "weight_decay")
    lr: float = 1e-3
    weight_decay: float = 0.1
    momentum: float = 0.95
    nesterov: bool = True
    ns_coefficients: tuple[float, float, float] = _COEFFICIENTS
    eps: float = 1e-7
    ns_steps: int = 5
    adjust_lr_fn: str | None = None
    maximize: ClassVar[bool] = False  # type: ignore[misc]

    def is_decoupled(self) -> bool:
        """Weight decay shrinks the parameter."""
        return True

    def scaling(self) -> tuple[Transform, ...]:
        """`orthogonalize`."""
        return (
            orthogonalize(
                self.momentum, self.nesterov, self.ns_coefficients, self.eps, self.ns_steps, self.adjust_lr_fn
            ),
        )
