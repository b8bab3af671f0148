"""`checkpoint`: a part of a function whose intermediate values are computed again for its derivative."""

import hashlib
from collections.abc import Callable
from functools import wraps
from typing import Any

from adjoint import ops
from adjoint.errors import TypeRuleError, described, kind_of
from adjoint.func.tracing import (
    Tracing,
    carry_out,
    function_of,
    refuse_changed_examples,
    refuse_gradients,
    sources,
    traced,
)
from adjoint.func.tree import tree_flatten, tree_unflatten
from adjoint.ir import Function, Value
from adjoint.tensor.record import record
from adjoint.tensor.structure import Node, Operation
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import growing, lock

__all__ = ["checkpoint"]


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function whose derivative keeps its arguments only, and computes everything in between again.

    It takes less memory and more time (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).

    Parameters
    ----------
    function : callable
        Takes tensors, or trees of them; returns such. It can use other tensors, such as parameters, and be a module. It
        may change others in place, as dropout changes a generator and a batch norm its statistics: that happens once,
        and what is computed again reads the state before.

    Returns
    -------
    callable
        Takes and returns the same.

    Raises
    ------
    TypeRuleError
        In a call, if the function changes an argument, or returns something else than tensors.
    """
    if not callable(function):
        raise TypeRuleError(f"checkpoint takes a function, got {kind_of(function)}; pass the function, not its call")

    @wraps(function)
    def recomputed(*args: Any, **keywords: Any) -> Any:
        leaves, structure = tree_flatten((args, keywords))
        with lock, traced(Tracing(growing.root)) as trace:
            examples = [_example(trace, leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
            given, named = tree_unflatten(structure, examples)
            found = function(*given, **named)
            refuse_gradients("checkpoint", trace)
            refuse_changed_examples("checkpoint", trace)
            outs, made = tree_flatten(found)
            wrong = next((out for out in outs if not isinstance(out, Tensor)), None)
            if wrong is not None or not outs:
                raise TypeRuleError(
                    f"checkpoint: the function must return tensors, got {described(wrong)}; return tensors"
                )
            changed = [(tensor, trace.operand(tensor)) for tensor in trace.changed()]
            wanted = [*(trace.operand(out) for out in outs), *(node for _, node in changed)]
            entry, places = _entry(trace, wanted, function)
            replaced = {id(e): leaf for e, leaf in zip(examples, leaves, strict=True) if e is not leaf}
            tensors = sources(trace, places, replaced)
        results = record(entry, tensors)
        carry_out(changed, results[len(outs) :])
        return tree_unflatten(made, results[: len(outs)])

    return recomputed


def _example(trace: Tracing, leaf: Tensor) -> Tensor:
    spec = leaf._spec
    return trace.example(spec.type, spec.requires_grad, not spec.requires_grad, leaf._label)


def _entry(trace: Tracing, wanted: list[Node], function: Callable[..., Any]) -> tuple[Operation, list[int]]:
    """The operation that calls the traced function, and the positions of its operands."""
    key = ("checkpoint", *wanted)
    node = trace.node.children.get(key)
    if node is None:
        plain, places = function_of(trace, wanted, getattr(function, "__name__", "function").strip("<>"))
        digest = hashlib.sha256(str(plain).encode()).hexdigest()[:8]  # functions of one name must be equal
        node = Node(trace.node)
        node.made = Operation(_calling(plain.renamed(f"{plain.name}_{digest}"))), places
        node = trace.node.child(key, node)
    made: tuple[Operation, list[int]] = node.made
    return made


def _calling(function: Function) -> Callable[..., tuple[Value, ...]]:
    """The graph function that calls a function, so that its vjp computes its values again."""
    marked = function.with_attrs(recompute=True)

    def build(*values: Value) -> tuple[Value, ...]:
        found = ops.call(marked, *values)
        return found if isinstance(found, tuple) else (found,)

    build.__name__ = function.name
    return build
