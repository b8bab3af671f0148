"""Why programs were compiled: `explain_recompiles`."""

from dataclasses import dataclass

from adjoint.tensor.structure import Node

__all__ = ["Compilation", "explain_recompiles", "log"]

#: Most compilations that are remembered.
_MOST = 1000


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a recorded program.

    Attributes
    ----------
    line : str
        The line of code of its last operation, as ``file:line``.
    operations : int
        Number of operations.
    seconds : float
        What building, compiling and loading it took.
    """

    line: str
    operations: int
    seconds: float


class _Log:
    def __init__(self) -> None:
        self.entries: list[Compilation] = []

    def compiled(self, node: Node, seconds: float) -> None:
        """Remember the compilation of the program that ends at a node."""
        line = next((n.value.line for n in reversed(node.path()) if n.value is not None and n.value.line), "")
        self.entries.append(Compilation(line, node.depth, seconds))
        del self.entries[:-_MOST]


log = _Log()


def explain_recompiles() -> list[Compilation]:
    """The compilations of recorded programs in this process, oldest first."""
    return list(log.entries)
