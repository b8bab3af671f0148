"""Operators that adjoint does not have, as those of which PyTorch says that they consist."""

from dataclasses import replace
from typing import Any

from adjoint.importers.torch_export.graph import Graph, Node, Ref
from adjoint.importers.torch_export.operators import IGNORED, operator_of
from adjoint.importers.torch_export.reading import read_nodes

__all__ = ["decompose"]


def decompose(torch: Any, traced: Any, graph: Graph) -> Graph:
    """A graph without the operators that adjoint does not have, where PyTorch can express them by others.

    Parameters
    ----------
    torch : module
        PyTorch.
    traced : torch.fx.Graph
        A graph of PyTorch without sizes that vary.
    graph : Graph
        What was read from it.
    """
    theirs = {node.name: node for node in traced.nodes}
    nodes: list[Node] = []
    constants, inputs = dict(graph.constants), list(graph.inputs)
    for node in graph.nodes:
        known = node.op in IGNORED or operator_of(node.op) is not None or node.name not in theirs
        parts = None if known else _parts(torch, theirs[node.name], node, constants, inputs)
        nodes += [node] if parts is None else parts
    return replace(graph, inputs=tuple(inputs), nodes=tuple(nodes), constants=constants)


def _parts(torch: Any, theirs: Any, node: Node, constants: dict[str, Any], inputs: list[Any]) -> list[Node] | None:
    """The operations that one consists of; None if PyTorch has no decomposition or it cannot be traced."""
    if not isinstance(theirs.target, torch._ops.OpOverload):
        return None
    tree = torch.utils._pytree
    leaves, structure = tree.tree_flatten((theirs.args, theirs.kwargs))
    places = [n for n, leaf in enumerate(leaves) if isinstance(leaf, torch.fx.Node)]
    values = [leaves[n].meta.get("val") for n in places]
    if not all(isinstance(one, torch.Tensor) for one in values):
        return None

    def called(*tensors: Any) -> Any:
        given = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            given[place] = tensor
        args, keywords = tree.tree_unflatten(given, structure)
        return theirs.target(*args, **keywords)

    table = {
        op: function
        for op, function in torch._decomp.decomposition_table.items()
        if not _is_known(str(op)) or op is theirs.target
    }
    try:
        traced = torch.fx.experimental.proxy_tensor.make_fx(called, decomposition_table=table)(*values)
    except Exception:  # whatever a decomposition raises, the operator is reported as one that is missing
        return None
    names = {one.name: leaves[place].name for one, place in zip(_placeholders(traced), places, strict=True)}
    found, results = read_nodes(torch, traced, constants, inputs)
    if any(operator_of(one.op) is None for one in found if one.op not in IGNORED):
        return None  # then the message names the operator that the model calls
    made = [_renamed(one, names, node) for one in found]
    last = [_reference(one, names, node.name) for one in results]
    several = isinstance(theirs.meta.get("val"), list | tuple)
    return [*made, Node(node.name, "py.gathered" if several else "alias.default", tuple(last), {}, node.line)]


def _is_known(op: str) -> bool:
    space, _, name = op.partition(".")
    return space == "aten" and operator_of(name) is not None


def _placeholders(module: Any) -> list[Any]:
    return [node for node in module.graph.nodes if node.op == "placeholder"]


def _renamed(one: Node, names: dict[str, str], whole: Node) -> Node:
    args = tuple(_reference(arg, names, whole.name) for arg in one.args)
    keywords = {key: _reference(arg, names, whole.name) for key, arg in one.keywords.items()}
    return Node(f"{whole.name}/{one.name}", one.op, args, keywords, whole.line)


def _reference(given: Any, names: dict[str, str], prefix: str) -> Any:
    if isinstance(given, Ref):
        return Ref(names[given.name]) if given.name in names else Ref(f"{prefix}/{given.name}")
    if isinstance(given, list | tuple):
        return type(given)(_reference(one, names, prefix) for one in given)
    return given
