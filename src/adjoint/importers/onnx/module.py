"""`OnnxModule`: a graph of ONNX as a module, and `from_onnx`, which reads one."""

import re
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of, plural
from adjoint.importers.onnx.file import read_graph
from adjoint.importers.onnx.graph import Graph, Input
from adjoint.importers.onnx.layers import with_linear_layers
from adjoint.importers.onnx.plan import Plan, prepare
from adjoint.importers.onnx.roles import Roles, check_operators, roles_of
from adjoint.importers.onnx.tying import separated
from adjoint.ir import dtype_name, is_float
from adjoint.modules import Module
from adjoint.tensor.creation import tensor
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["OnnxModule", "from_onnx"]

#: What names of parameters do not contain.
_ODD = re.compile(r"[^A-Za-z0-9_]", re.ASCII)

#: The most shapes of inputs that a module remembers how to compute.
_MOST_PLANS = 64


def from_onnx(model: Any, *, trainable: Iterable[str] | None = None) -> "OnnxModule":
    """Read an ONNX model as a module that can be trained.

    Nothing of the file is executed. The module is in training mode, as new modules are; `eval` computes what the file
    describes. In training, batch normalization uses and updates statistics, and dropout drops elements, also if the
    model was exported for inference.

    Parameters
    ----------
    model : str, os.PathLike, bytes or onnx.ModelProto
        The file, its content, or an object of the package `onnx`. External data is read from the folder of the file.
    trainable : iterable of str, optional
        The names of the initializers that become parameters; other floats become buffers. Default: all floats with at
        least one axis, except for running statistics, settings of operators and masks.

    Returns
    -------
    OnnxModule
        Its parameters and buffers have the names of the initializers, with underscores in place of characters other
        than letters, digits and dots.

    Raises
    ------
    CheckpointError
        If the file is missing or damaged, or the package `onnx` is not installed.
    InvalidValueError
        If it uses operators, or settings of them, that adjoint does not read; all missing operators are listed.
    TypeRuleError
        If it uses a dtype that adjoint does not have.
    NameLookupError
        If `trainable` has a name that is not in the file.
    """
    graph = read_graph(model)
    check_operators(graph)
    graph = with_linear_layers(separated(graph))
    return OnnxModule(graph, roles_of(graph, trainable))


class _Part(Module):
    """What parameters with a common beginning of their names belong to."""


class OnnxModule(Module):
    """The graph of an ONNX model, made by `from_onnx`.

    It is called with tensors in the order of the graph's inputs, or by their names, and returns a tensor, or a tuple if
    the graph has several outputs. An axis that the file names, or leaves open, has any size.

    Attributes
    ----------
    input_names, output_names : tuple of str
        The graph's inputs and outputs.
    """

    def __init__(self, graph: Graph, roles: Roles) -> None:
        super().__init__()
        self._graph = Graph(graph.name, graph.inputs, graph.outputs, graph.nodes)
        self._constants = roles.constants
        self._plans: dict[Any, Plan] = {}
        self.input_names = tuple(given.name for given in graph.inputs)
        self.output_names = tuple(graph.outputs)
        #: For each parameter and buffer, its name in the graph, the module that has it, and its attribute there.
        self._places: list[tuple[str, Module, str]] = []
        for name, array in roles.parameters.items():
            self._add(name, Parameter(from_array(array, copy=False)))
        for name, array in roles.buffers.items():
            self._add(name, from_array(array, copy=False))

    def _add(self, name: str, value: Tensor) -> None:
        """Add a parameter or buffer, in a tree of modules that the dots in its name describe."""
        owner: Module = self
        *path, last = [_ODD.sub("_", part) or "_" for part in name.split(".")]
        for part in path:
            inner = owner._modules.get(part)
            if inner is None:
                inner = _Part()
                part = _free(owner, part)
                owner.add_module(part, inner)
            owner = inner
        last = _free(owner, last)
        if isinstance(value, Parameter):
            owner.register_parameter(last, value)
        else:
            owner.register_buffer(last, value)
        self._places.append((name, owner, last))

    def forward(self, *inputs: Any, **named: Any) -> Any:
        """The outputs of the graph.

        Raises
        ------
        TypeRuleError
            If the inputs do not fit those of the graph.
        InvalidValueError
            If a node cannot be computed for them.
        """
        values = self._arguments(inputs, named)
        key = (self.training, *((x.shape, x.dtype) for x in values.values()))
        for name, owner, attribute in self._places:
            values[name] = getattr(owner, attribute)
        plan = self._plans.get(key)
        if plan is None:
            plan, made = prepare(self._graph, self._constants, values, self.training)
            if len(self._plans) >= _MOST_PLANS:
                self._plans.pop(next(iter(self._plans)))
            self._plans[key] = plan
        else:
            made = plan.run(values)
        return made[0] if len(made) == 1 else tuple(made)

    def _arguments(self, inputs: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The inputs by their names, checked."""
        names = self.input_names
        values = dict(zip(names, inputs, strict=False))
        wrong = [name for name in named if name not in names or name in values]
        if len(inputs) > len(names) or wrong or len(values) + len(named) < len(names):
            raise TypeRuleError(
                f"{self._graph.name or 'OnnxModule'}: the inputs must be {', '.join(names) or 'none'}, got "
                f"{plural(len(inputs), 'positional one')} and {', '.join(named) or 'none'} by name; pass each once"
            )
        values |= named
        sizes: dict[str, int] = {}
        return {given.name: _fitting(given, values[given.name], sizes) for given in self._graph.inputs}

    def extra_repr(self) -> str:
        """The inputs, the outputs and the number of nodes."""
        inputs, outputs = ", ".join(self.input_names), ", ".join(self.output_names)
        return f"({inputs}) -> ({outputs}), {plural(len(self._graph.nodes), 'node')}"


def _free(owner: Module, name: str) -> str:
    """A name that is no attribute of a module yet."""
    while hasattr(owner, name):
        name += "_"
    return name


def _fitting(given: Input, x: Any, sizes: dict[str, int]) -> Any:
    """An argument as a tensor; raises unless it has the dtype and shape of its input."""
    if isinstance(x, np.ndarray):
        x = tensor(x)
    if not hasattr(x, "shape") or not hasattr(x, "dtype"):
        raise TypeRuleError(
            f"the input {given.name!r} must be a tensor, got {kind_of(x)}; convert it with adjoint.tensor"
        )
    # Floats of another width are those of a converted module.
    if x.dtype != given.dtype and not (is_float(x.dtype) and is_float(given.dtype)):
        raise TypeRuleError(
            f"the input {given.name!r} must be {dtype_name(given.dtype)}, got {dtype_name(x.dtype)}; convert it with "
            f"to({dtype_name(given.dtype)!r})"
        )
    wanted = given.shape
    if wanted is None:
        return x
    fits = len(wanted) == len(x.shape)
    for want, size in zip(wanted, x.shape, strict=False):
        known = sizes.setdefault(want, size) if isinstance(want, str) else want
        fits = fits and known in (None, size)
    if not fits:
        shown = ", ".join("?" if size is None else str(size) for size in wanted)
        raise InvalidValueError(
            f"the input {given.name!r} must have the shape [{shown}], got {list(x.shape)}; export the model with "
            "dynamic axes for other sizes"
        )
    return x
