"""The Python function that calls a compiled program, written for the program.

What a call has to do is known when its function has been traced: which values to compare, which addresses to store, and
which tensors get new elements. Loops over these would take several times as long as the straight code that `Caller`
writes, as `dataclasses` does for ``__init__``.
"""

from collections.abc import Sequence
from typing import Any

from adjoint.tensor.tensor import Tensor

__all__ = ["CHANGED", "Caller", "guard"]

#: What a call returns if something that it depends on has changed since the function was traced.
CHANGED = object()

#: What a comparison raises if something is not there any more, or an argument is of another kind.
_GONE = (AttributeError, IndexError, KeyError, TypeError, ValueError)


class Caller:
    """Writes a function that takes the tensors of a call as one sequence.

    Parameters
    ----------
    arguments : int
        Number of tensors.
    """

    def __init__(self, arguments: int) -> None:
        self._constants: dict[str, Any] = {"CHANGED": CHANGED, "GONE": _GONE, "Tensor": Tensor, "new": Tensor.__new__}
        self._names: dict[int, str] = {}
        self._count = 0
        self._checks: list[str] = []
        self._body: list[str] = []
        names = "".join(f"a{n}, " for n in range(arguments))
        self.check(f"({names}) = args" if arguments else "() = args")

    def name(self, constant: Any) -> str:
        """The name of an object in the code."""
        found = self._names.get(id(constant))
        if found is None:
            found = self._names[id(constant)] = f"c{len(self._names)}"
            self._constants[found] = constant
        return found

    def fresh(self, prefix: str) -> str:
        """A name for a variable that no other code uses."""
        self._count += 1
        return f"{prefix}_{self._count}" if prefix.isidentifier() else f"v_{self._count}"

    def item(self, container: Any, key: Any) -> str:
        """An item of a dict or list."""
        return (
            f"{self.name(container)}[{key!r}]"
            if type(key) in (str, int)
            else f"{self.name(container)}[{self.name(key)}]"
        )

    def check(self, *lines: str) -> None:
        """Add code that runs before anything is changed; what it does not find there is a change."""
        self._checks += lines

    def require(self, condition: str) -> None:
        """Add a condition, without which the function has to be traced again."""
        self.check(f"if not ({condition}): return CHANGED")

    def add(self, *lines: str) -> None:
        """Add code after the checks."""
        self._body += lines

    def made(self) -> Any:
        """The function."""
        checks = "".join(f"        {line}\n" for line in self._checks)
        body = "".join(f"    {line}\n" for line in self._body)
        text = f"def call(args):\n    try:\n{checks}    except GONE:\n        return CHANGED\n{body}"
        exec(compile(text, "<adjoint call>", "exec"), self._constants)
        return self._constants["call"]


def guard(
    caller: Caller,
    guards: Sequence[tuple[dict[Any, Any], Any, Any]],
    cells: Sequence[tuple[Any, Any]],
    grads: Sequence[tuple[Tensor, bool]],
) -> None:
    """Add the comparison of plain values in dicts, of variables, and of whether gradients are there."""
    for space, key, value in guards:
        caller.require(f"{caller.item(space, key)} is {caller.name(value)}")
    for cell, value in cells:
        caller.require(f"{caller.name(cell)}.cell_contents is {caller.name(value)}")
    for tensor, missing in grads:
        caller.require(f"{caller.name(tensor)}._grad is {'' if missing else 'not '}None")
