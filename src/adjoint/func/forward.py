"""Forward mode of functions that have no reverse mode, because a `while_loop` is on the way.

`adjoint.jvp` transposes the reverse derivative, which lets the function read values. Where there is none, the function
is traced here, and its graph differentiated in forward mode (`adjoint.transforms.jvp`).
"""

from collections.abc import Callable, Sequence
from typing import Any

from adjoint.func.tracing import Tracing, applied, function_of, refuse_changes, sources, traced
from adjoint.func.tree import Structure, tree_flatten, tree_unflatten
from adjoint.ir import is_float
from adjoint.tensor.record import record
from adjoint.tensor.structure import Node, Operation
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import growing, lock
from adjoint.transforms.jvp import jvp

__all__ = ["forward_derivatives"]


def forward_derivatives(
    function: Callable[..., Any],
    structure: Structure,
    primals: Sequence[Tensor],
    tangents: Sequence[Tensor],
    has_aux: bool,
) -> list[Tensor | None]:
    """The tangents of what a function returns, one for each leaf; None for those that are no floats.

    Parameters
    ----------
    function : callable
        Takes trees of tensors, returns one; with `has_aux`, a pair of which only the first item counts.
    structure : Structure
        Of the tuple of its arguments.
    primals, tangents : sequence of Tensor
        Their leaves, and the direction.
    has_aux : bool
        Whether it returns a pair.
    """
    with lock, traced(Tracing(growing.root)) as trace:
        examples = [trace.example(x._spec.type, label=x._label) for x in primals]
        found = function(*tree_unflatten(structure, examples))
        refuse_changes("jvp", trace)
        leaves, _ = tree_flatten(found[0] if has_aux else found)
        wanted = [trace.operand(leaf) for leaf in leaves]
        number = {id(example): n for n, example in enumerate(examples)}
        entry, places, chosen = _entry(trace, wanted, number)
        operands = sources(trace, places, {id(e): x for e, x in zip(examples, primals, strict=True)})
    results = record(entry, [*operands, *(tangents[n] for n in chosen)])
    following = iter(results[len(leaves) :])
    return [next(following) if is_float(leaf.dtype) else None for leaf in leaves]


def _entry(
    trace: Tracing, wanted: Sequence[Node], number: dict[int, int]
) -> tuple[Operation, list[int], tuple[int, ...]]:
    """The operation that computes results and tangents, the positions of its operands, and the tangents it takes."""
    chosen = tuple(number.get(id(tensor)) for tensor in trace.entered)
    key = ("jvp", *wanted, chosen)
    node = trace.node.children.get(key)
    if node is None:
        plain, places = function_of(trace, wanted, "function")
        numbers = [chosen[place] for place in places]
        pairs = [(p.label, n) for p, n in zip(plain.params, numbers, strict=True) if n is not None]
        floats = [n for n, result in enumerate(plain.results) if is_float(result.dtype)]
        derived = jvp(plain, [label for label, _ in pairs], floats)
        node = Node(trace.node)
        node.made = Operation(applied(derived), numbers=False), places, tuple(n for _, n in pairs)
        node = trace.node.child(key, node)
    made: tuple[Operation, list[int], tuple[int, ...]] = node.made
    return made
