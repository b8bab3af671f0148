"""What counters have in common."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

__all__ = ["Count", "Counter", "NoCounterError"]


class NoCounterError(Exception):
    """A counter that does not work here; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Count:
    """Instructions that were executed: all of them, and those of each function where a counter can tell."""

    instructions: int
    functions: Mapping[str, int] = field(default_factory=dict)

    def per_step(self, other: "Count", steps: int) -> "tuple[float, dict[str, float]]":
        """Instructions a step and function, where `other` counted so many steps more."""
        each = {name: (count - self.functions.get(name, 0)) / steps for name, count in other.functions.items()}
        return (other.instructions - self.instructions) / steps, each


class Counter(Protocol):
    """Counts the instructions of a run."""

    def count(self, run: Callable[[], object]) -> Count:
        """Run it, and return what was executed."""
