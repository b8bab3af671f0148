"""The graph of an ONNX model as plain Python objects, after everything about its form has been checked.

Nothing of a file is executed, and no memory is allocated by the sizes that it states: a tensor's bytes must be there.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

import numpy as np

from adjoint.errors import CheckpointError, InvalidValueError, TypeRuleError
from adjoint.importers.onnx.tensors import array_of, dtype_of_code
from adjoint.lazy_dataclass import dataclass

__all__ = ["Graph", "Input", "Node", "graph_of"]

#: Kinds of attributes (``AttributeProto.AttributeType``), and how each is read; others hold graphs and types.
_ATTRIBUTES: dict[int, tuple[str, Callable[[Any], Any]]] = {
    1: ("float", lambda a: a.f),
    2: ("int", lambda a: a.i),
    3: ("str", lambda a: a.s.decode("utf-8", "replace")),
    4: ("tensor", lambda a: a.t),
    6: ("floats", lambda a: tuple(a.floats)),
    7: ("ints", lambda a: tuple(a.ints)),
    8: ("strs", lambda a: tuple(s.decode("utf-8", "replace") for s in a.strings)),
}

#: ``AttributeType.GRAPH`` and ``GRAPHS``.
_GRAPHS = (5, 10)


#: The oldest version of ONNX's operators that is read: from it on, axes of sums are inputs, and Softmax normalizes one
#: axis.
_OLDEST_OPSET = 13


@dataclass(frozen=True)
class Input:
    """An input of a graph: its name, dtype, and sizes, each an int, a name or None."""

    name: str
    dtype: np.dtype
    shape: tuple[int | str | None, ...] | None


@dataclass(frozen=True, eq=False)
class Node:
    """An operation.

    Parameters
    ----------
    op : str
        Its operator; with its domain in front of it if that is not ONNX's own.
    name : str
        Its name, or that of its first result.
    inputs, outputs : tuple of str
        Names of values; "" for one that is left out.
    attrs : mapping
        Its attributes, with the operator's defaults.
    since : int
        The version in which the operator got its present meaning; 0 for an unknown operator.
    kinds : tuple of str
        For each input, the name of its set of dtypes: inputs of the same name have the same dtype.
    """

    op: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attrs: Mapping[str, Any]
    since: int = 0
    kinds: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.op} {self.name!r}"


@dataclass
class Graph:
    """A graph whose nodes are in an order in which they can be computed.

    Parameters
    ----------
    name : str
        Its name.
    inputs : list of Input
        What a caller passes, without what has a stored value.
    outputs : list of str
        The values that it returns.
    nodes : list of Node
        The operations.
    stored : dict of str to numpy.ndarray
        The initializers.
    """

    name: str
    inputs: list[Input]
    outputs: list[str]
    nodes: list[Node]
    stored: dict[str, np.ndarray] = field(default_factory=dict)


def graph_of(model: Any, onnx: Any, folder: Path | None) -> Graph:
    """The graph of a ``ModelProto``.

    Parameters
    ----------
    model : onnx.ModelProto
        The model, whose own functions have been inlined.
    onnx : module
        The package.
    folder : Path or None
        The folder of external data.

    Raises
    ------
    CheckpointError
        If the file is damaged, or not a graph.
    InvalidValueError
        If it has another version, or a part that adjoint does not read.
    TypeRuleError
        If a dtype is unknown.
    """
    opset = _opset(model, onnx.defs.onnx_opset_version())
    proto = model.graph
    if not proto.node and not proto.output:
        raise CheckpointError(
            "from_onnx: a model must have a graph, got none; is the file complete, and a model of ONNX?"
        )
    if proto.sparse_initializer:
        raise InvalidValueError(
            "from_onnx: initializers must be dense, got a sparse one; export the model without them"
        )
    _check_text(proto)
    stored = {}
    for tensor in proto.initializer:
        if tensor.name in stored or not tensor.name:
            raise _twice("initializer", tensor.name)
        stored[tensor.name] = array_of(tensor, f"the initializer {tensor.name!r}", folder)
    inputs = [_input(given) for given in proto.input if given.name not in stored]
    nodes = [_node(proto_node, onnx, opset, folder) for proto_node in proto.node]
    outputs = [output.name for output in proto.output]
    if not outputs:
        raise CheckpointError("from_onnx: a graph must have outputs, got none; export it again")
    _check_names([given.name for given in inputs], stored, nodes, outputs)
    return Graph(proto.name, inputs, outputs, nodes, stored)


def _check_text(proto: Any) -> None:
    """Raise unless all names are text: protobuf returns bytes for what is not UTF-8."""
    names = [value.name for value in (*proto.input, *proto.output, *proto.initializer, *proto.node)]
    for node in proto.node:
        names += [node.op_type, node.domain, *node.input, *node.output, *(a.name for a in node.attribute)]
    names += [dim.dim_param for value in proto.input for dim in value.type.tensor_type.shape.dim]
    for name in (proto.name, *names):
        if not isinstance(name, str):
            raise CheckpointError(f"from_onnx: names must be text in UTF-8, got {name!r}; is the file damaged?")


def _opset(model: Any, newest: int) -> int:
    found = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    if len(found) != 1:
        raise CheckpointError(
            f"from_onnx: a model must state one version of ONNX's operators, got {found or 'none'}; is it a model of "
            "ONNX?"
        )
    if not _OLDEST_OPSET <= found[0] <= newest:
        fix = (
            "convert it with onnx.version_converter.convert_version(model, 18)"
            if found[0] < _OLDEST_OPSET
            else "upgrade the package onnx, or export it for an older version"
        )
        raise InvalidValueError(
            f"from_onnx: the version of ONNX's operators must be from {_OLDEST_OPSET} to {newest}, got "
            f"{found[0]}; {fix}"
        )
    return int(found[0])


def _input(given: Any) -> Input:
    what = f"the input {given.name!r}"
    if not given.type.HasField("tensor_type"):
        raise TypeRuleError(f"from_onnx: {what} must be a tensor, got another type; export the model with tensors")
    tensor = given.type.tensor_type
    shape = None
    if tensor.HasField("shape"):
        sizes: list[int | str | None] = []
        for dim in tensor.shape.dim:
            if dim.HasField("dim_value"):
                if dim.dim_value < 0:
                    raise CheckpointError(
                        f"from_onnx: {what} must have sizes of at least 0, got {dim.dim_value}; correct it"
                    )
                sizes.append(dim.dim_value)
            else:
                sizes.append(dim.dim_param or None)
        shape = tuple(sizes)
    return Input(given.name, dtype_of_code(tensor.elem_type, what), shape)


def _node(proto: Any, onnx: Any, opset: int, folder: Path | None) -> Node:
    name = proto.name or next(filter(None, proto.output), "")
    op = proto.op_type if proto.domain in ("", "ai.onnx") else f"{proto.domain}.{proto.op_type}"
    inputs, outputs = tuple(proto.input), tuple(proto.output)
    schema = _schema(onnx, proto.op_type, opset) if op == proto.op_type else None
    if schema is None or any(a.type in _GRAPHS for a in proto.attribute):
        return Node(op, name, inputs, outputs, {})
    what = f"{op} {name!r}"
    _check_count(what, "inputs", len(inputs), schema.min_input, schema.max_input)
    _check_count(what, "outputs", len(outputs), schema.min_output, schema.max_output)
    for n, value in enumerate(inputs[: schema.min_input]):
        if not value:
            raise CheckpointError(f"from_onnx: {what} must have its input {n}, got none; export the model again")
    attrs = _attributes(proto, schema, what, folder)
    formal = schema.inputs
    kinds = tuple(formal[min(n, len(formal) - 1)].type_str for n in range(len(inputs))) if formal else ()
    variadic = formal and formal[-1].option == onnx.defs.OpSchema.FormalParameterOption.Variadic
    if variadic and not formal[-1].is_homogeneous:
        kinds = kinds[: len(formal) - 1]
    return Node(op, name, inputs, outputs, attrs, schema.since_version, kinds)


def _schema(onnx: Any, op: str, opset: int) -> Any:
    try:
        return onnx.defs.get_schema(op, opset, "")
    except (onnx.defs.SchemaError, TypeError):  # the other one for text that is not UTF-8
        return None


def _check_count(what: str, which: str, found: int, least: int, most: int) -> None:
    if not least <= found <= most:
        raise CheckpointError(
            f"from_onnx: {what} must have from {least} to {most} {which}, got {found}; export the model again"
        )


def _attributes(proto: Any, schema: Any, what: str, folder: Path | None) -> dict[str, Any]:
    """The attributes of a node by name, and the defaults of those that it does not have."""
    found: dict[str, Any] = {}
    known = schema.attributes
    for given in proto.attribute:
        if given.name in found:
            raise _twice(f"attribute of {what}", given.name)
        if given.name not in known:
            raise InvalidValueError(
                f"from_onnx: {what} must have attributes of its operator only, got {given.name!r}; export the model "
                "again"
            )
        if given.type != int(known[given.name].type.value) or given.type not in _ATTRIBUTES:
            raise TypeRuleError(
                f"from_onnx: the attribute {given.name!r} of {what} must be of kind {known[given.name].type.name}, got "
                f"another; export the model again"
            )
        found[given.name] = _attribute(given, what, folder)
    for name, attribute in known.items():
        if attribute.required and name not in found:
            raise CheckpointError(f"from_onnx: {what} must have the attribute {name!r}; export the model again")
        default = attribute.default_value
        if name not in found and default.type in _ATTRIBUTES:
            found[name] = _attribute(default, what, folder)
    return found


def _attribute(given: Any, what: str, folder: Path | None) -> Any:
    kind, read = _ATTRIBUTES[given.type]
    value = read(given)
    return array_of(value, f"the attribute {given.name!r} of {what}", folder) if kind == "tensor" else value


def _check_names(inputs: list[str], stored: Mapping[str, Any], nodes: list[Node], outputs: list[str]) -> None:
    """Raise unless every value is made once, and before it is used."""
    for name, count in Counter(inputs).items():
        if count > 1 or not name:
            raise _twice("input", name)
    made_later = {name for node in nodes for name in node.outputs}
    known = {"", *inputs, *stored}
    for node in nodes:
        for name in node.inputs:
            if name not in known:
                raise _unknown(str(node), name, name in made_later)
        for name in filter(None, node.outputs):
            if name in known:
                raise _twice("value", name)
            known.add(name)
    for name in outputs:
        if not name or name not in known:
            raise _unknown("the result of the graph", name, False)
    for name, count in Counter(outputs).items():
        if count > 1:
            raise _twice("output", name)


def _unknown(user: str, name: str, later: bool) -> CheckpointError:
    if later:
        return CheckpointError(
            f"from_onnx: nodes must be in an order in which they can be computed, got {user} before its input "
            f"{name!r}, which may depend on it in a cycle; export the model again"
        )
    return CheckpointError(
        f"from_onnx: {user} must use values of the graph, got {name!r}, which nothing makes; export the model again"
    )


def _twice(what: str, name: str) -> CheckpointError:
    found = f"{name!r} twice" if name else "an empty one"
    return CheckpointError(f"from_onnx: each {what} must have a name of its own, got {found}; export the model again")
