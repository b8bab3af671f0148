"""The interface of instruction counters."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Count", "Counter", "NoCounterError"]


class NoCounterError(Exception):
    """A counter does not work here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Count:
    """Numbers of executed instructions: the total, and per function if the counter supports it."""

    instructions: int
    functions: Mapping[str, int] = field(default_factory=dict)

    def per_step(self, other: "Count", steps: int) -> "tuple[float, dict[str, float]]":
        """Instructions per step, in total and per function, if `other` counted that many more steps."""
        each = {name: (count - self.functions.get(name, 0)) / steps for name, count in other.functions.items()}
        return (other.instructions - self.instructions) / steps, each


class Counter(Protocol):
    """Counts the instructions of a function call."""

    def count(self, run: Callable[[], object]) -> Count:
        """Call the function and return the numbers of executed instructions."""
