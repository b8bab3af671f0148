"""What is subtracted from a parameter: a tensor, times scalars that are multiplied with each other first."""

from adjoint import ops
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass

__all__ = ["Direction", "Quotient", "Scale", "descend", "scaled"]


@dataclass(frozen=True, slots=True)
class Quotient:
    """A direction ``numerator / denominator``. A scalar multiplies the numerator, before the division.

    Parameters
    ----------
    numerator, denominator : Value
        Tensors of the parameter's type.
    """

    numerator: Value
    denominator: Value


#: What the transforms of a chain pass on for a parameter.
Direction = Value | Quotient


@dataclass(frozen=True, slots=True)
class Scale:
    """The scalars that a direction has yet to be multiplied by: it stands for ``factor / divisor * d + decay * p``.

    The product of scalars is computed once per step, in f64, and then multiplies each tensor once.

    Parameters
    ----------
    factor, divisor : Value, optional
        Scalars; None stands for 1.
    decay : Value, optional
        Scalar, the weight of the parameter itself; None stands for 0.
    """

    factor: Value | None = None
    divisor: Value | None = None
    decay: Value | None = None

    def times(self, number: Value) -> "Scale":
        """The scale of a direction that is multiplied by a scalar. A single factor stays in its dtype."""
        if self.factor is None and self.divisor is None and self.decay is None:
            return Scale(number)
        wide = ops.cast(number, "f64")
        factor = wide if self.factor is None else ops.cast(self.factor, "f64") * wide
        decay = None if self.decay is None else wide * ops.cast(self.decay, "f64")
        return Scale(factor, self.divisor, decay)

    def divided_by(self, number: Value) -> "Scale":
        """The scale of a direction that is divided by an f64 scalar; the scale must be 1."""
        return Scale(self.factor, number, self.decay)

    def with_decay(self, weight: Value) -> "Scale":
        """The scale of a direction to which the parameter is added, multiplied by a scalar."""
        weight = ops.cast(weight, "f64")
        return Scale(self.factor, self.divisor, weight if self.decay is None else self.decay + weight)

    def multiplier(self) -> Value | None:
        """``factor / divisor``, None if it is 1."""
        if self.divisor is None:
            return self.factor
        return ((1.0 if self.factor is None else self.factor) / self.divisor).named("step_size")

    def keep(self) -> Value | None:
        """``1 - decay``, the part of the parameter that is kept; None if it is 1."""
        return None if self.decay is None else (1.0 - self.decay).named("keep")

    def scalars(self) -> dict[str, Value]:
        """The scalars that `descend` and `scaled` need: ``step_size``, ``keep`` and ``decay``, where they are not 1."""
        found = {"step_size": self.multiplier(), "keep": self.keep(), "decay": self.decay}
        return {name: value for name, value in found.items() if value is not None}


def scaled(direction: Direction, scalars: dict[str, Value], param: Value) -> Value:
    """The direction as a tensor, multiplied by the scalars of a `Scale` in the dtype of the parameter."""
    found = _multiplied(direction, scalars)
    return found + scalars["decay"] * param if "decay" in scalars else found


def descend(param: Value, direction: Direction, scalars: dict[str, Value]) -> Value:
    """The parameter minus the direction, with the scalars of a `Scale` in the dtype of the parameter."""
    kept = param * scalars["keep"] if "keep" in scalars else param
    return kept - _multiplied(direction, scalars)


def _multiplied(direction: Direction, scalars: dict[str, Value]) -> Value:
    parts = (direction.numerator, direction.denominator) if isinstance(direction, Quotient) else (direction,)
    if "step_size" in scalars:
        parts = (scalars["step_size"] * parts[0], *parts[1:])
    return parts[0] / parts[1] if len(parts) == 2 else parts[0]
