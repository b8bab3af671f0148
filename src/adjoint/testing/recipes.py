"""One recipe per operator of CATALOGUE: how to apply it to values of a growing random graph."""

from collections.abc import Callable, Mapping
from math import exp, prod
from types import MappingProxyType

import numpy as np

from adjoint import ops
from adjoint.ir import Value
from adjoint.testing.growing import Growing, Node
from adjoint.testing.matrix_recipes import MATRIX_RECIPES
from adjoint.testing.network_recipes import NETWORK_RECIPES
from adjoint.testing.number_recipes import NUMBER_RECIPES
from adjoint.testing.operands import Recipe, positions, positive, small, smooth
from adjoint.testing.position_recipes import POSITION_RECIPES
from adjoint.testing.random_recipes import RANDOM_RECIPES

__all__ = ["RECIPES"]


def _arithmetic(function: Callable[[Value, Value], Value], bound: Callable[[float, float], float]) -> Recipe:
    """A binary operator on numbers; integer results are exact."""

    def recipe(g: Growing) -> Node:
        x = g.number()
        y = g.partner(x)
        first, second = (y, x) if g.flag() else (x, y)
        return Node(function(first.value, second.value), bound(x.bound, y.bound), x.kind == "integer")

    return recipe


def _divide(g: Growing) -> Node:
    x = g.number()
    y = g.partner(x)
    if x.kind == "integer":
        return Node(ops.divide(x.value, y.value), x.bound, True)
    return Node(ops.divide(x.value, positive(y).value), 2 * x.bound, False)


def _power(g: Growing) -> Node:
    x = g.pick()
    base = positive(x)
    if g.flag():
        y = small(g.partner(x), 2.0)
        return Node(ops.power(base.value, y.value), max(base.bound, 2.0) ** y.bound, False)
    exponent = g.choose((2.0, 3.0, 0.5, -1.0, 0.0))
    return Node(ops.power(base.value, exponent), max(base.bound, 2.0) ** abs(exponent), False)


def _kinked(function: Callable[[Value], Value]) -> Recipe:
    """A unary operator on numbers that does not round."""

    def recipe(g: Growing) -> Node:
        x = g.kinked()
        return Node(function(x.value), x.bound, x.exact)

    return recipe


def _negative(g: Growing) -> Node:
    x = g.number()
    return Node(ops.negative(x.value), x.bound, x.exact)


def _square(g: Growing) -> Node:
    x = g.number()
    return Node(ops.square(x.value), x.bound**2, x.kind == "integer")


def _extreme(function: Callable[[Value, Value], Value]) -> Recipe:
    def recipe(g: Growing) -> Node:
        x = g.kinked()
        y = g.partner(x, exact=g.smooth)
        return Node(function(x.value, y.value), max(x.bound, y.bound), x.exact and y.exact)

    return recipe


def _clip(g: Growing) -> Node:
    x = g.pick(exact=g.smooth)
    low = g.choose((-1.0, -0.5, 0.25))
    return Node(ops.clip(x.value, low, low + 1.0), 1.25, x.exact)


def _step(function: Callable[[Value], Value]) -> Recipe:
    """An operator with steps, applied to exact values."""

    def recipe(g: Growing) -> Node:
        x = g.pick(exact=True)
        return Node(function(x.value), x.bound + 1, True)

    return recipe


def _comparison(function: Callable[[Value, Value], Value]) -> Recipe:
    def recipe(g: Growing) -> Node:
        x = g.number(exact=True)
        y = g.partner(x, exact=True)
        return Node(function(x.value, y.value), 1.0, True)

    return recipe


def _logical(function: Callable[[Value, Value], Value]) -> Recipe:
    def recipe(g: Growing) -> Node:
        x = g.pick("bool")
        return Node(function(x.value, g.partner(x).value), 1.0, True)

    return recipe


def _logical_not(g: Growing) -> Node:
    return Node(ops.logical_not(g.pick("bool").value), 1.0, True)


def _where(g: Growing) -> Node:
    x = g.number()
    y = g.partner(x)
    shape = np.broadcast_shapes(x.value.shape, y.value.shape)
    masks = [n for n in g.nodes if n.kind == "bool" and n.value.shape == shape]
    mask = g.choose(masks) if masks else g.parameter(shape, "bool")
    return Node(ops.where(mask.value, x.value, y.value), max(x.bound, y.bound), x.exact and y.exact)


def _cast(g: Growing) -> Node:
    target = g.choose(("f32", "f64", "i32", "i64", "bool", "f16", "bf16"))
    if target in ("f32", "f64"):
        x = g.pick(g.choose(("float", "integer", "bool")))
        return Node(ops.cast(x.value, target), x.bound, x.exact)
    x = g.pick(exact=True)
    if target in ("f16", "bf16"):
        # There and back, because 16-bit floats may be kept in higher precision between operators.
        return Node(ops.cast(ops.cast(x.value, target), x.value.dtype), 1.01 * x.bound, True)
    return Node(ops.cast(x.value, target), x.bound if target != "bool" else 1.0, True)


def _stop_gradient(g: Growing) -> Node:
    x = g.number()
    return Node(ops.stop_gradient(x.value), x.bound, x.exact)


def _check_range(g: Growing) -> Node:
    x = g.pick("integer")
    return Node(ops.check_range(x.value, -int(x.bound), int(x.bound) + 1), x.bound, True)


def _full(g: Growing) -> Node:
    return Node(ops.full(g.choose((0.0, 1.0, -1.5)), g.shape()), 1.5, True)


def _iota(g: Growing) -> Node:
    shape = g.shape(1)
    axis = g.choose(range(len(shape)))
    return Node(ops.iota(shape, axis, g.choose(("f32", "i64", "i32"))), float(shape[axis]), True)


def _constant(g: Growing) -> Node:
    shape = g.shape()
    data = np.random.default_rng(prod(shape)).uniform(-2, 2, shape)
    return Node(ops.constant(np.asarray(data, np.float32)), 2.0, True)


def _broadcast_to(g: Growing) -> Node:
    x = g.number()
    stretched = tuple(3 if size == 1 and g.flag() else size for size in x.value.shape)
    shape = (*g.choose(((), (2,), (1, 3))), *stretched)
    return Node(ops.broadcast_to(x.value, shape), x.bound, x.exact)


def _reshape(g: Growing) -> Node:
    x = g.number()
    shape = list(x.value.shape)
    cut = g.choose(range(len(shape) + 1))
    merged = (*shape[:cut], prod(shape[cut:]))
    split = [n for size in merged for n in ((size // 2, 2) if size % 2 == 0 and g.flag() else (size,))]
    return Node(ops.reshape(x.value, tuple(split)), x.bound, x.exact)


def _permute(g: Growing) -> Node:
    x = g.number()
    return Node(ops.permute(x.value, g.shuffled(range(len(x.value.shape)))), x.bound, x.exact)


def _slice(g: Growing) -> Node:
    x = g.number()
    start = [g.choose(range(min(size, 3))) for size in x.value.shape]
    stop = [g.choose(range(size, low, -1)) for size, low in zip(x.value.shape, start, strict=True)]
    step = [g.choose((1, 2, 3)) for _ in start]
    return Node(ops.slice(x.value, start, stop, step), x.bound, x.exact)


def _pad(g: Growing) -> Node:
    x = g.number()
    low, high, interior = ([g.choose((0, 1, 3)) for _ in x.value.shape] for _ in range(3))
    value = g.choose((0.0, -1.0)) if x.kind == "float" else 0
    return Node(ops.pad(x.value, low, high, value, [n // 2 for n in interior]), max(x.bound, 1.0), x.exact)


def _gelu(g: Growing) -> Node:
    form = g.choose(("none", "tanh"))
    return smooth(lambda x: ops.gelu(x, form), lambda b: b)(g)


def _concat(g: Growing) -> Node:
    x = g.number(rank=1)
    shape = x.value.shape
    axis = g.choose(range(len(shape)))

    def fits(other: Node) -> bool:
        own = other.value.shape
        same = len(own) == len(shape) and all(i == axis or own[i] == n for i, n in enumerate(shape))
        return same and other.value.dtype == x.value.dtype

    parts = [x, *(g.choose([n for n in g.nodes if fits(n)]) for _ in range(g.choose((1, 2))))]
    joined = ops.concat([part.value for part in parts], axis=axis)
    return Node(joined, max(part.bound for part in parts), all(part.exact for part in parts))


def _sum(g: Growing) -> Node:
    x = g.number()
    axes = g.axes(x)
    count = prod(x.value.shape[axis] for axis in axes)
    return Node(ops.sum(x.value, axes, g.flag()), x.bound * count, x.kind == "integer")


def _reduced_extreme(function: Callable[[Value, tuple[int, ...], bool], Value]) -> Recipe:
    def recipe(g: Growing) -> Node:
        x = g.kinked()
        return Node(function(x.value, g.axes(x), g.flag()), x.bound, x.exact)

    return recipe


def _prod(g: Growing) -> Node:
    x = small(g.pick(), 1.0)
    return Node(ops.prod(x.value, g.axes(x), g.flag()), 1.0, False)


def _argmax(g: Growing) -> Node:
    x = g.number(exact=True, rank=1)
    axis = g.choose(range(len(x.value.shape)))
    return Node(ops.argmax(x.value, axis, g.flag()), float(x.value.shape[axis]), True)


def _matmul(g: Growing) -> Node:
    a = g.pick(rank=2)
    shape = a.value.shape
    across, down = g.flag(), g.flag()
    inner = shape[-2] if across else shape[-1]
    size = g.choose((1, 3, 7, 17))
    batch = shape[:-2] if g.flag() else ()
    wanted = (*batch, size, inner) if down else (*batch, inner, size)
    same = [n for n in g.nodes if n.value.dtype == a.value.dtype and n.value.shape[-2:] == wanted[-2:]]
    fitting = [n for n in same if n.value.shape == wanted]
    b = g.choose(fitting) if fitting and g.flag() else g.parameter(wanted, "float", a.value.dtype)
    return Node(ops.matmul(a.value, b.value, across, down), a.bound * b.bound * inner, False)


def _one_hot(g: Growing) -> Node:
    depth = g.choose((3, 7, 1))
    return Node(ops.one_hot(positions(g, depth), depth), 1.0, True)


def _take(g: Growing) -> Node:
    table = g.number(rank=1)
    ids = positions(g, table.value.shape[0], g.choose(((), (3,), (2, 7))))
    return Node(ops.take(table.value, ids), table.bound, table.exact)


def _take_along(g: Growing) -> Node:
    x = g.number(rank=1)
    *rows, size = x.value.shape
    return Node(ops.take_along_last(x.value, positions(g, size, tuple(rows))), x.bound, x.exact)


def _scatter_add(g: Growing) -> Node:
    updates = g.number(rank=1)
    shape = updates.value.shape
    rows = g.choose((3, 1, 7))
    added = ops.scatter_add(positions(g, rows, shape[:1]), updates.value, rows)
    return Node(added, updates.bound * shape[0], updates.kind == "integer")


#: Recipes by operator name.
RECIPES: Mapping[str, Recipe] = MappingProxyType(
    {
        "add": _arithmetic(ops.add, lambda a, b: a + b),
        "subtract": _arithmetic(ops.subtract, lambda a, b: a + b),
        "multiply": _arithmetic(ops.multiply, lambda a, b: a * b),
        "divide": _divide,
        "negative": _negative,
        "power": _power,
        "square": _square,
        "sqrt": smooth(ops.sqrt, lambda b: b, positive),
        "rsqrt": smooth(ops.rsqrt, lambda _: 1.5, positive),
        "reciprocal": smooth(ops.reciprocal, lambda _: 2.0, positive),
        "maximum": _extreme(ops.maximum),
        "minimum": _extreme(ops.minimum),
        "abs": _kinked(ops.abs),
        "sign": _step(ops.sign),
        "relu": _kinked(ops.relu),
        "clip": _clip,
        "floor": _step(ops.floor),
        "exp": smooth(ops.exp, exp, small),
        "expm1": smooth(ops.expm1, exp, small),
        "log": smooth(ops.log, lambda b: b, positive),
        "log1p": smooth(ops.log1p, lambda b: b, positive),
        "tanh": smooth(ops.tanh, lambda _: 1.0),
        "sigmoid": smooth(ops.sigmoid, lambda _: 1.0),
        "sin": smooth(ops.sin, lambda _: 1.0),
        "cos": smooth(ops.cos, lambda _: 1.0),
        "erf": smooth(ops.erf, lambda _: 1.0),
        "gelu": _gelu,
        "equal": _comparison(ops.equal),
        "not_equal": _comparison(ops.not_equal),
        "less": _comparison(ops.less),
        "less_equal": _comparison(ops.less_equal),
        "greater": _comparison(ops.greater),
        "greater_equal": _comparison(ops.greater_equal),
        "logical_and": _logical(ops.logical_and),
        "logical_or": _logical(ops.logical_or),
        "logical_xor": _logical(ops.logical_xor),
        "logical_not": _logical_not,
        "where": _where,
        "cast": _cast,
        "stop_gradient": _stop_gradient,
        "check_range": _check_range,
        "full": _full,
        "iota": _iota,
        "constant": _constant,
        "broadcast_to": _broadcast_to,
        "reshape": _reshape,
        "permute": _permute,
        "slice": _slice,
        "pad": _pad,
        "concat": _concat,
        "sum": _sum,
        "max": _reduced_extreme(ops.max),
        "min": _reduced_extreme(ops.min),
        "prod": _prod,
        "argmax": _argmax,
        "matmul": _matmul,
        "one_hot": _one_hot,
        "take": _take,
        "take_along_last": _take_along,
        "scatter_add": _scatter_add,
        **NUMBER_RECIPES,
        **POSITION_RECIPES,
        **MATRIX_RECIPES,
        **NETWORK_RECIPES,
        **RANDOM_RECIPES,
    }
)
