"""A graph prepared for inputs of certain shapes: computations of shapes are done, and what is left are operations.

Shapes are known when operations are recorded, so everything that depends on shapes only (the chains of Shape, Gather,
Concat and Reshape that exporters write) is computed once with NumPy, and the steps get the results.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from math import prod
from typing import Any

import numpy as np

from adjoint.errors import AdjointError, IndexRangeError, InvalidValueError, TypeRuleError
from adjoint.importers.onnx.graph import Graph, Node
from adjoint.importers.onnx.operators import OPERATORS, Rule, as_tensor
from adjoint.importers.onnx.operators.base import room
from adjoint.ir import dtype_name, is_float
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.shapes import broadcast_to

__all__ = ["Plan", "prepare"]

#: Most elements of a tensor: 8 GB of f32.
_MOST = 1 << 31


@dataclass(frozen=True, slots=True)
class Step:
    """An operation: its function, arguments, which of them are values by name, and the names of its results."""

    function: Callable[..., Any]
    arguments: list[Any]
    values: tuple[tuple[int, str], ...]
    results: tuple[str, ...]


@dataclass
class Plan:
    """The operations of a graph for inputs of certain shapes, in order."""

    steps: list[Step] = field(default_factory=list)
    outputs: tuple[str, ...] = ()
    #: Values that do not depend on the elements of inputs and parameters.
    known: dict[str, Any] = field(default_factory=dict)

    def run(self, values: dict[str, Any]) -> list[Any]:
        """The results, given the inputs, parameters and buffers by name, to which values are added."""
        for step in self.steps:
            arguments = step.arguments.copy()
            for place, name in step.values:
                arguments[place] = values[name]
            made = step.function(*arguments)
            if isinstance(made, tuple):
                values.update(zip(step.results, made, strict=False))
            else:
                values[step.results[0]] = made
        return self.results(values)

    def results(self, values: Mapping[str, Any]) -> list[Any]:
        """The values that the graph returns."""
        return [values[name] if name in values else as_tensor(self.known[name]) for name in self.outputs]


def prepare(
    graph: Graph, constants: Mapping[str, np.ndarray], values: dict[str, Any], training: bool
) -> tuple[Plan, list[Any]]:
    """The plan for the given inputs, parameters and buffers, and its results for them.

    Raises
    ------
    InvalidValueError, TypeRuleError
        With the node, if it does not fit its inputs.
    """
    plan = Plan(outputs=tuple(graph.outputs), known=dict(constants))
    for node in graph.nodes:
        try:
            _add(plan, node, OPERATORS[node.op], values, training)
        except AdjointError as error:
            raise _located(node, error) from error
        except Exception as error:  # a node of a damaged file, in a way that its rule does not expect
            raise InvalidValueError(
                f"from_onnx: {node} must have inputs and attributes that fit each other, got an error of "
                f"{type(error).__name__} ({str(error).splitlines()[0] if str(error) else 'no message'}); check the "
                "file with onnx.checker.check_model"
            ) from error
    return plan, plan.results(values)


def _located(node: Node, error: AdjointError) -> AdjointError:
    """The error with the node that it is about."""
    if error.message.startswith("from_onnx:"):
        return error
    for kind in (TypeRuleError, IndexRangeError, InvalidValueError):
        if type(error) is kind:
            return kind(f"from_onnx: {node}: {error.message}")
    return error


def _add(plan: Plan, node: Node, rule: Rule, values: dict[str, Any], training: bool) -> None:
    """Compute a node, and add a step to the plan unless its results are known."""
    inputs = [None if not name else values[name] if name in values else plan.known[name] for name in node.inputs]
    _check_dtypes(node, inputs)
    if rule.fold is not None and all(x is None or isinstance(x, np.ndarray) for x in inputs):
        room(node, _largest(inputs))
        with np.errstate(all="ignore"):
            made = rule.fold(node, *inputs)
        _store(node, made, plan.known, np.asarray)
        return
    arguments: list[Any] = []
    names: list[tuple[int, str]] = []
    for number, (name, x) in enumerate(zip(node.inputs, inputs, strict=True)):
        if number in rule.known and not (x is None or isinstance(x, np.ndarray)):
            raise InvalidValueError(
                f"from_onnx: input {number} of {node} must follow from constants and shapes, got {name!r}, which "
                "depends on the elements of inputs or parameters; export the model with fixed sizes there"
            )
        if name in values:
            names.append((number, name))
        elif number not in rule.known and x is not None:
            x = _operand(x, rule, inputs)
            if isinstance(x, np.ndarray):
                x = _repeated(plan, x, f"{name} in {node.outputs[0]}", values, names, number)
        arguments.append(x)
    function = partial(rule.function, node, training=training) if rule.mode else partial(rule.function, node)
    made = function(*arguments)
    if isinstance(made, np.ndarray):  # a shape
        plan.known[node.outputs[0]] = made
        return
    _store(node, made, values, lambda x: _checked(node, x))
    empty = [None if place in dict(names) else x for place, x in enumerate(arguments)]
    plan.steps.append(Step(function, empty, tuple(names), node.outputs))


def _operand(x: np.ndarray, rule: Rule, inputs: Sequence[Any]) -> Any:
    """A known input as a number, if the operator takes numbers and its shape does not matter."""
    rank = max((len(y.shape) for y in inputs if hasattr(y, "shape") and not isinstance(y, np.ndarray)), default=0)
    return x.item() if rule.scalars and x.size == 1 and x.ndim <= rank and x.dtype != np.bool_ else x


def _repeated(
    plan: Plan, x: np.ndarray, name: str, values: dict[str, Any], names: list[tuple[int, str]], number: int
) -> Any:
    """A known input as a tensor; one that repeats elements along axes, as masks for all rows do, as a broadcast."""
    narrow = x
    for axis in range(x.ndim):
        first = narrow.take([0], axis) if narrow.shape[axis] > 1 else narrow
        narrow = first if first is not narrow and bool((narrow == first).all()) else narrow
    if narrow.size == x.size:
        return as_tensor(x)
    step = Step(broadcast_to, [as_tensor(narrow), x.shape], (), (name,))
    plan.steps.append(step)
    names.append((number, name))
    values[name] = broadcast_to(*step.arguments)
    return values[name]


def _store(node: Node, made: Any, values: dict[str, Any], convert: Callable[[Any], Any]) -> None:
    several = made if isinstance(made, tuple) else (made,)
    if len(several) < len(node.outputs):
        raise InvalidValueError(
            f"from_onnx: {node} must have at most {len(several)} results, got {len(node.outputs)}; export the model "
            "again"
        )
    values.update({name: convert(x) for name, x in zip(node.outputs, several, strict=False)})


def _checked(node: Node, x: Any) -> Any:
    if not isinstance(x, list) and prod(x.shape) > _MOST:
        raise InvalidValueError(
            f"from_onnx: {node} must make a tensor of at most {_MOST} elements, got {list(x.shape)}; do not use this "
            "file"
        )
    return x


def _largest(arrays: Sequence[Any]) -> tuple[int, ...]:
    """The shape that arrays broadcast to; that of the first one if they do not."""
    shapes = [x.shape for x in arrays if x is not None]
    try:
        return tuple(np.broadcast_shapes(*shapes))
    except ValueError:
        return tuple(shapes[0])


def _category(dtype: np.dtype) -> str:
    return "float" if is_float(dtype) else "bool" if dtype == np.bool_ else "integer"


def _check_dtypes(node: Node, inputs: Sequence[Any]) -> None:
    """Raise if inputs that have one dtype in the operator's definition are of different kinds.

    Floats of several widths occur in valid programs: under `adjoint.autocast`, and after `Module.double`.
    """
    found: dict[str, np.dtype] = {}
    for kind, x in zip(node.kinds, inputs, strict=False):
        if x is None or isinstance(x, list):
            continue
        known = found.setdefault(kind, x.dtype)
        if _category(known) != _category(x.dtype):
            raise TypeRuleError(
                f"from_onnx: {node} must have inputs of one dtype, got {dtype_name(known)} and {dtype_name(x.dtype)}; "
                "export the model again"
            )
