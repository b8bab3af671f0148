"""The base class of schedules within a step, and what they have in common."""

from collections.abc import Sequence
from itertools import pairwise
from math import inf, pi

from adjoint import ops
from adjoint.errors import InvalidValueError
from adjoint.ir import Value
from adjoint.lazy_dataclass import dataclass

__all__ = ["Schedule", "annealed", "line", "number", "require_order"]


@dataclass(frozen=True)
class Schedule:
    """Base class: a subclass defines ``__call__``, and says in `positive` which settings are numbers above 0."""

    def __post_init__(self) -> None:
        for name in self.positive():
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < inf:
                raise InvalidValueError(f"{type(self).__name__}: {name} must be above 0 and finite, got {value!r}")

    def positive(self) -> tuple[str, ...]:
        """The settings that must be above 0; default: none."""
        return ()

    def __call__(self, t: Value) -> Value:
        """The factor at update `t`, counted from 0.

        Parameters
        ----------
        t : Value
            An f64 scalar.
        """
        raise NotImplementedError


def number(t: Value, number: float) -> Value:
    """A number as a graph value of the type of the count."""
    return ops.full_like(t, number)


def line(start: float, end: float, done: Value) -> Value:
    """The value on a line."""
    return start + (end - start) * done


def annealed(start: float, end: float, done: Value) -> Value:
    """The value on half a cosine."""
    return end + (start - end) * 0.5 * (1.0 + ops.cos(done * pi))


def require_order(owner: str, name: str, given: Sequence[int]) -> None:
    """Raise unless numbers of updates increase."""
    if any(a >= b for a, b in pairwise(given)):
        raise InvalidValueError(f"{owner}: {name} must increase, got {tuple(given)}; sort them")
