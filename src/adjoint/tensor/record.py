"""Recording of operations: from a call with tensors to a node of the trie, and to graph values the first time.

`operation` makes a function that builds graph values one that can also be called with tensors. A recorded call costs a
few dictionary look-ups if its structure is known. Numbers among the arguments are constants of the program, until one
at the same place varies: from then on it enters the program as a tensor, so that nothing is compiled again.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.ir import DTYPES, TensorType, Value, is_float
from adjoint.ops.convert import StopGradient
from adjoint.tensor.plan import run_trace
from adjoint.tensor.promotion import kind
from adjoint.tensor.storage import storage_of
from adjoint.tensor.structure import Node, Operation, spec_of
from adjoint.tensor.trace import Recorded, Trace, growing, lock, settle, state

__all__ = ["entry_of", "operation", "rebind", "record", "record_binary", "record_in_place", "record_unary"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Marks in keys: gradients are off; a sequence begins, and ends.
_NO_GRAD, _BEGIN, _END = "no_grad", "(", ")"


def record_unary(operation: Operation, x: Recorded) -> Any:
    """Record an operation with one operand."""
    trace = state.trace
    operand = x._node if x._trace is trace else trace.operand(x)
    if operand is None:
        return record(operation, (x,))
    key = (operation, operand) if trace.grad else (operation, operand, _NO_GRAD)
    node = trace.node.children.get(key)
    if node is None:
        return _extended(trace, key, operation, (x,), {}, {id(x): operand})
    trace.node = node
    return trace.result(node)


def record_binary(operation: Operation, x: Any, y: Any) -> Any:
    """Record an operation with two operands, of which at least one is a tensor and the other may be a number."""
    trace = state.trace
    if isinstance(x, Recorded):
        first: Any = x._node if x._trace is trace else trace.operand(x)
        if isinstance(y, Recorded):
            second: Any = y._node if y._trace is trace else trace.operand(y)
            if first is not None and second is not None:
                key: tuple[Hashable, ...] = (operation, first, second)
                if not trace.grad:
                    key = (operation, first, second, _NO_GRAD)
                node = trace.node.children.get(key)
                if node is not None:
                    trace.node = node
                    return trace.result(node)
                return _extended(trace, key, operation, (x, y), {}, {id(x): first, id(y): second})
    return record(operation, (x, y))


def record(operation: Operation, args: Sequence[Any], keywords: Mapping[str, Any] | None = None) -> Any:
    """Record an operation on tensors and static arguments; returns a tensor, or a tuple of tensors.

    Sequences among the arguments may contain tensors. With graph values, the operation is applied to them.
    """
    keywords = keywords or {}
    tensors: list[Recorded] = []
    if _collect(args, tensors) | _collect(keywords.values(), tensors):
        return operation.function(*args, **keywords)
    trace = state.trace
    nodes = {id(tensor): trace.operand(tensor) for tensor in tensors}
    if None in nodes.values() or trace.done:
        trace = settle(tensors, run_trace)
        nodes = {id(tensor): trace.operand(tensor) for tensor in tensors}
    key: list[Hashable] = [operation]
    numbers = _encode(args, nodes, key)
    for name, item in keywords.items():
        key.append(name)
        numbers += _encode((item,), nodes, key)
    if not trace.grad:
        key.append(_NO_GRAD)
    known: Any = nodes  # none of them is None any more
    found = tuple(key)
    node = trace.node.children.get(found)
    if node is None:
        if numbers and operation.numbers and trace.outer is None:
            varied = _varied(trace, found, args)
            if varied is not None:
                return record(operation, varied, keywords)
        return _extended(trace, found, operation, args, keywords, known)
    trace.node = node
    return _results(trace, node)


def _collect(args: Iterable[Any], tensors: list[Recorded]) -> bool:
    """Append the tensors among arguments; returns whether there are graph values."""
    values = False
    for arg in args:
        if isinstance(arg, Recorded):
            tensors.append(arg)
        elif isinstance(arg, Value):
            values = True
        elif isinstance(arg, list | tuple):
            values |= _collect(arg, tensors)
    return values


def _encode(args: Iterable[Any], nodes: Mapping[int, Node | None], key: list[Hashable]) -> int:
    """Append arguments to a key, so that equal keys mean equal programs; returns how many are float numbers.

    Python compares 1, 1.0 and True as equal, and 0.0 and -0.0, so types and signs are part of the key.
    """
    numbers = 0
    for arg in args:
        if isinstance(arg, Recorded):
            key.append(nodes[id(arg)])
        elif isinstance(arg, list | tuple):
            key.append(_BEGIN)
            numbers += _encode(arg, nodes, key)
            key.append(_END)
        elif isinstance(arg, float):
            numbers += 1
            key += (float, arg or repr(arg))
        elif isinstance(arg, int):
            key.append(type(arg))  # type: ignore[arg-type]
            key.append(arg)
        elif isinstance(arg, slice):
            key.append(slice)
            numbers += _encode((arg.start, arg.stop, arg.step), nodes, key)
        elif isinstance(arg, np.ndarray):
            key += (arg.dtype, arg.shape, arg.tobytes())
        else:
            try:
                hash(arg)
            except TypeError:
                raise TypeRuleError(
                    f"an operation takes tensors and hashable arguments, got {kind_of(arg)}; convert it to a tuple"
                ) from None
            key.append(arg)
    return numbers


def _extended(
    trace: Trace,
    key: Hashable,
    operation: Operation,
    args: Sequence[Any],
    keywords: Mapping[str, Any],
    nodes: Mapping[int, Node],
) -> Any:
    """Build the graph values of an operation recorded for the first time, and record it."""
    with lock:
        parent = trace.node
        made = operation.function(
            *(_as_value(arg, nodes) for arg in args), **{k: _as_value(arg, nodes) for k, arg in keywords.items()}
        )
        operands = tuple(dict.fromkeys(nodes.values()))
        active = any(operand.spec is not None and operand.spec.requires_grad for operand in operands)
        node = Node(parent, operands=operands)
        if isinstance(made, tuple):
            items = [Node(node, operands=operands) for _ in made]
            for item, value in zip(items, made, strict=True):
                _describe(item, value, active, trace.grad)
            node.items = tuple(items)
        else:
            _describe(node, made, active, trace.grad)
        node = parent.children.setdefault(key, node)
        growing.count_node()
    trace.node = node
    return _results(trace, node)


def _describe(node: Node, value: Value, active: bool, grad: bool) -> None:
    """Set the value of a node and what it says about gradients."""
    differentiable = active and is_float(value.dtype) and not isinstance(value.op, StopGradient)
    if differentiable and not grad:
        value, differentiable = ops.stop_gradient(value), False
    node.value, node.spec = value, spec_of(value.type, differentiable, leaf=not differentiable)


def _as_value(arg: Any, nodes: Mapping[int, Node]) -> Any:
    """An argument with its tensors replaced by graph values."""
    if isinstance(arg, Recorded):
        return nodes[id(arg)].graph
    if isinstance(arg, list | tuple):
        return type(arg)(_as_value(item, nodes) for item in arg)
    return arg


def _results(trace: Trace, node: Node) -> Any:
    if node.items:
        return tuple(trace.result(item) for item in node.items)
    return trace.result(node)


def _varied(trace: Trace, key: tuple[Hashable, ...], args: Sequence[Any]) -> list[Any] | None:
    """The arguments with numbers turned into tensors, if other numbers were recorded at this place before."""
    base = tuple("number" if n and key[n - 1] is float else part for n, part in enumerate(key))
    with lock:
        if trace.node.varied is None:
            trace.node.varied = set()
        if base not in trace.node.varied:
            trace.node.varied.add(base)
            return None
    dtype = next((a._spec.type.dtype for a in args if isinstance(a, Recorded) and is_float(a._spec.type.dtype)), None)
    return [_number(arg, dtype or DTYPES["f32"]) if isinstance(arg, float) else arg for arg in args]


def _number(number: float, dtype: np.dtype) -> Recorded:
    """A scalar tensor."""
    tensor: Recorded = Recorded.result.__new__(Recorded.result)
    tensor._storage = storage_of(np.asarray(number, dtype), copy=True)
    tensor._spec = spec_of(TensorType((), dtype))
    return tensor


def operation(function: Callable[_P, _R], numbers: bool = True) -> Callable[_P, _R]:
    """Let a function that builds graph values be called with tensors too, as one operation of a recorded program.

    Parameters
    ----------
    function : callable
        Takes graph values and static arguments; returns a graph value or a tuple of them.
    numbers : bool, default True
        Whether floats among its arguments may become scalar tensors when they vary from one program to the next, so
        that nothing is compiled again. False if they decide what graph is built.
    """
    entry = Operation(function, numbers)

    @wraps(function)
    def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
        found: _R = record(entry, args, keywords)
        return found

    called.entry = entry  # type: ignore[attr-defined]
    return called


def entry_of(function: Callable[..., Any]) -> Operation:
    """The entry of programs that a function made by `operation` records."""
    entry: Operation = function.entry  # type: ignore[attr-defined]
    return entry


def record_in_place(operation: Operation, target: Recorded, *args: Any, **keywords: Any) -> Any:
    """Record an operation on a tensor and rebind the tensor to its result; returns the tensor.

    Raises
    ------
    InvalidValueError
        If the tensor is a leaf that requires a gradient, and gradients are recorded.
    TypeRuleError
        If the result has another shape, or a dtype of a higher kind.
    """
    spec = target._spec
    if spec.requires_grad and spec.leaf and state.grad:
        raise InvalidValueError(
            f"{operation.name}: a leaf that requires a gradient cannot be changed in place, got {spec.type}; do it "
            "within no_grad(), or compute a new tensor"
        )
    result = record(operation, (target, *args), keywords)
    made = result._spec.type
    if made.shape != spec.type.shape or kind(made.dtype) > kind(spec.type.dtype):
        raise TypeRuleError(
            f"{operation.name}: a tensor changed in place keeps its type, got {made} for {spec.type}; compute a new "
            "tensor"
        )
    if made.dtype != spec.type.dtype:
        result = record(_CAST, (result, spec.type.dtype))
    rebind(target, result)
    return target


def rebind(target: Recorded, result: Recorded) -> None:
    """Give a tensor the value of another one of the same type, which an operation on it has just made."""
    trace = result._trace
    old = trace.operand(target)
    key = ("rebind", old, result._node)
    node = trace.node.children.get(key)
    if node is None:
        with lock:
            node = Node(trace.node)
            node.rebinds = ((old, result._node),)
            node = trace.node.children.setdefault(key, node)
            growing.count_node()
    trace.node = node
    trace.rebind(target, result._node)


_CAST = Operation(ops.cast)
