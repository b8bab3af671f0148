"""Recipes for operators that work along an axis: running sums, gather and scatter, dynamic slices, sorting."""

from collections.abc import Callable, Mapping
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Value, apply
from adjoint.ops.cumulative import CumMax, CumMin
from adjoint.ops.scattering import REDUCTIONS, Gather, Scatter
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import Recipe, positions, small

__all__ = ["POSITION_RECIPES"]


def _axis(g: Growing, x: Node) -> int:
    return g.choose(range(len(x.value.shape)))


def _cumsum(g: Growing) -> Node:
    x = g.number(rank=1)
    axis = _axis(g, x)
    found = ops.cumsum(x.value, axis, g.flag(), g.flag())
    return Node(found, x.bound * x.value.shape[axis], x.kind == "integer")


def _cumprod(g: Growing) -> Node:
    x = small(g.pick(rank=1), 1.0)
    return Node(ops.cumprod(x.value, _axis(g, x), g.flag(), g.flag()), 1.0, False)


def _running_extreme(made: type[CumMax] | type[CumMin]) -> Recipe:
    def recipe(g: Growing) -> Node:
        x = g.number(exact=g.smooth, rank=1)
        return Node(apply(made(_axis(g, x), g.flag()), x.value), x.bound, x.exact)

    return recipe


def _linear_recurrence(g: Growing) -> Node:
    b = g.pick(rank=1)
    axis = _axis(g, b)
    a = ops.tanh(g.parameter(b.value.shape, "float", b.value.dtype).value)
    return Node(ops.linear_recurrence(a, b.value, axis, g.flag()), b.bound * b.value.shape[axis], False)


def _row_positions(g: Growing, x: Node) -> Value:
    """Positions along the last axis, some for each row."""
    *rows, size = x.value.shape
    return positions(g, size, (*rows, g.choose((1, 3, 7))))


def _gather(g: Growing) -> Node:
    x = g.number(rank=1)
    return Node(apply(Gather(), x.value, _row_positions(g, x)), x.bound, x.exact)


def _scatter(g: Growing) -> Node:
    reduce = g.choose(REDUCTIONS)
    x = g.number(exact=g.smooth and reduce in ("amax", "amin"), rank=1)
    ids = _row_positions(g, x)
    updates = g.parameter(ids.shape, x.kind, x.value.dtype)
    value, new, count = x.value, updates.value, ids.shape[-1]
    bound, exact = max(x.bound, updates.bound), x.exact
    if reduce == "add":
        bound, exact = x.bound + count * updates.bound, x.kind == "integer"
    elif reduce == "prod" and x.kind == "integer":
        value, new = ops.minimum(ops.maximum(value, -1), 1), ops.minimum(ops.maximum(new, -2), 2)
        bound = 2.0**count
    elif reduce == "prod":
        value, new, bound, exact = ops.tanh(value), ops.tanh(new), 1.0, False
    return Node(apply(Scatter(reduce), value, ids, new), bound, exact)


def _starts(g: Growing, x: Node) -> list[Value | int]:
    """Where a part begins: numbers and computed positions, which may reach beyond the end."""
    return [
        g.choose((0, 1)) if g.flag() else g.parameter((), "integer", g.choose(("i32", "i64"))).value
        for _ in x.value.shape
    ]


def _dynamic_slice(g: Growing) -> Node:
    x = g.number()
    sizes = [g.choose(sorted({1, n, (n + 1) // 2})) for n in x.value.shape]
    return Node(ops.dynamic_slice(x.value, _starts(g, x), sizes), x.bound, x.exact)


def _dynamic_update_slice(g: Growing) -> Node:
    x = g.number()
    sizes = tuple(g.choose(sorted({1, n, (n + 1) // 2})) for n in x.value.shape)
    fitting = [n for n in g.nodes if n.value.shape == sizes and n.value.dtype == x.value.dtype]
    part = g.choose(fitting) if fitting and g.flag() else g.parameter(sizes, x.kind, x.value.dtype)
    found = ops.dynamic_update_slice(x.value, part.value, _starts(g, x))
    return Node(found, max(x.bound, part.bound), x.exact and part.exact)


def _argsort(g: Growing) -> Node:
    x = g.number(exact=True, rank=1)
    axis = _axis(g, x)
    return Node(ops.argsort(x.value, axis, g.flag()), float(x.value.shape[axis]), True)


def _searchsorted(g: Growing) -> Node:
    x = g.number(exact=True, rank=1)
    rows = ops.sort(x.value)[0]
    lead = x.value.shape[:-1]
    shape = (*lead, g.choose((1, 3, 7))) if lead else g.choose(((), (3,), (2, 7)))
    values = g.parameter(shape, x.kind, x.value.dtype)
    return Node(ops.searchsorted(rows, values.value, g.flag()), float(x.value.shape[-1]), True)


#: Recipes by operator name.
POSITION_RECIPES: Mapping[str, Callable[[Growing], Node]] = MappingProxyType(
    {
        "cumsum": _cumsum,
        "cumprod": _cumprod,
        "cummax": _running_extreme(CumMax),
        "cummin": _running_extreme(CumMin),
        "linear_recurrence": _linear_recurrence,
        "gather": _gather,
        "scatter": _scatter,
        "dynamic_slice": _dynamic_slice,
        "dynamic_update_slice": _dynamic_update_slice,
        "argsort": _argsort,
        "searchsorted": _searchsorted,
    }
)
