"""Reading the program that ``torch.export`` returns as a `Graph`."""

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.importers.torch_export.arrays import as_array, dtype_from
from adjoint.importers.torch_export.graph import Graph, Input, Node, Outputs, Ref

__all__ = ["read", "read_nodes"]

#: Kinds of inputs, by the names of PyTorch's enumeration.
_KINDS = {"USER_INPUT": "input", "PARAMETER": "tensor", "BUFFER": "tensor", "CONSTANT_TENSOR": "constant"}

#: Operators that make tensors, of a dtype that may be that of `torch.get_default_dtype`.
_CREATION = ("arange", "empty", "full", "linspace", "ones", "rand", "randn", "scalar_tensor", "zeros", "eye")

_LINE = re.compile(r'File "([^"]+)", line (\d+)')


def read(torch: Any, program: Any) -> Graph:
    """The graph of an exported program.

    Parameters
    ----------
    torch : module
        PyTorch.
    program : torch.export.ExportedProgram
        What it exported.
    """
    module = program.graph_module
    signature = program.graph_signature
    kinds = {spec.arg.name: spec for spec in signature.input_specs}
    constants: dict[str, np.ndarray] = {}
    inputs: list[Input] = []
    for node in module.graph.nodes:
        if node.op == "placeholder":
            inputs.append(_input(torch, program, node, kinds[node.name], constants))
    nodes, leaves = read_nodes(torch, module, constants, inputs)
    values = {node.name: node.meta.get("val") for node in module.graph.nodes}
    outputs: list[Any] = []
    updates: list[tuple[str, Ref]] = []
    for spec, leaf in zip(signature.output_specs, leaves, strict=True):
        if spec.kind.name == "USER_OUTPUT":
            outputs.append(leaf)
        elif spec.kind.name == "BUFFER_MUTATION":
            updates.append((spec.target, leaf))
    ranges = {str(name): _range(one) for name, one in program.range_constraints.items()}
    structure = program.call_spec.out_spec
    build = _builder(structure)
    # Numbers in place of sizes among the results, and None in place of tensors.
    numbers = [_number(torch, values.get(one.name)) if isinstance(one, Ref) else one for one in outputs]
    form = (structure, tuple(isinstance(one, Ref) for one in outputs), tuple(numbers))
    return Graph(tuple(inputs), tuple(nodes), tuple(outputs), build, constants, ranges, tuple(updates), form)


def _number(torch: Any, value: Any) -> Any:
    return None if value is None or isinstance(value, torch.Tensor) else value.node.hint


def _range(one: Any) -> tuple[int, int | None]:
    most = None if "oo" in str(one.upper) else int(one.upper)
    return int(one.lower), most


def _input(torch: Any, program: Any, node: Any, spec: Any, constants: dict[str, np.ndarray]) -> Input:
    kind = _KINDS.get(spec.kind.name)
    value = node.meta.get("val")
    if kind is None or (kind != "input" and not isinstance(value, torch.Tensor)):
        raise InvalidValueError(
            f"from_torch: what a module uses must be tensors, got {spec.kind.name.lower()} {spec.target}; make it a "
            "buffer"
        )
    if kind == "tensor":
        return Input(node.name, kind, spec.target)
    if kind == "constant":
        constants[spec.target] = as_array(program.constants[spec.target])
        return Input(node.name, kind, spec.target)
    if not isinstance(value, torch.Tensor):
        return Input(node.name, "fixed")
    shape = tuple(size if isinstance(size, int) else _size(size) for size in value.shape)
    return Input(node.name, kind, "", shape, dtype_from(torch, value.dtype))


def _size(size: Any) -> str | int:
    """The name of a size, or its value in the example if it is computed from others."""
    expression = size.node.expr
    return str(expression) if expression.is_Symbol else int(size.node.hint)


def read_nodes(
    torch: Any, module: Any, constants: dict[str, np.ndarray], inputs: list[Input]
) -> tuple[list[Node], list[Any]]:
    """The operations of a graph of PyTorch, and the leaves of its result; constants that it has are added as inputs."""
    nodes: list[Node] = []
    leaves: list[Any] = []
    graphs: dict[str, Graph] = {}

    def converted(one: Any) -> Any:
        return _argument(torch, one, graphs)

    for node in module.graph.nodes:
        if node.op == "get_attr":
            found = _attribute(module, node.target)
            if isinstance(found, torch.nn.Module):
                graphs[node.name] = _nested(torch, found, constants)
            else:
                constants[node.name] = as_array(found)
                inputs.append(Input(node.name, "constant", node.name))
        elif node.op == "call_function":
            args, keywords = _positional(node)
            line = _line_of(node.meta.get("stack_trace"))
            op = _name_of(torch, node.target)
            made = {key: converted(one) for key, one in keywords.items()}
            value = node.meta.get("val")
            if op.partition(".")[0] in _CREATION and made.get("dtype") is None and isinstance(value, torch.Tensor):
                made["dtype"] = dtype_from(torch, value.dtype)
            nodes.append(Node(node.name, op, tuple(converted(one) for one in args), made, line))
        elif node.op == "output":
            leaves = [converted(one) for one in torch.utils._pytree.tree_leaves(node.args[0], is_leaf=_is_none)]
    return nodes, leaves


def _is_none(one: Any) -> bool:
    return one is None


def _nested(torch: Any, module: Any, constants: dict[str, np.ndarray]) -> Graph:
    inputs = [Input(node.name) for node in module.graph.nodes if node.op == "placeholder"]
    nodes, leaves = read_nodes(torch, module, constants, inputs)
    return Graph(tuple(inputs), tuple(nodes), tuple(leaves), tuple)


def _attribute(module: Any, target: str) -> Any:
    for name in target.split("."):
        module = getattr(module, name)
    return module


def _positional(node: Any) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a node, with those that may be given by position so."""
    args, keywords = list(node.args), dict(node.kwargs)
    schema = getattr(node.target, "_schema", None)
    if schema is None or not keywords:
        return args, keywords
    names = [one for one in schema.arguments if not one.kwarg_only][len(args) :]
    while names and any(one.name in keywords for one in names):
        one = names.pop(0)
        args.append(keywords.pop(one.name, one.default_value))
    return args, keywords


def _argument(torch: Any, given: Any, graphs: Mapping[str, Graph]) -> Any:
    if isinstance(given, torch.fx.Node):
        return graphs[given.name] if given.name in graphs else Ref(given.name)
    if isinstance(given, list | tuple):
        items = [_argument(torch, one, graphs) for one in given]
        return tuple(items) if isinstance(given, tuple) else items
    if isinstance(given, slice):
        return slice(*(_argument(torch, one, graphs) for one in (given.start, given.stop, given.step)))
    if isinstance(given, torch.dtype):
        return dtype_from(torch, given)
    if isinstance(given, torch.device | torch.layout | torch.memory_format):
        return str(given)
    if isinstance(given, torch.SymInt):
        return int(given)
    return given


def _name_of(torch: Any, target: Any) -> str:
    """The name of an operator: of ATen without its prefix, of others with theirs."""
    if isinstance(target, torch._ops.OpOverload):
        space, _, name = str(target).partition(".")
        return name if space == "aten" else f"{space}::{name}"
    if isinstance(target, torch._ops.HigherOrderOperator):
        return str(target)
    name = getattr(target, "__name__", str(target))
    return f"py.{name}"


def _line_of(trace: str | None) -> str:
    """The innermost line of a stack outside of PyTorch, as ``file:line``."""
    found = [(name, line) for name, line in _LINE.findall(trace or "") if "/torch/" not in name.replace("\\", "/")]
    return ":".join(found[-1]) if found else ""


def _builder(spec: Any) -> Callable[[list[Any]], Any]:
    """What makes a result of PyTorch's structure from its leaves."""

    def build(leaves: list[Any]) -> Any:
        rest = iter(leaves)
        return _built(spec, rest)

    return build


def _built(spec: Any, leaves: Any) -> Any:
    if spec.is_leaf():
        return next(leaves)
    kind, context = spec.type, spec.context
    items = [_built(child, leaves) for child in spec.children()]
    if kind in (list, tuple):
        return kind(items)
    if isinstance(kind, type) and issubclass(kind, tuple):
        return tuple(items)
    if kind is dict:
        return dict(zip(context, items, strict=True))
    names = _field_names(kind, context, len(items))
    return tuple(items) if names is None else Outputs(zip(names, items, strict=True))


def _field_names(kind: Any, context: Any, count: int) -> list[str] | None:
    """The names of the fields of an object, of which PyTorch knows only how to take it apart."""
    for one in (context, *(context if isinstance(context, list | tuple) else ())):
        if isinstance(one, list | tuple) and len(one) == count and all(isinstance(name, str) for name in one):
            return list(one)
    if is_dataclass(kind):
        names = [one.name for one in fields(kind)]
        return names if len(names) == count else None
    return None
