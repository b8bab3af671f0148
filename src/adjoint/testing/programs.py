"""Random network-like programs, forward and all gradients, with sizes that exercise every form of kernel.

A number identifies a program: `network` reproduces it anywhere, in float32 or, as the same graph, in float64. The sizes
lead to large register tiles, split sums, packed panels, Winograd convolutions, tiled attention, and edges that are no
multiple of a vector width.
"""

import random
from collections.abc import Callable
from dataclasses import field
from math import prod

import numpy as np

from adjoint import ops
from adjoint.ir import Function, Value, param
from adjoint.lazy_dataclass import dataclass
from adjoint.transforms.differentiate import gradient

__all__ = ["Network", "network"]

#: Sizes of axes, and of long summed axes.
_SIZES = (1, 2, 3, 5, 7, 8, 13, 16, 17, 31, 32, 33, 40, 63, 64, 65, 96, 130)
_LONG = (515, 784, 1024, 2050)

_UNARY: tuple[Callable[[Value], Value], ...] = (
    ops.tanh,
    ops.sigmoid,
    ops.relu,
    ops.silu,
    ops.softplus,
    ops.gelu,
    ops.sin,
    ops.abs,
    ops.erf,
    ops.negative,
    lambda x: ops.exp(ops.multiply(x, 0.3)),
    lambda x: ops.sqrt(ops.add(ops.square(x), 0.5)),
    lambda x: ops.log1p(ops.square(x)),
    lambda x: ops.reciprocal(ops.add(ops.square(x), 1.0)),
)


@dataclass(frozen=True, slots=True)
class Network:
    """A program with arguments: its results are a scalar and the gradients of all parameters.

    Parameters
    ----------
    number : int
        The number that identifies it.
    work : float
        The limit on its work.
    function : Function
        The graph.
    arrays : tuple of numpy.ndarray
        One argument per parameter; all values are float32 numbers, whatever the dtype.
    steps : tuple of str
        The operations applied, in order.
    """

    number: int
    work: float
    function: Function
    arrays: tuple[np.ndarray, ...]
    steps: tuple[str, ...]


@dataclass
class _Maker:
    """A program under construction."""

    random: random.Random
    normal: np.random.Generator
    dtype: np.dtype
    work: float
    params: list[Value] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    steps: list[str] = field(default_factory=list)

    def leaf(self, shape: tuple[int, ...], scale: float = 1.0) -> Value:
        """A new parameter with normally distributed values."""
        array = np.asarray(self.normal.standard_normal(shape) * scale, np.float32)
        self.params.append(param(f"p{len(self.params)}", shape, self.dtype))
        self.arrays.append(array.astype(self.dtype))
        return self.params[-1]

    def size(self, most: float = 1e9) -> int:
        """A random axis size, at most `most`."""
        return self.random.choice([size for size in _SIZES if size <= max(most, 1)])

    def step(self, x: Value) -> Value:
        """Apply one more operation."""
        rank = len(x.shape)
        kinds = [kind for kind, (ranks, weight, _) in _STEPS.items() if rank in ranks for _ in range(weight)]
        kind = self.random.choice(kinds)
        made = _STEPS[kind][2](self, x)
        if made is None:
            return x
        self.steps.append(f"{kind}{list(x.shape)}")
        return made


def network(number: int, dtype: str = "f32", work: float = 4e6) -> Network:
    """A program of a few operations.

    Parameters
    ----------
    number : int
        Number that identifies the program.
    dtype : {"f32", "f64"}, default "f32"
        Dtype of its parameters; the graph is otherwise the same.
    work : float, default 4e6
        Approximate maximum number of multiply-adds per operation; a value has at most a tenth as many elements.
    """
    maker = _Maker(random.Random(number), np.random.default_rng(number), param("x", (), dtype).dtype, work)
    x = maker.leaf(_start(maker))
    for _ in range(maker.random.randint(2, 8)):
        if not x.shape or prod(x.shape) > work / 10:
            break
        x = maker.step(x)
    loss = ops.sum(ops.multiply(x, maker.leaf(x.shape)))
    function = Function(f"network{number}", tuple(maker.params), (loss,))
    return Network(number, work, gradient(function), tuple(maker.arrays), tuple(maker.steps))


def _start(m: _Maker) -> tuple[int, ...]:
    """The initial shape: a matrix, one with a long axis, a batch of sequences, a batch of images."""
    r = m.random
    kind = r.choice(("matrix", "long", "sequences", "sequences", "images", "images"))
    if kind == "matrix":
        return m.size(), m.size()
    if kind == "long":
        shape = r.choice((1, 3, 8, 17)), r.choice(_LONG)
        return shape if r.random() < 0.5 else shape[::-1]
    if kind == "sequences":
        return r.choice((1, 2, 4)), r.choice((m.size(), m.size(), 150, 200)), r.choice((8, 16, 24, 32, 33))
    return r.choice((1, 2, 4)), r.choice((1, 3, 8, 16, 20, 32)), r.randint(4, 24), r.randint(4, 24)


def _binary(m: _Maker, x: Value) -> Value:
    op = m.random.choice((ops.add, ops.multiply, ops.subtract, ops.maximum))
    return op(x, m.leaf(tuple(n if m.random.random() < 0.7 else 1 for n in x.shape)))


def _matmul(m: _Maker, x: Value) -> Value:
    """A product with any transposition; the batch may share the other factor."""
    down, across = m.random.random() < 0.3, m.random.random() < 0.3
    rows, inner = x.shape[-1 if down else -2], x.shape[-2 if down else -1]
    n = m.size(m.work / (prod(x.shape[:-2]) * rows * inner))
    shape = (n, inner) if across else (inner, n)
    batch = x.shape[:-2] if m.random.random() < 0.4 else ()
    first = m.random.random() < 0.3 and not batch and len(x.shape) == 2
    w = m.leaf((*batch, *shape), inner**-0.5)
    if first:
        return ops.matmul(w, x, transpose_a=not across, transpose_b=not down)
    return ops.matmul(x, w, transpose_a=down, transpose_b=across)


def _linear(m: _Maker, x: Value) -> Value:
    n = m.size(m.work / prod(x.shape))
    return ops.linear(x, m.leaf((x.shape[-1], n), x.shape[-1] ** -0.5), m.leaf((n,)))


def _reduce(m: _Maker, x: Value) -> Value:
    op = m.random.choice((ops.sum, ops.mean, ops.max))
    axes = [axis for axis in range(len(x.shape)) if m.random.random() < 0.4]
    axes = axes if axes and len(axes) < len(x.shape) else [m.random.randrange(len(x.shape))]
    scale = prod(x.shape[axis] for axis in axes) ** -0.5 if op is ops.sum else 1.0
    return ops.multiply(op(x, axes, m.random.random() < 0.3), scale)


def _permute(m: _Maker, x: Value) -> Value:
    return ops.permute(x, m.random.sample(range(len(x.shape)), len(x.shape)))


def _slice(m: _Maker, x: Value) -> Value:
    axis = m.random.randrange(len(x.shape))
    low = m.random.randrange(x.shape[axis])
    return ops.slice_axis(x, axis, low, m.random.randint(low + 1, x.shape[axis]))


def _concat(m: _Maker, x: Value) -> Value:
    axis = m.random.randrange(len(x.shape))
    other = m.leaf(tuple(m.size(40) if i == axis else n for i, n in enumerate(x.shape)))
    return ops.concat(*m.random.sample((x, other), 2), axis=axis)


def _pad(m: _Maker, x: Value) -> Value:
    low, high = ([m.random.choice((0, 0, 1, 3)) for _ in x.shape] for _ in range(2))
    return ops.pad(x, low, high)


def _reshape(m: _Maker, x: Value) -> Value:
    cut = m.random.randrange(len(x.shape) - 1)
    return ops.reshape(x, (*x.shape[:cut], x.shape[cut] * x.shape[cut + 1], *x.shape[cut + 2 :]))


def _conv(m: _Maker, x: Value) -> Value | None:
    kernel, stride = m.random.choice((1, 2, 3, 3, 5)), m.random.choice((1, 1, 1, 2))
    padding, channels = m.random.choice((0, kernel // 2)), x.shape[1]
    groups = m.random.choice((1, 1, 1, 1, channels)) if channels > 1 else 1
    if min(x.shape[2:]) + 2 * padding < kernel:
        return None
    window = channels // groups * kernel**2
    out = [n for n in (1, 3, 8, 16, 20, 32) if n * window * prod(x.shape) / channels <= 2 * m.work] or [1]
    w = m.leaf((groups * (1 if groups > 1 else m.random.choice(out)), channels // groups, kernel, kernel), window**-0.5)
    return ops.conv2d(x, w, stride=stride, padding=padding, groups=groups)


def _pool(m: _Maker, x: Value) -> Value | None:
    window, stride = m.random.choice((2, 3)), m.random.choice((1, 2, 3))
    pool = m.random.choice((ops.max_pool2d, ops.avg_pool2d))
    return pool(x, window, stride, m.random.choice((0, 0, 1))) if min(x.shape[2:]) >= window else None


def _batch_norm(m: _Maker, x: Value) -> Value | None:
    channels = (x.shape[1],)
    if prod(x.shape) // x.shape[1] < 4:
        return None
    mean, variance, scale, shift = (m.leaf(channels) for _ in range(4))
    return ops.batch_norm(x, mean, ops.square(variance), scale, shift)[0]


def _attention(m: _Maker, x: Value) -> Value:
    q = ops.reshape(x, (1, *x.shape))
    k, v = m.leaf(q.shape), m.leaf(q.shape)
    return ops.reshape(ops.scaled_dot_product_attention(q, k, v, causal=m.random.random() < 0.6), x.shape)


_ANY, _TWO, _THREE, _FOUR = (1, 2, 3, 4), (2, 3, 4), (3,), (4,)

#: By name: the ranks it applies to, its relative frequency, and its implementation.
_STEPS: dict[str, tuple[tuple[int, ...], int, Callable[[_Maker, Value], Value | None]]] = {
    "unary": (_ANY, 2, lambda m, x: m.random.choice(_UNARY)(x)),
    "binary": (_ANY, 2, _binary),
    "matmul": (_TWO, 3, _matmul),
    "linear": (_TWO, 1, _linear),
    "softmax": (_ANY, 1, lambda m, x: ops.softmax(x, m.random.randrange(len(x.shape)))),
    "layer_norm": (_TWO, 1, lambda m, x: ops.layer_norm(x, m.leaf(x.shape[-1:]))),
    "reduce": (_TWO, 1, _reduce),
    "permute": (_TWO, 1, _permute),
    "slice": (_ANY, 1, _slice),
    "concat": (_ANY, 1, _concat),
    "pad": (_ANY, 1, _pad),
    "reshape": (_TWO, 1, _reshape),
    "conv": (_FOUR, 5, _conv),
    "pool": (_FOUR, 2, _pool),
    "batch_norm": (_FOUR, 2, _batch_norm),
    "attention": (_THREE, 3, _attention),
}
