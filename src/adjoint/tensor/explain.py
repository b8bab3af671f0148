"""Why programs were compiled: `explain_recompiles`, and the messages of the logger "adjoint"."""

import logging
from collections.abc import Hashable

from adjoint.errors import is_user_line, located, plural, warn
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.structure import Node, Spec

__all__ = ["Compilation", "Compilations", "explain_recompiles", "log"]

#: Announces every compilation, at the level INFO.
_logger = logging.getLogger("adjoint")

#: Most compilations that are remembered.
_MOST = 1000

#: Number of programs that differ at the same place from which on there is a warning.
_MANY = 16


@dataclass(frozen=True, slots=True)
class Compilation:
    """One compilation of a recorded program.

    Attributes
    ----------
    reason : str
        What was different from the programs before.
    line : str
        The line of code of that operation, as ``file:line``; "" if unknown.
    operations : int
        Number of operations of the program.
    seconds : float
        What building, compiling and loading it took.
    """

    reason: str
    line: str
    operations: int
    seconds: float


class Compilations(list[Compilation]):
    """Compilations, oldest first, that print as a table."""

    def __repr__(self) -> str:
        if not self:
            return "nothing has been compiled"
        rows = [f"{c.seconds:8.3f} s  {c.reason}{f'  [at {c.line}]' if c.line else ''}" for c in self]
        return "\n".join([*rows, f"{sum(c.seconds for c in self):8.3f} s  in {plural(len(self), 'compilation')}"])


class _Log:
    """The compilations of this process."""

    def __init__(self) -> None:
        self.entries: list[Compilation] = []
        #: Number of compilations, including those that are not remembered any more.
        self.count = 0
        self._warned: set[str] = set()

    def compiled(self, node: Node, seconds: float, function: str = "") -> int:
        """Remember and announce the compilation of the program that ends at a node.

        Parameters
        ----------
        node : Node
            The last node of the program.
        seconds : float
            What the compilation took.
        function : str, default ""
            The name of the function whose trie of its own the node is in.

        Returns
        -------
        int
            The number of compilations so far.
        """
        reason, line, others = _difference(node, own=bool(function))
        self.entries.append(Compilation(reason, line, node.depth, seconds))
        self.count += 1
        del self.entries[:-_MOST]
        if _logger.isEnabledFor(logging.INFO):
            where = f" [at {line}]" if line else ""
            what = function or plural(node.depth, "operation")
            _logger.info("compiled %s in %.3f s, because %s%s", what, seconds, reason, where)
        if others >= _MANY and line not in self._warned:
            self._warned.add(line)
            with located(line):
                warn(
                    f"{plural(others + 1, 'program')} were compiled that differ at the same place, the last because "
                    f"{reason}; keep shapes and numbers equal, or see adjoint.explain_recompiles()"
                )
        return self.count


log = _Log()


def explain_recompiles() -> Compilations:
    """The compilations of recorded programs in this process, oldest first: reason, line and seconds.

    Printing the result shows a table. In a training loop, everything is compiled in its first iterations; whatever
    comes later is caused by something that changes, such as a shape. The logger "adjoint" announces each one when it
    happens, at the level INFO: ``logging.basicConfig(level=logging.INFO)`` shows it.
    """
    return Compilations(log.entries)


def _difference(node: Node, own: bool = False) -> tuple[str, str, int]:
    """How a program differs from earlier ones, the line where it does, and the number of others of that line.

    The first tensor that enters counts only in the `own` trie of a function; otherwise unrelated programs begin there.
    """
    if node.plans is not None and len(node.plans) > 1:
        return "other results of the same operations are in use", _line(node), len(node.plans) - 1
    path = node.path()
    for one in reversed(path):
        if one.parent is None:
            break
        others = [other for other in one.parent.children.values() if other is not one]
        older = [other for other in others if _order(one.parent, other) < _order(one.parent, one)]
        if older and (own or one.parent.parent is not None):
            line = _line(one)
            return _change(one, older[-1]), line or _line(node), sum(_line(other) == line for other in older)
    first = path[1] if len(path) > 1 else node
    return "it is the first program of its kind", _line(first) or _line(node), 0


def _order(parent: Node, child: Node) -> int:
    """The position of a child in the order in which children were added; the last for one that has been forgotten."""
    children = parent.children.values()
    return next((n for n, other in enumerate(children) if other is child), len(children))


def _line(node: Node) -> str:
    """The line of the user's code that recorded a node first; for an update, that of what came before it."""
    at: Node | None = node
    while at is not None:
        for one in (at, *at.items, *(new for _, new in at.rebinds)):
            if one.value is not None and one.value.line and is_user_line(one.value.line):
                return one.value.line
        at = at.parent
    return ""


def _change(new: Node, old: Node) -> str:
    """What differs between two continuations of the same program."""
    if isinstance(new.key, Spec) and isinstance(old.key, Spec):
        name = new.graph.label
        if new.key.type != old.key.type:
            return f"tensor {name} is {new.key.type} and was {old.key.type}"
        return f"tensor {name} {'requires' if new.key.requires_grad else 'does not require'} a gradient, unlike before"
    if isinstance(new.key, tuple) and isinstance(old.key, tuple) and new.key[0] is old.key[0]:
        static = [(a, b) for a, b in zip(new.key, old.key, strict=False) if a != b and not isinstance(a, Node)]
        if static:
            return f"an argument of {_name(new.key)} is {static[0][0]!r} and was {static[0][1]!r}"
        return f"{_name(new.key)} has other operands"
    return f"{_name(new.key)} comes where {_name(old.key)} came before"


def _name(key: Hashable) -> str:
    """What a key stands for, in words."""
    if isinstance(key, Spec):
        return f"a tensor of type {key.type}"
    first = key[0] if isinstance(key, tuple) else key
    return str(getattr(first, "name", first)).strip("_")
