"""The text of compiled programs at each stage of compilation, with the lines of the user's code."""

from collections.abc import Callable, Iterable
from functools import partial
from operator import attrgetter
from typing import Any
from weakref import WeakSet

from adjoint.compiler import host
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function
from adjoint.ir.printer import print_functions
from adjoint.pipeline import PASSES, print_passes
from adjoint.runtime.executable import Entry
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import Recorded

__all__ = ["Text", "functions", "newest_program", "stage_text"]

#: The stages besides the passes, in order.
_STAGES = ("graph", "kernels", "llvm", "asm")

_ENTRY = attrgetter("entry")

#: The functions that `jit` has made. Each has `programs`, the programs that it has compiled: tensors, number among the
#: compilations of this process, graph, what has the entry point.
functions: WeakSet[Any] = WeakSet()


class Text(str):
    """A text that an interactive session shows as it is printed."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


def stage_text(function: Function, entry: Callable[[], Entry], stage: str) -> Text:
    """The text of a program at a stage.

    Parameters
    ----------
    function : Function
        The graph that was compiled.
    entry : callable
        Returns its entry point.
    stage : str
        ``"graph"``, with the line of code of each value; ``"kernels"``, with those of each kernel; ``"llvm"``;
        ``"asm"``; or the name of a pass, for what it makes of the graph.

    Raises
    ------
    InvalidValueError
        For any other stage.
    """
    if stage == "graph":
        return Text(print_functions((function,), show_lines=True))
    if stage == "kernels":
        return Text(_kernels(entry()))
    if stage in _STAGES:
        return Text(entry().text(stage))
    if stage in PASSES:
        return Text(next(text for name, text in print_passes(function, host()) if name == stage))
    raise InvalidValueError(
        f"show: the stage must be one of {', '.join(_STAGES)}, or the name of a pass, got {stage!r}; passes are "
        f"{', '.join(PASSES)}"
    )


def _kernels(entry: Entry) -> str:
    """The kernels, each after the lines of code of what it computes."""
    parts = []
    for kernel, text in zip(entry.kernels, entry.text("kernels").split("\n\n"), strict=True):
        lines = kernel.listed_lines()
        parts.append(f"# {lines}\n{text}" if lines else text)
    return "\n\n".join(parts)


def newest_program(owner: str, tensors: Iterable[Recorded]) -> tuple[Function, Callable[[], Entry]]:
    """Of the programs in which most of some tensors took part, the one that was compiled last.

    Parameters
    ----------
    owner : str
        What the tensors belong to, for the message.
    tensors : iterable of Tensor
        The tensors.

    Raises
    ------
    TypeRuleError
        If they took part in none.
    """
    wanted = list(tensors)
    found = [*_recorded(wanted), *_compiled(wanted)]
    if not found:
        raise TypeRuleError(
            f"show: {owner} must have taken part in a program, got no program with its parameters; read a result "
            "first, or pass example inputs"
        )
    _, _, function, entry = max(found, key=lambda one: one[:2])
    return function, entry


def _recorded(tensors: list[Recorded]) -> Iterable[tuple[int, int, Function, Callable[[], Entry]]]:
    """The recorded programs that continue from where the tensors were used last, and how many of these are in each."""
    starts = {_start(tensor) for tensor in tensors} - {None}
    counts = {node: sum(_start(tensor) is node for tensor in tensors) for node in starts}
    stack: list[Any] = list(starts)
    seen = set(stack)
    while stack:
        node = stack.pop()
        for plan in (node.plans or {}).values():
            if plan is not None:
                count = sum(counts.get(one, 0) for one in node.path())
                yield count, plan.number, plan.function, partial(_ENTRY, plan)
        new = [child for child in node.children.values() if child not in seen]
        seen.update(new)
        stack += new


def _start(tensor: Recorded) -> Node | None:
    """The entry of a program at which a tensor entered it, or got its value."""
    node: Node | None = tensor.__dict__.get("_node")
    if node is not None and node.key is None and node.parent is not None:  # one of several results
        return node.parent
    return node


def _compiled(tensors: list[Recorded]) -> Iterable[tuple[int, int, Function, Callable[[], Entry]]]:
    """The programs of compiled functions that use the tensors."""
    wanted = {id(tensor) for tensor in tensors}
    for function in list(functions):
        for used, number, graph, made in function.programs():
            count = sum(id(tensor) in wanted for tensor in used)
            if count:
                yield count, number, graph, partial(_ENTRY, made)
