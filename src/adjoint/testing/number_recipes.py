"""Recipes for functions of numbers: trigonometric and special functions, bits, and operators that keep a value."""

from collections.abc import Callable, Mapping
from math import acosh, cosh, prod, sinh
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Value, apply
from adjoint.ops.convert import After
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import Recipe, positive, small, smooth, within_one

__all__ = ["NUMBER_RECIPES"]


def _above_one(node: Node) -> Node:
    """A value between 1.5 and 10.5."""
    x = positive(node)
    return Node(ops.add(x.value, 1.0), x.bound + 1, False)


def _atan2(g: Growing) -> Node:
    """One operand is positive, so that none is near the origin or the negative axis, where the angle jumps."""
    x = g.pick()
    y = positive(g.partner(x))
    if g.flag():
        return Node(ops.atan2(x.value, y.value), 1.6, False)
    return Node(ops.atan2(y.value, x.value), 3.2, False)


def _polygamma(g: Growing) -> Node:
    n = g.choose((0, 1, 2))
    return smooth(lambda x: ops.polygamma(n, x), lambda _: 17.0, positive)(g)  # 16.8 for n = 2 at 0.5


def _round(g: Growing) -> Node:
    x = g.pick(exact=True)
    return Node(ops.round(x.value), x.bound + 1, True)


def _bits(function: Callable[[Value, Value], Value]) -> Recipe:
    """A binary operator on the bits of integers, or on bools."""

    def recipe(g: Growing) -> Node:
        x = g.pick(g.choose(("integer", "integer", "bool")))
        y = g.partner(x)
        return Node(function(x.value, y.value), 2 * max(x.bound, y.bound, 1), True)

    return recipe


def _bitwise_not(g: Growing) -> Node:
    x = g.pick(g.choose(("integer", "integer", "bool")))
    return Node(ops.bitwise_not(x.value), x.bound + 1, True)


def _shift(function: Callable[[Value, Value], Value], growth: int) -> Recipe:
    """A shift of signed integers by 0 to 4 bits."""

    def recipe(g: Growing) -> Node:
        x = g.pick("integer")
        by = ops.minimum(ops.maximum(g.partner(x).value, 0), 4)
        return Node(function(x.value, by), x.bound * growth + 1, True)

    return recipe


def _after(g: Growing) -> Node:
    x, y = g.number(), g.number()
    return Node(apply(After(), x.value, y.value), x.bound, x.exact)


def _count(g: Growing) -> Node:
    x = g.number()
    axes = g.axes(x)
    number = prod(x.value.shape[axis] for axis in axes)
    return Node(ops.count(x.value, axes, g.choose(("f32", "f64"))), float(number), True)


def _exp2_bound(bound: float) -> float:
    return float(2.0**bound)


#: Recipes by operator name.
NUMBER_RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "round": _round,
        "tan": smooth(ops.tan, lambda _: 1.3, within_one),
        "asin": smooth(ops.asin, lambda _: 1.2, within_one),
        "acos": smooth(ops.acos, lambda _: 2.7, within_one),
        "atan": smooth(ops.atan, lambda _: 1.6),
        "atan2": _atan2,
        "sinh": smooth(ops.sinh, sinh, small),
        "cosh": smooth(ops.cosh, cosh, small),
        "asinh": smooth(ops.asinh, lambda b: b),
        "acosh": smooth(ops.acosh, acosh, _above_one),
        "atanh": smooth(ops.atanh, lambda _: 1.5, within_one),
        "exp2": smooth(ops.exp2, _exp2_bound, small),
        "log2": smooth(ops.log2, lambda _: 3.3, positive),
        "erfc": smooth(ops.erfc, lambda _: 2.0),
        "erfinv": smooth(ops.erfinv, lambda _: 1.2, within_one),
        "lgamma": smooth(ops.lgamma, lambda _: 13.0, positive),
        "polygamma": _polygamma,
        "bitwise_and": _bits(ops.bitwise_and),
        "bitwise_or": _bits(ops.bitwise_or),
        "bitwise_xor": _bits(ops.bitwise_xor),
        "bitwise_not": _bitwise_not,
        "bitwise_left_shift": _shift(ops.bitwise_left_shift, 16),
        "bitwise_right_shift": _shift(ops.bitwise_right_shift, 1),
        "after": _after,
        "count": _count,
    }
)
