"""Recipes for composites: functions of several operators, as models use them."""

from collections.abc import Mapping
from math import log, prod
from types import MappingProxyType

from adjoint import ops
from adjoint.ir import Value
from adjoint.losses.ctc import ctc
from adjoint.testing.growing import Growing, Node
from adjoint.testing.operands import Recipe, image, positions, positive, small
from adjoint.testing.random_recipes import DISTRIBUTIONS
from adjoint.testing.window_recipes import WINDOWS

__all__ = ["COMPOSITES"]

#: Added to variances. Where they are 0, nothing is magnified by more than 3.2.
_EPS = 0.1


def _activation(g: Growing) -> Node:
    """An activation function that is smooth."""
    x = small(g.pick())
    function = g.choose((ops.silu, ops.mish, ops.softplus, ops.logsigmoid, ops.softsign, ops.tanhshrink))
    return Node(function(x.value), x.bound + 1, False)


def _kinked_activation(g: Growing) -> Node:
    x = small(g.pick(exact=g.smooth))
    kinks = (ops.elu, ops.celu, ops.selu, ops.leaky_relu, ops.hardswish, ops.hardsigmoid, ops.hardtanh, ops.relu6)
    return Node(g.choose(kinks)(x.value), 2 * x.bound, False)


def _gated(g: Growing) -> Node:
    """Halves of a value that is joined with itself."""
    x = small(g.pick(rank=1))
    axis = g.choose(range(len(x.value.shape)))
    both = ops.concat(x.value, ops.sin(x.value), axis=axis)
    return Node(g.choose((ops.glu, ops.swiglu))(both, axis), x.bound, False)


def _softmax(g: Growing) -> Node:
    x = g.pick(rank=1)
    axis = g.choose(range(len(x.value.shape)))
    if g.flag():
        return Node(g.choose((ops.softmax, ops.softmin))(x.value, axis), 1.0, False)
    bound = 2 * x.bound + 7.1  # the logarithm of 1200 elements
    if g.flag():
        return Node(ops.log_softmax(x.value, axis), bound, False)
    return Node(ops.logcumsumexp(x.value, axis), bound, False)


def _logsumexp(g: Growing) -> Node:
    x = g.pick()
    return Node(ops.logsumexp(x.value, g.axes(x), g.flag()), x.bound + 7.1, False)


def _moments(g: Growing) -> Node:
    x = g.pick()
    axes = g.axes(x)
    if g.flag():
        return Node(ops.mean(x.value, axes, g.flag()), x.bound, False)
    return Node(ops.variance(x.value, axes, 0, g.flag()), x.bound**2, False)


def _norm(g: Growing) -> Node:
    """A norm of values that are not near 0, where it has a kink."""
    x = positive(g.pick())
    axes = g.axes(x)
    count = prod(x.value.shape[axis] for axis in axes)
    p = g.choose((1.0, 2.0, 3.0))
    return Node(ops.norm(x.value, p, axes, g.flag()), x.bound * count ** (1 / p), False)


def _normalized(g: Growing) -> Node:
    """Layer, batch, group, instance or root-mean-square normalization, with or without a scale."""
    x = image(g, axes=g.choose((1, 2)))
    channels = x.value.shape[1]
    which = g.choose(("layer", "batch", "group", "instance", "rms", "inference", "response"))
    if which in ("batch", "instance") and prod(x.value.shape[2:]) < 2:
        which = "layer"

    def own(size: int) -> Value | None:
        return g.parameter((size,), "float", x.value.dtype).value if g.flag() else None

    last = x.value.shape[-1]
    if which == "layer":
        found = ops.layer_norm(x.value, own(last), own(last), _EPS)
    elif which == "rms":
        found = ops.rms_norm(x.value, own(last), -1, _EPS)
    elif which == "response":
        found = ops.local_response_norm(x.value, g.choose((1, 2, 3)), 0.1)
    elif which == "group":
        groups = g.choose([n for n in (1, 2, 3, channels) if channels % n == 0])
        enough = x.value.type.size // (x.value.shape[0] * groups) > 1
        found = ops.group_norm(x.value, groups, own(channels), own(channels), _EPS) if enough else x.value
    elif which == "instance":
        found = ops.group_norm(x.value, channels, own(channels), own(channels), _EPS)
    else:
        mean, variance = (g.parameter((channels,), "float", x.value.dtype).value for _ in range(2))
        function = ops.batch_norm_inference if which == "inference" else ops.batch_norm
        made = function(x.value, mean, ops.square(variance), own(channels), own(channels), eps=_EPS)
        found = made[0] if isinstance(made, tuple) else made
    return Node(found, 4 * (2 * x.bound + 2) + 2, False)


def _einsum(g: Growing) -> Node:
    """A product of two values, or a sum or diagonal of one, by any assignment of letters to axes."""
    x = g.pick()
    letters: dict[str, int] = {}
    mine = ""
    for size in x.value.shape:
        same = [letter for letter, n in letters.items() if n == size]
        repeats = bool(same) and g.choose(range(4)) == 3
        letter = g.choose(same) if repeats else "abcdefghijkl"[len(letters)]
        letters[letter] = size
        mine += letter
    operands, terms, bound = [x.value], [mine], x.bound
    if g.flag():
        theirs = "".join(letter for letter in g.shuffled(tuple(letters)) if g.flag())
        if g.flag():
            letters["z"] = g.choose((1, 3, 7))
            theirs += "z"
        y = g.parameter(tuple(letters[letter] for letter in theirs), "float", x.value.dtype)
        operands, terms, bound = [*operands, y.value], [*terms, theirs], bound * y.bound
    kept = [letter for letter in g.shuffled(tuple(letters)) if g.flag()]
    while prod(letters[letter] for letter in kept) > 1200:
        kept.pop()
    count = prod(n for letter, n in letters.items() if letter not in kept)
    return Node(ops.einsum(f"{','.join(terms)}->{''.join(kept)}", *operands), bound * count, False)


def _heads(g: Growing) -> Node:
    """Attention whose query heads share keys and values, with or without a mask."""
    q = image(g, axes=2)
    n, heads, rows, depth = q.value.shape
    groups = g.choose((1, heads))
    count = g.choose((1, 3, 9))
    k, v = (g.parameter((n, groups, count, depth), "float", q.value.dtype) for _ in range(2))
    mask = g.choose((None, None, (rows, count), (n, 1, 1, count)))
    held = None if mask is None else g.parameter(mask, g.choose(("bool", "float")), None)
    if held is not None and held.kind == "float":
        held = Node(ops.cast(held.value, q.value.dtype), held.bound, False)
    scale = 1 / (depth * max(q.bound, 1.0))
    causal = g.flag()
    added = None if held is None else held.value
    rate = g.choose((0.0, 0.0, 0.25))
    key = ops.random.key(10) if rate else None
    found = ops.scaled_dot_product_attention(q.value, k.value, v.value, causal, scale, added, rate, key)
    return Node(found, v.bound / (1 - rate), False)


def _ordered(g: Growing) -> Node:
    """Sorted values, the greatest ones, a median or a quantile."""
    x = g.number(exact=True, rank=1)
    axis = g.choose(range(len(x.value.shape)))
    size = x.value.shape[axis]
    which = g.choose(("sort", "topk", "kthvalue", "median", "quantile"))
    if which == "quantile" and x.kind == "float":
        q = g.choose((0.0, 0.3, 0.5, 1.0))
        return Node(ops.quantile(x.value, ops.full(q, (), x.value.dtype), axis), x.bound, False)
    if which == "topk":
        values, places = ops.topk(x.value, g.choose(sorted({1, size // 2 + 1, size})), axis, g.flag())
    elif which == "kthvalue":
        values, places = ops.kthvalue(x.value, g.choose(sorted({1, size})), axis, g.flag())
    elif which == "median":
        values, places = ops.median(x.value, axis, g.flag())
    else:
        values, places = ops.sort(x.value, axis, g.flag())
    g.add(Node(places, float(size), True))
    return Node(values, x.bound, True)


def _segments(g: Growing) -> Node:
    """Sums, means and extremes of rows with equal ids."""
    x = g.pick(exact=g.smooth, rank=1)
    rows = x.value.shape[0]
    count = g.choose((1, 3, 7))
    ids = positions(g, count, (rows,))
    if g.flag():
        return Node(ops.segment_sum(x.value, ids, count), x.bound * rows, False)
    if g.flag():
        return Node(ops.segment_mean(x.value, ids, count), x.bound, False)
    found = g.choose((ops.segment_max, ops.segment_min))(x.value, ids, count)
    # A segment without rows is infinite.
    return Node(ops.where(ops.isfinite(found), found, 0.0), x.bound, False)


def _coordinates(g: Growing) -> Node:
    """Elements read or added at coordinates."""
    x = g.pick(rank=1)
    k = g.choose(range(1, len(x.value.shape) + 1))
    many = g.choose((1, 3, 7))
    ids = ops.stack([ops.cast(positions(g, n, (many,)), "i64") for n in x.value.shape[:k]], axis=1)
    read = ops.gather_nd(x.value, ids)
    if g.flag():
        return Node(read, x.bound, x.exact)
    return Node(ops.scatter_nd(ids, read, x.value.shape), x.bound * many, False)


def _sparse(g: Growing) -> Node:
    """A sparse matrix times a dense one: by coordinates, or in compressed rows."""
    dense = g.pick(rank=1)
    if len(dense.value.shape) > 2:
        rows = dense.value.shape[0]
        dense = Node(ops.reshape(dense.value, (rows, dense.value.type.size // rows)), dense.bound, dense.exact)
    many, size = g.choose((1, 4, 9)), g.choose((1, 3, 5))
    columns = positions(g, dense.value.shape[0], (many,))
    values = g.parameter((many,), "float", dense.value.dtype)
    bound = many * values.bound * dense.bound
    if g.flag():
        found = ops.coo_matmul(positions(g, size, (many,)), columns, values.value, dense.value, size)
    else:
        starts = ops.constant([0, *sorted(g.choose(range(many + 1)) for _ in range(size - 1)), many], "i64")
        found = ops.csr_matmul(starts, columns, values.value, dense.value)
    return Node(found, bound, False)


def _arranged(g: Growing) -> Node:
    """Functions that move elements or leave some out."""
    x = g.number(rank=2)
    a, b = g.shuffled(range(len(x.value.shape)))[:2]
    which = g.choose(("diagonal", "embed", "tril", "triu", "swap", "stack", "pad"))
    value = x.value
    if which == "diagonal":
        found = ops.diagonal(value, g.choose((0, 1, -1)) if min(value.shape[a], value.shape[b]) > 1 else 0, a, b)
    elif which == "embed":
        row = ops.slice_axis(value, len(value.shape) - 1, 0, min(value.shape[-1], 3))
        found = ops.diag_embed(row, g.choose((0, 1, -2)))
    elif which in ("tril", "triu"):
        found = (ops.tril if which == "tril" else ops.triu)(value, g.choose((0, 1, -1)))
    elif which == "swap":
        found = ops.swapaxes(value, a, b)
    elif which == "stack":
        found = ops.stack([value, ops.flip(value, a)], b)
    else:
        low, high = ([g.choose(range(min(n, 3))) for n in value.shape] for _ in range(2))
        found = ops.pad_mode(value, low, high, g.choose(("reflect", "replicate", "circular")))
    return Node(found, x.bound, x.exact)


def _distance(g: Growing) -> Node:
    """Distances between rows: from new ones that are far from those of the graph, where there is no kink."""
    x = small(g.pick(rank=2))
    *lead, _, width = x.value.shape
    other = g.parameter((*lead, g.choose((1, 3, 5)), width), "float", x.value.dtype)
    far = ops.add(other.value, x.bound + other.bound + 1)
    p = g.choose((1.0, 2.0))
    return Node(ops.cdist(x.value, far, p), (2 * x.bound + 2 * other.bound + 1) * width, False)


def _differences(g: Growing) -> Node:
    x = g.pick(rank=1)
    axis = g.choose(range(len(x.value.shape)))
    if x.value.shape[axis] > 1 and g.flag():
        return Node(ops.diff(x.value, 1, axis), 2 * x.bound, False)
    return Node(ops.trapezoid(x.value, axis=axis), x.bound * x.value.shape[axis], False)


def _ctc(g: Growing) -> Node:
    """The loss of sequences of labels that all have an alignment: there are steps for a blank after every label."""
    x = small(image(g, axes=1))
    logits = ops.slice_axis(x.value, 0, 0, min(x.value.shape[0], 9))
    steps, batch, _ = logits.shape
    more = g.parameter((steps, batch, 2), "float", logits.dtype)  # so that there are classes besides the blank
    logits = ops.concat(logits, more.value, axis=2)
    classes = logits.shape[2]
    labels = ops.add(positions(g, classes - 1, (batch, g.choose(range(1, (steps + 1) // 2 + 1)))), 1)
    counts = [g.choose(range(labels.shape[1] + 1)) for _ in range(batch)]
    lengths = [g.choose(range(max(2 * count - 1, 1), steps + 1)) for count in counts]
    reduction = g.choose(("mean", "sum", "none"))
    found = ctc(ops.log_softmax(logits, 2), labels, lengths, counts, reduction=reduction)
    # No step of an alignment is less likely than the least likely class.
    bound = steps * (2 * max(x.bound, more.bound) + log(classes))
    return Node(found, bound * (batch if reduction == "sum" else 1), False)


def _half(g: Growing) -> Node:
    """A value in half precision, with which later operators go on."""
    x = g.pick()
    dtype = g.choose(("bf16", "bf16", "f16"))
    return Node(ops.cast(ops.tanh(x.value), dtype), 1.0, False)


#: Recipes by name.
COMPOSITES: Mapping[str, Recipe] = MappingProxyType(
    {
        "activation": _activation,
        "kinked_activation": _kinked_activation,
        "gated": _gated,
        "softmax": _softmax,
        "logsumexp": _logsumexp,
        "moments": _moments,
        "norm": _norm,
        "normalized": _normalized,
        "einsum": _einsum,
        "heads": _heads,
        "ordered": _ordered,
        "segments": _segments,
        "coordinates": _coordinates,
        "sparse": _sparse,
        "arranged": _arranged,
        "distance": _distance,
        "differences": _differences,
        "ctc": _ctc,
        "half": _half,
        **WINDOWS,
        **DISTRIBUTIONS,
    }
)
