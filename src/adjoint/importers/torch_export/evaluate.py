"""Running a graph of ATen operators with adjoint's functions."""

from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.amp import autocast
from adjoint.errors import AdjointError, InvalidValueError, TypeRuleError, located
from adjoint.importers.torch_export.graph import Graph, Node, Ref
from adjoint.importers.torch_export.operators import IGNORED, operator_of
from adjoint.tensor.autograd import set_grad_enabled
from adjoint.tensor.making import from_array

__all__ = ["evaluate", "missing_operators", "refuse_missing"]

#: Operators that run a graph in a context, with the number of the context's arguments, which the graph follows.
_NESTED = {"wrap_with_set_grad_enabled": 1, "wrap_with_autocast": 4}

#: Keywords of operators that say where and how tensors are stored.
_STORAGE = frozenset({"layout", "device", "pin_memory", "memory_format", "non_blocking", "generator"})


def evaluate(graph: Graph, tensors: Mapping[str, Any], arguments: Sequence[Any]) -> Any:
    """What a graph computes.

    Parameters
    ----------
    graph : Graph
        The program.
    tensors : mapping of str to Tensor
        The parameters and buffers, which operators may change in place.
    arguments : sequence of Tensor
        The arguments of the call.

    Returns
    -------
    tree of Tensor
        The result.
    """
    given = iter(arguments)
    values: dict[str, Any] = {}
    for one in graph.inputs:
        if one.kind == "input":
            values[one.name] = next(given)
        elif one.kind == "tensor":
            values[one.name] = tensors[one.target]
        elif one.kind == "constant":
            values[one.name] = from_array(graph.constants[one.target])
    found = _run(graph, values)
    for name, ref in graph.updates:
        tensors[name].copy_(values[ref.name])
    return found


def missing_operators(graph: Graph) -> list[tuple[str, str]]:
    """The operators of a graph that adjoint does not have, each once, with the line of its first use."""
    found: dict[str, str] = {}
    graphs = [graph]
    while graphs:
        for node in graphs.pop().nodes:
            if node.op in _NESTED:
                graphs += [one for one in node.args if isinstance(one, Graph)]
            elif node.op not in IGNORED and operator_of(node.op) is None:
                found.setdefault(node.op, node.line)
    return list(found.items())


def refuse_missing(caller: str, graph: Graph) -> None:
    """Raise if a graph has operators that adjoint does not have; the message lists all.

    Raises
    ------
    InvalidValueError
        If there are any.
    """
    missing = missing_operators(graph)
    if missing:
        names = ", ".join(f"aten::{name} at {line}" if line else f"aten::{name}" for name, line in missing)
        with located(missing[0][1]):
            raise InvalidValueError(
                f"{caller}: every operator must be one that adjoint has, got {names}; write the model without them"
            )


def _run(graph: Graph, values: dict[str, Any]) -> Any:
    for node in graph.nodes:
        if node.op not in IGNORED:
            with located(node.line):
                values[node.name] = _call(node, values)
    return graph.build([_resolved(one, values) for one in graph.outputs])


def _call(node: Node, values: Mapping[str, Any]) -> Any:
    args = [_resolved(one, values) for one in node.args]
    keywords = {key: _resolved(one, values) for key, one in node.keywords.items() if key not in _STORAGE}
    nested = _NESTED.get(node.op)
    if nested is not None:
        context = set_grad_enabled(args[0]) if nested == 1 else autocast(*args[:nested])
        inner = args[nested]
        given = {one.name: value for one, value in zip(inner.inputs, args[nested + 1 :], strict=True)}
        with context:
            return _run(inner, given)
    function = operator_of(node.op)
    assert function is not None  # as `refuse_missing` has made sure
    try:
        return function(*args, **keywords)
    except AdjointError:
        raise
    except TypeError as error:
        raise TypeRuleError(
            f"from_torch: the arguments of aten::{node.op} must be ones that adjoint has, got others ({error}); "
            "call it with fewer"
        ) from error


def _resolved(given: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(given, Ref):
        return values[given.name]
    if isinstance(given, list | tuple):
        return type(given)(_resolved(one, values) for one in given)
    if isinstance(given, slice):
        return slice(*(_resolved(one, values) for one in (given.start, given.stop, given.step)))
    return given
