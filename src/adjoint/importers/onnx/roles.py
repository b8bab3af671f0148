"""What the stored values of a graph are: parameters, buffers, or constants that computations of shapes need."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import field

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, listed
from adjoint.importers.onnx.graph import Graph, Node
from adjoint.importers.onnx.operators import OPERATORS
from adjoint.ir import is_float
from adjoint.lazy_dataclass import dataclass

__all__ = ["Roles", "check_operators", "roles_of"]

#: Operators that choose at run time what is computed.
_CONTROL = frozenset({"If", "Loop", "Scan", "SequenceMap"})

#: Operators whose result depends on the shape of the input only.
_OF_SHAPES = frozenset({"Shape", "Size"})

#: What PyTorch calls running statistics, also where a normalization has been decomposed.
_STATISTICS = frozenset({"running_mean", "running_var"})

#: A mask adds at least this fraction of the least number of its dtype to a score that must not count.
_MASK = 0.9


@dataclass
class Roles:
    """The stored values by what they are.

    Parameters
    ----------
    parameters : dict of str to numpy.ndarray
        What is trained.
    buffers : dict of str to numpy.ndarray
        What is not, but belongs to the state: running statistics, and integers that computations read.
    constants : dict of str to numpy.ndarray
        The rest, which is part of the program.
    """

    parameters: dict[str, np.ndarray] = field(default_factory=dict)
    buffers: dict[str, np.ndarray] = field(default_factory=dict)
    constants: dict[str, np.ndarray] = field(default_factory=dict)


def check_operators(graph: Graph) -> None:
    """Raise unless there is a rule for every operator, with the complete list of those without one.

    Raises
    ------
    InvalidValueError
        With the names.
    """
    unknown = sorted({node.op for node in graph.nodes if node.op not in OPERATORS or not node.since})
    if not unknown:
        return
    control = [op for op in unknown if op in _CONTROL]
    fix = (
        f"{' and '.join(control)} choose at run time what is computed: export the model by tracing, with fixed choices"
        if control
        else "export the model with other operators, or for a newer version of ONNX's operators"
    )
    raise InvalidValueError(
        f"from_onnx: the operators of a model must be among the {len(OPERATORS)} that adjoint reads, got "
        f"{', '.join(op if op.isprintable() else repr(op) for op in unknown)}; {fix}"
    )


def roles_of(graph: Graph, trainable: Iterable[str] | None) -> Roles:
    """What the stored values are.

    Parameters
    ----------
    graph : Graph
        The graph, all of whose operators have rules.
    trainable : iterable of str, optional
        The names of the parameters; default: all floats that have an axis, except for statistics, settings such as
        scales of resizing, and masks.

    Raises
    ------
    NameLookupError
        If there is no such float among the stored values.
    """
    chosen = None if trainable is None else _chosen(graph, trainable)
    uses: dict[str, list[tuple[Node, int]]] = defaultdict(list)
    for node in graph.nodes:
        for number, name in enumerate(node.inputs):
            uses[name].append((node, number))
    needed = _needed(graph)
    roles = Roles()
    for name, array in graph.stored.items():
        statistics = name.rpartition(".")[2] in _STATISTICS and chosen is None and name not in needed
        if statistics or any(number in OPERATORS[node.op].states for node, number in uses[name]):
            roles.buffers[name] = array
        elif not uses[name] and name not in graph.outputs:
            continue
        elif name in needed or not is_float(array.dtype):
            roles.constants[name] = array
        elif chosen is not None:
            (roles.parameters if name in chosen else roles.buffers)[name] = array
        else:
            (roles.parameters if _is_weight(array) else roles.constants)[name] = array
    _find_integer_buffers(graph, uses, needed, roles)
    return roles


def _chosen(graph: Graph, trainable: Iterable[str]) -> frozenset[str]:
    names = [trainable] if isinstance(trainable, str) else list(trainable)
    floats = [name for name, array in graph.stored.items() if is_float(array.dtype)]
    for name in names:
        if name not in floats:
            raise NameLookupError(
                f"from_onnx: trainable must name float initializers, got {name!r}; there are {listed(floats)}"
            )
    return frozenset(names)


def _is_weight(array: np.ndarray) -> bool:
    """Whether a float may be a weight, and is no constant of a formula and no mask."""
    if not array.ndim or not array.size:
        return False
    least = float(np.finfo(np.float32 if array.dtype.itemsize == 2 else array.dtype).min)
    found = float(array.min())
    return bool(np.isfinite(found)) and found > _MASK * least


def _needed(graph: Graph) -> set[str]:
    """The values that must be known before a graph runs, and those that they are computed from."""
    made_by = {name: node for node in graph.nodes for name in node.outputs if name}
    needed: set[str] = set()
    stack = [node.inputs[n] for node in graph.nodes for n in OPERATORS[node.op].known if n < len(node.inputs)]
    while stack:
        name = stack.pop()
        if not name or name in needed:
            continue
        needed.add(name)
        node = made_by.get(name)
        if node is not None and node.op not in _OF_SHAPES:
            stack.extend(node.inputs)
    return needed


def _find_integer_buffers(
    graph: Graph, uses: Mapping[str, list[tuple[Node, int]]], needed: set[str], roles: Roles
) -> None:
    """Make buffers of the integers and bools that are only read by what runs with the graph."""
    known = set(roles.constants)
    for node in graph.nodes:
        if node.op in _OF_SHAPES or (
            OPERATORS[node.op].fold is not None and all(name in known for name in node.inputs if name)
        ):
            known.update(node.outputs)
    for name in list(roles.constants):
        if name in needed or is_float(roles.constants[name].dtype):
            continue
        if not any(all(other in known for other in node.inputs if other) for node, _ in uses[name]):
            roles.buffers[name] = roles.constants.pop(name)
