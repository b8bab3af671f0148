"""Recipes of random numbers: of constant keys, and of keys made from integers of a growing graph."""

from collections.abc import Mapping
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Value
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import Recipe

__all__ = ["DISTRIBUTIONS", "RANDOM_RECIPES"]


def _keys(g: Growing) -> Value:
    """A key for each element of an integer of the graph."""
    return ops.random.fold_in(ops.random.key(g.choose((0, 7))), g.pick("integer", exact=True).value)


def _threefry(g: Growing) -> Node:
    return Node(ops.cast(ops.divide(_keys(g), 2**20), "i64"), 2.0**12, True)


def _random_bits(g: Growing) -> Node:
    key, shape = (_keys(g), ()) if g.flag() else (ops.random.key(3), g.shape())
    return Node(ops.random.uniform(key, shape, g.choose(("f32", "f64"))), 1.0, True)


def _floats(g: Growing) -> Node:
    """A distribution of floats by a formula, without rejection."""
    key, shape, dtype = ops.random.key(g.choose((1, 2))), g.shape(), g.choose(("f32", "f64"))
    function = g.choose((ops.random.normal, ops.random.gumbel, ops.random.exponential, ops.random.laplace))
    return Node(function(key, shape, dtype=dtype), 20.0, False)


def _integers(g: Growing) -> Node:
    key = ops.random.key(g.choose((4, 5)))
    if g.flag():
        return Node(ops.random.randint(key, g.shape(), -3, 9), 9.0, True)
    return Node(ops.random.permutation(key, g.choose((1, 7, 33))), 33.0, True)


def _dropout(g: Growing) -> Node:
    x = g.pick()
    return Node(ops.dropout(x.value, ops.random.key(6), g.choose((0.5, 0.0, 0.25))), 2 * x.bound, False)


#: Recipes by the name of the operator.
RANDOM_RECIPES: Mapping[str, Recipe] = MappingProxyType({"threefry": _threefry, "random_bits": _random_bits})

#: Recipes of distributions, by name.
DISTRIBUTIONS: Mapping[str, Recipe] = MappingProxyType(
    {"random_floats": _floats, "random_integers": _integers, "dropout": _dropout}
)
