"""Variables: what a transformation of a function differentiates with respect to.

A function is differentiated on the thread's trace. Its arguments become variables, recorded copies that require
gradients, so that the derivative follows the argument and not other uses of the same tensor. The results are closed
afterwards: they require gradients only if they depend on something outside of the function that does. So
transformations nest.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import TypeRuleError, described
from adjoint.ir import Value, apply, is_float
from adjoint.ops.views import Reshape
from adjoint.tensor.autograd import enable_grad
from adjoint.tensor.autograd import grad as gradients
from adjoint.tensor.record import operands, operation
from adjoint.tensor.structure import Node, spec_of
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import growing, lock

__all__ = ["as_tensor", "closed", "is_differentiable", "ones_like", "pullback", "variables", "zeros_like"]

#: Marks nodes of variables, as `Node.made`.
_VARIABLE = "variable"


def _filled(number: float) -> Any:
    def like(x: Value) -> Value:
        """A tensor of the type of `x`, filled with a number."""
        return ops.full_like(x, number)

    return operation(like)


ones_like, zeros_like = _filled(1.0), _filled(0.0)


def as_tensor(caller: str, place: str, given: Any) -> Tensor:
    """A tensor of a float dtype, from a tensor, an array or a Python float.

    Raises
    ------
    TypeRuleError
        If it is of another kind or dtype.
    """
    if isinstance(given, float):
        return from_array(np.asarray(given, np.float32))
    if isinstance(given, np.ndarray | np.generic):
        given = from_array(np.asarray(given))
    if not isinstance(given, Tensor):
        raise TypeRuleError(
            f"{caller}: {place} must consist of float tensors, got {described(given)}; pass a tensor, or choose other "
            "arguments with argnums"
        )
    if not is_float(given.dtype):
        raise TypeRuleError(
            f"{caller}: {place} must consist of float tensors, got {given._spec.type}; convert it, or choose other "
            "arguments with argnums"
        )
    return given


def is_differentiable(leaf: Any) -> bool:
    """Whether a leaf is a tensor of a float dtype."""
    return isinstance(leaf, Tensor) and is_float(leaf.dtype)


def variables(tensors: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """New tensors with the same elements, each of which requires a gradient."""
    if not tensors:
        return ()
    trace, nodes = operands(tensors)
    key = (_VARIABLE, *nodes)
    node = trace.node.children.get(key)
    if node is None:
        with lock:
            node = Node(trace.node, operands=tuple(nodes))
            items = []
            for one in nodes:
                # A value of its own. Differentiation would label one without a label, by replacing it.
                value = apply(Reshape(one.graph.shape), one.graph, label=one.graph.label or "variable")
                item = Node(node, spec_of(value.type, True, leaf=False), value, (one,))
                item.made = _VARIABLE
                items.append(item)
            node.items = tuple(items)
            growing.count_node()
            node = trace.node.child(key, node)
    trace.node = node
    return tuple([trace.result(item) for item in node.items])


def closed(results: Sequence[Tensor], own: Iterable[Tensor], *, detach: bool = False) -> list[Tensor]:
    """Results that require gradients only if they depend on something else than variables that does.

    Parameters
    ----------
    results : sequence of Tensor
        What a function of the variables has returned.
    own : iterable of Tensor
        The variables.
    detach : bool, default False
        Whether no result requires a gradient.
    """
    made = list(results)
    places = [n for n, result in enumerate(made) if result._spec.requires_grad]
    if not places:
        return made
    own = tuple(own)
    trace, nodes = operands([*(made[n] for n in places), *own])
    inner = frozenset(nodes[len(places) :])
    found = nodes[: len(places)]
    key = ("closed", detach, *nodes)
    node = trace.node.children.get(key)
    if node is None:
        with lock:
            node = Node(trace.node, operands=tuple(nodes))
            items = []
            for one in found:
                sources = () if detach else _sources(one, inner)
                value = ops.stop_gradient(one.graph) if detach else one.graph
                items.append(Node(node, spec_of(value.type, bool(sources), leaf=not sources), value, sources))
            node.items = tuple(items)
            growing.count_node()
            node = trace.node.child(key, node)
    trace.node = node
    for place, item in zip(places, node.items, strict=True):
        made[place] = trace.result(item)
    return made


def _sources(result: Node, own: frozenset[Node]) -> tuple[Node, ...]:
    """What a node depends on that requires a gradient for another reason than depending on these variables."""
    found: dict[Node, None] = {}
    seen: set[Node] = set()
    stack = [result]
    while stack:
        node = stack.pop()
        if node in seen or (node.spec is not None and not node.spec.requires_grad):
            continue
        seen.add(node)
        if node not in own and (node.index >= 0 or node.made == _VARIABLE):
            found[node] = None
        else:
            stack.extend(node.operands)
    return tuple(found)


def pullback(results: Sequence[Tensor], inputs: Sequence[Tensor], cotangents: Sequence[Tensor]) -> list[Tensor | None]:
    """The derivatives of results with respect to inputs, for cotangents of the results; None where they are zero."""
    pairs = [(r, ct) for r, ct in zip(results, cotangents, strict=True) if r._spec.requires_grad]
    if not pairs or not inputs:
        return [None] * len(inputs)
    with enable_grad():
        outs, seeds = zip(*pairs, strict=True)
        return list(gradients(outs, inputs, seeds, create_graph=True, allow_unused=True))
