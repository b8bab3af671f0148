"""Recipes of random numbers: of constant keys, and of keys made from integers of a growing graph."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Value
from adjoint.testing.growing import Growing, Node

__all__ = ["RANDOM_RECIPES"]


def _keys(g: Growing) -> Value:
    """A key for each element of an integer of the graph."""
    return ops.random.fold_in(ops.random.key(g.choose((0, 7))), g.pick("integer", exact=True).value)


def _threefry(g: Growing) -> Node:
    return Node(ops.cast(ops.divide(_keys(g), 2**20), "i64"), 2.0**12, True)


def _random_bits(g: Growing) -> Node:
    key, shape = (_keys(g), ()) if g.flag() else (ops.random.key(3), g.shape())
    return Node(ops.random.uniform(key, shape, g.choose(("f32", "f64"))), 1.0, True)


#: Recipes by the name of the operator.
RANDOM_RECIPES: Mapping[str, Callable[[Growing], Node]] = MappingProxyType(
    {"threefry": _threefry, "random_bits": _random_bits}
)
