"""Recipes for the operators of neural networks: convolution, pooling, attention, normalization."""

from collections.abc import Callable, Mapping
from functools import partial
from math import exp, log, prod
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import DTYPES, Value, apply
from adjoint.ops.attention import Attention, AttentionLogSum
from adjoint.ops.attention_base import AttentionOperator
from adjoint.ops.attention_gradients import AttentionKeyGradient, AttentionQueryGradient, AttentionValueGradient
from adjoint.ops.centred import CentredSquares, Normalize, SumExp
from adjoint.ops.convolution import (
    Conv2d,
    Conv2dWeightGradient,
    Conv3d,
    Conv3dWeightGradient,
    ConvTranspose2d,
    ConvTranspose3d,
)
from adjoint.ops.pooling import MaxPool2d, SumPool2d
from adjoint.ops.present import PresentSquares, PresentSum
from adjoint.ops.sliding import Sliding
from adjoint.ops.views import Flip
from adjoint.ops.window_places import Pooling, WindowArgMax, WindowPick, WindowSpread
from adjoint.ops.windows import Pair
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import image

__all__ = ["NETWORK_RECIPES"]


def _flip(g: Growing) -> Node:
    x = g.number()
    return Node(apply(Flip(g.axes(x)), x.value), x.bound, x.exact)


def _row(g: Growing, x: Node, axes: tuple[int, ...]) -> Node:
    """A parameter with one element per row of `x`."""
    return g.parameter(tuple(n for axis, n in enumerate(x.value.shape) if axis not in axes), "float", x.value.dtype)


def _centred_squares(g: Growing) -> Node:
    x = g.pick()
    axes = g.axes(x)
    found = apply(CentredSquares(axes), x.value, ops.mean(x.value, axes))
    return Node(found, prod(x.value.shape[axis] for axis in axes) * (2 * x.bound) ** 2, False)


def _over_rows(g: Growing) -> tuple[Node, tuple[int, ...], int, Node]:
    """A graph value of rank 1 or more, axes of it with the batch axis among them, and any number of rows."""
    x = g.pick(rank=1)
    axes = g.axes(x) or (0,)
    return x, axes, axes[0], g.parameter((), "integer", DTYPES["i32"])


def _present_sum(g: Growing) -> Node:
    x, axes, batch, rows = _over_rows(g)
    count = prod(x.value.shape[axis] for axis in axes)
    return Node(apply(PresentSum(axes, batch), x.value, rows.value), x.bound * count, x.exact)


def _present_squares(g: Growing) -> Node:
    x, axes, batch, rows = _over_rows(g)
    count = prod(x.value.shape[axis] for axis in axes)
    found = apply(PresentSquares(axes, batch), x.value, ops.mean(x.value, axes), rows.value)
    return Node(found, count * (2 * x.bound) ** 2, False)


def _normalize(g: Growing) -> Node:
    x = g.pick()
    axes = g.axes(x)
    mean, scale = _row(g, x, axes), _row(g, x, axes)
    found = apply(Normalize(axes), x.value, mean.value, scale.value)
    return Node(found, (x.bound + mean.bound) * scale.bound, False)


def _sum_exp(g: Growing) -> Node:
    x = g.pick()
    value, bound = (x.value, x.bound) if x.bound <= 3 else (ops.tanh(x.value), 1.0)
    axes = g.axes(x)
    top = _row(g, x, axes)
    count = prod(x.value.shape[axis] for axis in axes)
    return Node(apply(SumExp(axes), value, top.value), count * exp(bound + top.bound), False)


def _queries(g: Growing) -> tuple[Node, list[Node], float]:
    """A graph value as queries; new keys, values and, where wanted, a mask; the scale of the scores."""
    q = g.pick(rank=2)
    *batch, rows, depth = q.value.shape
    count = g.choose((1, 3, 17))
    keys = g.parameter((*batch, count, depth), "float", q.value.dtype)
    values = g.parameter((*batch, count, g.choose((1, 4))), "float", q.value.dtype)
    others = [keys, values]
    kind = g.choose(("none", "none", "float", "bool"))
    if kind != "none":
        mask = g.parameter((*batch, rows, count), kind, q.value.dtype if kind == "float" else None)
        if kind == "bool":  # every query attends to the first key
            first = ops.equal(ops.iota(mask.value.shape, len(batch) + 1), 0)
            mask = Node(ops.logical_or(mask.value, first), 1.0, True)
        others.append(mask)
    return q, others, 1 / (depth * max(q.bound, 1.0))


def _weight_dropout(g: Growing, q: Node) -> tuple[float, list[Value], float]:
    """The dropout of attention weights: its rate, mostly 0, and otherwise the key; the greatest factor of a weight."""
    rate = g.choose((0.0, 0.0, 0.0, 0.25, 0.5))
    if not rate:
        return rate, [], 1.0
    key, batch = ops.random.key(g.choose((8, 9))), q.value.shape[:-2]
    if batch and g.flag():  # each element of the first batch axis has a key of its own
        key = ops.random.fold_in(key, ops.iota(batch[:1], 0, "i32"))
    return rate, [key], 1 / (1 - rate)


def _attended(g: Growing, *, values: bool) -> Node:
    """Attention of a graph value to new keys, or the log-sum-exp of its scores."""
    q, (k, v, *mask), scale = _queries(g)
    settings = scale, g.flag(), bool(mask)
    added = [m.value for m in mask]
    if not values:
        found = apply(AttentionLogSum(*settings), q.value, k.value, *added)
        return Node(found, k.bound + log(k.value.shape[-2]) + sum(m.bound for m in mask), False)
    rate, key, most = _weight_dropout(g, q)
    return Node(apply(Attention(*settings, rate), q.value, k.value, v.value, *added, *key), most * v.bound, False)


def _attention_gradient(made: type[AttentionOperator]) -> Callable[[Growing], Node]:
    """A gradient of attention, given the log-sum-exp of the scores, whose exponentials then add up to 1."""

    def recipe(g: Growing) -> Node:
        q, (k, v, *mask), scale = _queries(g)
        settings = scale, g.flag(), bool(mask)
        added = [m.value for m in mask]
        logsum = apply(AttentionLogSum(*settings), q.value, k.value, *added)
        *rows, _ = q.value.shape
        width = v.value.shape[-1]
        ct = g.parameter((*rows, width), "float", q.value.dtype)
        rate, key, most = _weight_dropout(g, q)
        op = made(*settings, rate)
        if made is AttentionValueGradient:
            found = apply(op, q.value, k.value, logsum, ct.value, *added, *key)
            return Node(found, most * ct.bound * rows[-1], False)
        delta = g.parameter(tuple(rows), "float", q.value.dtype)
        found = apply(op, q.value, k.value, v.value, logsum, delta.value, ct.value, *added, *key)
        change = scale * (most * width * ct.bound * v.bound + delta.bound)
        return Node(found, change * (k.bound if made is AttentionQueryGradient else q.bound * rows[-1]), False)

    return recipe


def _sliding(g: Growing, x: Node) -> tuple[tuple[Pair, Pair, Pair, int], Pair]:
    """The settings of a convolution whose windows fit into the image, and the window size."""
    size = x.value.shape[2:]

    def some(options: tuple[int, ...]) -> Pair:
        return tuple(g.choose(options) for _ in size)

    padding, dilation = some((0, 1, 2)), some((1, 2))
    room = [(n + 2 * p - 1) // d + 1 for n, p, d in zip(size, padding, dilation, strict=True)]
    window = tuple(g.choose([k for k in (1, 2, 3) if k <= most]) for most in room)
    groups = g.choose((1, x.value.shape[1]))
    return (some((1, 2, 3)), padding, dilation, groups), window


def _conv(made: type[Conv2d]) -> Callable[[Growing], Node]:
    def recipe(g: Growing) -> Node:
        x = image(g, axes=made.axes)
        settings, window = _sliding(g, x)
        groups = settings[3]
        each = x.value.shape[1] // groups
        w = g.parameter((groups * g.choose((1, 2)), each, *window), "float", x.value.dtype)
        return Node(apply(made(*settings), x.value, w.value), x.bound * w.bound * each * prod(window), False)

    return recipe


def _result_of(g: Growing, op: Sliding, x: Node, window: Pair) -> Node:
    """A parameter of the type of the result of a convolution."""
    outputs = op.groups * g.choose((1, 2))
    shape = (x.value.shape[0], outputs, *op.positions(x.value.shape[2:], window))
    return g.parameter(shape, "float", x.value.dtype)


def _conv_weight_gradient(made: type[Conv2dWeightGradient]) -> Callable[[Growing], Node]:
    def recipe(g: Growing) -> Node:
        x = image(g, axes=made.axes)
        settings, window = _sliding(g, x)
        op = made(*settings, window)
        ct = _result_of(g, op, x, window)
        count = ct.value.type.size // max(ct.value.shape[1], 1)
        return Node(apply(op, x.value, ct.value), x.bound * ct.bound * count, False)

    return recipe


def _conv_transpose(made: type[ConvTranspose2d]) -> Callable[[Growing], Node]:
    def recipe(g: Growing) -> Node:
        x = image(g, axes=made.axes)
        settings, window = _sliding(g, x)
        op = made(*settings, x.value.shape[2:])
        ct = _result_of(g, op, x, window)
        each = ct.value.shape[1] // op.groups
        w = g.parameter((ct.value.shape[1], x.value.shape[1] // op.groups, *window), "float", x.value.dtype)
        found = apply(op, ct.value, ops.multiply(w.value, ops.mean(x.value)))
        return Node(found, ct.bound * w.bound * x.bound * each * prod(window), False)

    return recipe


def _windows(g: Growing, x: Node) -> tuple[Pair, Pair]:
    """Window sizes that fit into the image, and strides."""
    height, width = x.value.shape[2:]
    window = g.choose([k for k in (1, 2, 3) if k <= height]), g.choose([k for k in (1, 2, 3) if k <= width])
    return window, g.choose((window, (1, 1), (2, 3)))


def _pool(made: Callable[[Pair, Pair], Pooling], *, exact: bool, adds: bool) -> Callable[[Growing], Node]:
    """Pooling; `exact` for discontinuous operators, `adds` for sums over windows."""

    def recipe(g: Growing) -> Node:
        x = image(g, exact=exact or (g.smooth and not adds))
        window, stride = _windows(g, x)
        bound = x.bound * prod(window) if adds else max(x.bound, prod(window))
        return Node(apply(made(window, stride), x.value), bound, x.exact and not adds)

    return recipe


def _window_pick(g: Growing) -> Node:
    x = image(g, exact=True)
    window, stride = _windows(g, x)
    places = apply(WindowArgMax(window, stride), x.value)
    return Node(apply(WindowPick(window, stride), ops.negative(x.value), places), x.bound, True)


def _window_spread(g: Growing) -> Node:
    x = image(g, exact=True)
    window, stride = _windows(g, x)
    places = apply(WindowArgMax(window, stride), x.value)
    size = (x.value.shape[2], x.value.shape[3])
    ct = g.parameter(places.shape, "float", x.value.dtype)
    overlaps = prod(-(-k // s) for k, s in zip(window, stride, strict=True))
    return Node(apply(WindowSpread(window, stride, size), ct.value, places), ct.bound * overlaps, False)


#: Recipes by operator name.
NETWORK_RECIPES: Mapping[str, Callable[[Growing], Node]] = MappingProxyType(
    {
        "flip": _flip,
        "centred_squares": _centred_squares,
        "present_sum": _present_sum,
        "present_squares": _present_squares,
        "normalize": _normalize,
        "sum_exp": _sum_exp,
        "attention": partial(_attended, values=True),
        "attention_log_sum": partial(_attended, values=False),
        "attention_query_gradient": _attention_gradient(AttentionQueryGradient),
        "attention_key_gradient": _attention_gradient(AttentionKeyGradient),
        "attention_value_gradient": _attention_gradient(AttentionValueGradient),
        "conv2d": _conv(Conv2d),
        "conv2d_weight_gradient": _conv_weight_gradient(Conv2dWeightGradient),
        "conv_transpose2d": _conv_transpose(ConvTranspose2d),
        "conv3d": _conv(Conv3d),
        "conv3d_weight_gradient": _conv_weight_gradient(Conv3dWeightGradient),
        "conv_transpose3d": _conv_transpose(ConvTranspose3d),
        "max_pool2d": _pool(MaxPool2d, exact=False, adds=False),
        "sum_pool2d": _pool(SumPool2d, exact=False, adds=True),
        "window_argmax": _pool(WindowArgMax, exact=True, adds=False),
        "window_pick": _window_pick,
        "window_spread": _window_spread,
    }
)
