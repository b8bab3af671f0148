"""Functions written as straight-line code, as `dataclasses` writes them, for what repeats in every iteration."""

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["StraightLine", "targets"]


class StraightLine:
    """The lines of a function that returns True, or False if something is not as it was.

    Parameters
    ----------
    name, parameters : str
        The name of the function, and its parameters.
    names : mapping
        The objects that its code names.
    """

    def __init__(self, name: str, parameters: str, names: Mapping[str, Any]) -> None:
        self.names = dict(names)
        self._name = name
        self._lines = [f"def {name}({parameters}):"]

    def add(self, *lines: str) -> None:
        """Append lines."""
        self._lines += [f"    {line}" for line in lines]

    def refuse_if(self, condition: str) -> None:
        """Let the function return False; nothing must have been changed before."""
        self.add(f"if {condition}: return False")

    def name(self, prefix: str, constant: Any) -> str:
        """A name for an object."""
        name = f"{prefix}_{len(self.names)}"
        self.names[name] = constant
        return name

    def function(self) -> Callable[..., bool]:
        """The function."""
        text = "\n".join([*self._lines, "    return True"])
        exec(compile(text, f"<adjoint {self._name}>", "exec"), self.names)
        made: Callable[..., bool] = self.names[self._name]
        return made


def targets(prefix: str, count: int) -> str:
    """The left side of an assignment to as many variables."""
    return f"[{', '.join(f'{prefix}{n}' for n in range(count))}]"
