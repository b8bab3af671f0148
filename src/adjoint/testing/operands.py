"""What recipes make of a value of a growing random graph before they apply an operator that restricts its operands."""

from collections.abc import Callable
from math import prod

from adjoint import ops
from adjoint.ir import Value
from adjoint.testing.growing import Growing, Node

__all__ = ["Recipe", "image", "positions", "positive", "small", "smooth", "within_one"]

#: A recipe applies one operator and returns the new value.
Recipe = Callable[[Growing], Node]


def small(node: Node, limit: float = 3.0) -> Node:
    """The value itself, or its hyperbolic tangent if it may be larger than `limit`."""
    return node if node.bound <= limit else Node(ops.tanh(node.value), 1.0, False)


def positive(node: Node) -> Node:
    """A value between 0.5 and 9.5."""
    held = small(node)
    return Node(ops.add(ops.square(held.value), 0.5), held.bound**2 + 0.5, False)


def within_one(node: Node) -> Node:
    """A value between -0.9 and 0.9."""
    return Node(ops.multiply(ops.tanh(node.value), 0.9), 0.9, False)


def smooth(
    function: Callable[[Value], Value],
    bound: Callable[[float], float],
    prepare: Callable[[Node], Node] = lambda node: node,
) -> Recipe:
    """A unary operator on floats whose result is bounded by `bound` of the operand's bound."""

    def recipe(g: Growing) -> Node:
        x = prepare(g.pick())
        return Node(function(x.value), bound(x.bound), False)

    return recipe


def positions(g: Growing, size: int, shape: tuple[int, ...] | None = None) -> Value:
    """Integers that are valid coordinates of an axis of `size`."""
    found = g.pick("integer") if shape is None else g.parameter(shape, "integer")
    return ops.maximum(ops.minimum(found.value, size - 1), 0)


def image(g: Growing, *, exact: bool = False, axes: int = 2) -> Node:
    """A float value of the graph, reshaped to the axes of images or, with three axes, of volumes."""
    x = g.pick(exact=exact)
    shape = x.value.shape
    missing = axes + 2 - len(shape)
    whole = (1,) * missing + shape if missing >= 0 else (prod(shape[: -axes - 1]), *shape[-axes - 1 :])
    return Node(ops.reshape(x.value, whole), x.bound, x.exact)
