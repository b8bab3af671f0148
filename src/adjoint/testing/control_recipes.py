"""Recipes for operators that hold functions: calls, loops and branches, whose bodies are random graphs too."""

from collections.abc import Mapping
from math import exp
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Function, Value, param
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import Recipe, small
from adjoint.testing.recipes import RECIPES

__all__ = ["CALL", "LOOPS", "WHILE"]

#: Numbers of iterations.
_LENGTHS = (1, 2, 5)

#: Maximum number of operators of a body.
_BODY = 3


def CALL(g: Growing) -> Node:  # noqa: N802
    """A call of a function with two results, one of which may be unused."""
    x = small(g.pick())
    inner = param("x", x.value.shape, x.value.dtype)
    name = f"inner{len(g.nodes)}"
    callee = Function(name, (inner,), (ops.sin(inner), ops.multiply(inner, ops.exp(inner))))
    first, second = ops.call(callee, x.value)
    g.add(Node(first, 1.0, False))
    return Node(second, x.bound * exp(x.bound), False)


def _inside(g: Growing, *own: Node) -> Growing:
    """A body under construction, which reads its own values, earlier ones of the graph around it, and new parameters.

    At most one of four bodies contains a loop or branch itself.
    """
    around = g.nodes[-2:] if g.flag() else []
    body = Growing(g.choose, g.smooth, g.params, [*around, *own])
    recipes = [*RECIPES.values()]
    for _ in range(g.choose(range(1, _BODY + 1))):
        nested = g.choose((False, False, False, True)) and len(g.nodes) > len(around)
        recipe = g.choose(tuple(LOOPS.values())) if nested and g.flag() else g.choose(recipes)
        body.add(recipe(body))
    return body


def _next(body: Growing, carry: Node) -> Value:
    """A new carry of the type of the old one and with its bound, which is at least 2, made of a value of the body."""
    found = body.pick()
    change = ops.tanh(ops.cast(found.value, carry.value.dtype))
    if found.value.shape != carry.value.shape:
        change = ops.mean(change)
    return ops.add(ops.multiply(carry.value, 0.5), change)


def _carried(value: Value, bound: float) -> Node:
    return Node(value, max(bound, 2.0), False)


def _scan(g: Growing) -> Node:
    """A loop over the rows of a value of the graph, or without any, with a float and an integer carry."""
    init = g.pick()
    rows = g.number(rank=1) if g.flag() else None
    if rows is not None and not 0 < rows.value.shape[0] <= _LENGTHS[-1] + 2:
        rows = g.parameter((g.choose(_LENGTHS), *rows.value.shape[1:]), rows.kind, rows.value.dtype)
    outputs: list[Node] = []

    def step(carry: tuple[Value, Value], row: Value | None) -> tuple[tuple[Value, Value], Value]:
        state, number = carry
        mine = [_carried(state, init.bound), Node(number, 10.0, True)]
        if row is not None and rows is not None:
            mine.append(Node(row, rows.bound, rows.exact))
        body = _inside(g, *mine)
        outputs.append(body.nodes[-1])
        return (_next(body, mine[0]), ops.add(number, 1)), outputs[0].value

    length = g.choose(_LENGTHS) if rows is None else None
    start = (init.value, ops.full(0, (), "i64"))
    given = None if rows is None else rows.value
    (last, count), stacked = ops.scan(step, start, given, length, g.flag())
    g.add(Node(count, 10.0, True))
    g.add(Node(stacked, outputs[0].bound, outputs[0].exact and outputs[0].kind != "float"))
    return _carried(last, init.bound)


def _fori(g: Growing) -> Node:
    init = g.pick()

    def step(number: Value, state: Value) -> Value:
        carry = _carried(state, init.bound)
        return _next(_inside(g, carry, Node(number, 10.0, True)), carry)

    low = g.choose((0, 2))
    return _carried(ops.fori_loop(low, low + g.choose(_LENGTHS), step, init.value), init.bound)


def _condition(g: Growing) -> Value:
    """A bool scalar."""
    mask = g.pick("bool").value
    return ops.any(mask) if g.flag() else ops.all(mask)


def _cond(g: Growing) -> Node:
    x = g.pick()

    def side(value: Value) -> Value:
        carry = _carried(value, x.bound)
        return _next(_inside(g, carry), carry)

    return _carried(ops.cond(_condition(g), side, side, x.value), x.bound)


def WHILE(g: Growing) -> Node:  # noqa: N802
    """A loop with a computed number of iterations. It has no reverse mode."""
    init = g.pick()
    limit = ops.minimum(ops.sum(ops.cast(g.pick("integer").value, "i64")), 4)

    def step(carry: tuple[Value, Value]) -> tuple[Value, Value]:
        state = _carried(carry[0], init.bound)
        body = _inside(g, state, Node(carry[1], 10.0, True))
        return _next(body, state), ops.add(carry[1], 1)

    start = (init.value, ops.full(0, (), "i64"))
    last, count = ops.while_loop(lambda carry: ops.less(carry[1], limit), step, start)
    g.add(Node(count, 10.0, True))
    return _carried(last, init.bound)


#: Recipes of loops and branches that have a reverse mode.
LOOPS: Mapping[str, Recipe] = MappingProxyType({"scan": _scan, "fori_loop": _fori, "cond": _cond})
