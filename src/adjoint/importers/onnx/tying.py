"""Which stored values of a graph are one parameter: exporters merge equal values, and transpose tied ones."""

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from adjoint.importers.onnx.graph import Graph, Node
from adjoint.importers.onnx.operators import OPERATORS
from adjoint.ir import is_float

__all__ = ["separated"]


def separated(graph: Graph) -> Graph:
    """The graph with a stored value for each parameter of the program that was exported.

    Exporters store equal values once, so that all weights of new layer normalizations would be tied; then several nodes
    use one value, or copies of it that Identity makes. A value whose elements are all equal therefore becomes one for
    each use. Others are equal because they are tied, as the weights of an embedding and of a head are, and remain so.
    If one of these was stored transposed, it is replaced by the transpose of the other.
    """
    return _with_transposes(_with_copies(_without_identities(graph)))


def _is_uniform(array: np.ndarray) -> bool:
    return is_float(array.dtype) and array.ndim > 0 and array.size > 1 and bool((array == array.flat[0]).all())


def _without_identities(graph: Graph) -> Graph:
    stored, nodes = dict(graph.stored), []
    renamed: dict[str, str] = {}
    for node in graph.nodes:
        node = _with_inputs(node, renamed)
        source = node.inputs[0] if node.op == "Identity" else ""
        if source not in stored or node.outputs[0] in graph.outputs:
            nodes.append(node)
        elif _is_uniform(stored[source]):
            stored[node.outputs[0]] = stored[source].copy()
        else:
            renamed[node.outputs[0]] = source
    return replace(graph, nodes=nodes, stored=stored)


def _with_inputs(node: Node, renamed: Mapping[str, str]) -> Node:
    if not any(name in renamed for name in node.inputs):
        return node
    return replace(node, inputs=tuple(renamed.get(name, name) for name in node.inputs))


def _with_copies(graph: Graph) -> Graph:
    """A value for each use of one whose elements are all equal, with numbers appended to its name."""
    uses = Counter(name for node in graph.nodes for name in set(node.inputs))
    shared = {name for name, array in graph.stored.items() if uses[name] > 1 and _is_uniform(array)}
    stored, nodes, made = dict(graph.stored), [], Counter[str]()
    taken = {*stored, *(name for node in graph.nodes for name in node.outputs)}
    for node in graph.nodes:
        renamed = {}
        for number, name in enumerate(node.inputs):
            if name not in shared or number in OPERATORS[node.op].known or name in renamed:
                continue
            made[name] += 1
            own = name if made[name] == 1 else f"{name}_{made[name]}"
            if own != name and own not in taken:
                stored[own] = stored[name].copy()
                renamed[name] = own
        nodes.append(_with_inputs(node, renamed))
    return replace(graph, nodes=nodes, stored=stored)


def _with_transposes(graph: Graph) -> Graph:
    """Transposes in place of stored matrices that are the transpose of another one, which has other users."""
    users: dict[str, set[str]] = defaultdict(set)
    for node in graph.nodes:
        for name in node.inputs:
            users[name].add(node.op)
    matrices = {n: a for n, a in graph.stored.items() if is_float(a.dtype) and a.ndim == 2 and not _is_uniform(a)}
    tables = [name for name in matrices if "Gather" in users[name]]
    stored, nodes = dict(graph.stored), []
    for name, array in matrices.items():
        if users[name] != {"MatMul"}:
            continue
        for table in tables:
            if matrices[table].shape == array.shape[::-1] and np.array_equal(matrices[table].T, array):
                nodes.append(Node("Transpose", name, (table,), (name,), {"perm": (1, 0)}, 13))
                del stored[name]
                break
    return replace(graph, nodes=[*nodes, *graph.nodes], stored=stored)
