"""How far rounding may carry the results of a graph from exact ones, for each element of its own.

The estimate is Monte Carlo arithmetic (Parker, "Monte Carlo Arithmetic: exploiting randomness in floating-point
arithmetic", 1997): the graph is interpreted several times, and each time whatever is rounded is moved up or down at
random, by more than rounding does. How far results move is how far rounding can carry them: through cancellation and
ill-conditioned statistics, and across the kinks of maxima that nearly tie, where no fixed tolerance would hold.

By how much a value is moved follows from what is known of its operator's error:

- of a sum of n products, by ``sqrt(n) * eps`` of the sum of their magnitudes. n roundings, as likely up as down, come
  to that (Higham and Mary, "A new approach to probabilistic rounding error analysis", 2019); ``n * eps`` is the bound.
- of a convolution, by that of the greatest in its image: Winograd's transforms mix neighbouring pixels.
- of what chooses, moves or negates elements, by nothing, so that values that nobody rounds keep their bits.
- of `gelu`, by ``eps`` of its operand: where that is negative, what is left of it after a subtraction is small.
- of any other, by ``eps`` of its own magnitude. Attention is given operands that are moved as well, those that it adds
  up by ``sqrt(n) * eps``.

Each is taken `_STEPS` times, for polynomials, fused steps and steps in another order.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from adjoint.errors import VerifyError
from adjoint.ir import Function, Value, is_float, is_param
from adjoint.ops.base import Operator
from adjoint.ops.calls import Call, TupleGet

__all__ = ["Rounded", "estimate_rounding"]

#: Roundings that one operator is taken to make, each of its terms included.
_STEPS = 4.0

#: Times that the graph is interpreted. That all of them move an element by less than a tenth of what is usual happens
#: once in 10**8.
_SAMPLES = 8

#: Operators whose floats are floats that they are given, or their negatives, or whole numbers.
_MOVES = ("broadcast_to", "reshape", "permute", "flip", "slice", "pad", "concat", "one_hot", "take", "take_along_last")
_CHOOSES = ("maximum", "minimum", "max", "min", "max_pool2d", "window_pick", "where", "relu", "clip")
_KEEPS = (
    "negative",
    "abs",
    "sign",
    "floor",
    "cast",
    "stop_gradient",
    "check_range",
    "after",
    "full",
    "iota",
    "constant",
)
_EXACT = frozenset((*_MOVES, *_CHOOSES, *_KEEPS))
#: Sums of their operands' elements, or of products of them.
_SUMS = frozenset(("add", "subtract", "sum", "matmul", "sum_pool2d", "window_spread", "scatter_add", "conv2d")) | {
    "conv2d_weight_gradient"
}
#: Convolutions, and the axes along which Winograd's transforms mix results.
_MIXED = {"conv2d": (2, 3), "conv2d_weight_gradient": (2, 3)}


@dataclass(frozen=True, slots=True)
class Rounded:
    """Results as they are without further rounding, and how far each element of them may be off."""

    exact: tuple[np.ndarray, ...]
    reach: tuple[np.ndarray, ...]


def estimate_rounding(
    function: Function, *arrays: np.ndarray, precision: np.dtype | None = None, seed: int = 0
) -> Rounded:
    """Interpret a graph as it is and with its roundings moved.

    Parameters
    ----------
    function : Function
        A graph without calls.
    *arrays : numpy.ndarray
        An argument for each parameter.
    precision : numpy.dtype, optional
        What code rounds floats to that the graph has in float64; default: the dtypes of the graph.
    seed : int, default 0
        Of the directions in which values are moved.

    Raises
    ------
    VerifyError
        Where the graph calls another function.
    """
    order = [value for value in function.values() if not is_param(value)]
    for value in order:
        if isinstance(value.op, Call | TupleGet):
            raise VerifyError(
                f"{value.op.name} has no reference of its own; inline the calls of @{function.name} first"
            )
    given: dict[Value, np.ndarray] = dict(zip(function.params, arrays, strict=True))
    with np.errstate(all="ignore"):
        known, steps = _measured(order, given, precision)
        exact = tuple(known[result] for result in function.results)
        reach = [np.zeros(found.shape) for found in exact]
        rng = np.random.default_rng(seed)
        for _ in range(_SAMPLES):
            moved = _moved(order, given, steps, precision, rng)
            for far, result, found in zip(reach, function.results, exact, strict=True):
                np.maximum(far, _distance(moved[result], found), out=far)
    return Rounded(exact, tuple(reach))


def _measured(
    order: Sequence[Value], given: Mapping[Value, np.ndarray], precision: np.dtype | None
) -> tuple[dict[Value, np.ndarray], dict[Value, np.ndarray]]:
    """Values as they are, and by how much those that code rounds may be off by their own operator."""
    known, steps = dict(given), dict[Value, np.ndarray]()
    off: set[Value] = set()
    for value in order:
        inputs = [known[operand] for operand in value.inputs]
        made = known[value] = _reference(value, inputs)
        rounded = value.op.name not in _EXACT
        if not is_float(value.dtype) or not (rounded or any(operand in off for operand in value.inputs)):
            continue
        off.add(value)
        narrows = value.op.name == "cast" and value.dtype.itemsize <= value.inputs[0].dtype.itemsize
        if rounded or narrows:
            size = _STEPS * _epsilon(precision or value.dtype) * _magnitude(value, inputs, made)
            steps[value] = np.where(np.isfinite(size), size, 0.0)
    return known, steps


def _epsilon(dtype: np.dtype) -> float:
    """Half the distance from 1 to the next float."""
    bits = {"float64": 53, "float32": 24, "float16": 11, "bfloat16": 8}
    return 2.0 ** -bits[dtype.name]


def _magnitude(value: Value, inputs: Sequence[np.ndarray], made: np.ndarray) -> np.ndarray:
    """What an operator's error is relative to, times the root of how many roundings add up in it."""
    name = value.op.name
    if name in _SUMS:
        whole = _added(value, [np.abs(x) if x.dtype.kind == "f" else x for x in inputs])
        count = _added(value, [np.ones_like(x) if x.dtype.kind == "f" else x for x in inputs])
        if name in _MIXED and whole.size:
            whole = np.broadcast_to(np.max(whole, _MIXED[name], keepdims=True), whole.shape)
        return np.asarray(np.sqrt(np.maximum(count, 1.0)) * whole)
    if name == "gelu":
        return np.asarray(np.abs(inputs[0]), np.float64)
    terms = max(max((x.size for x in inputs), default=1) / max(made.size, 1), 1.0)
    return np.asarray(np.sqrt(terms) * np.abs(made).astype(np.float64))


def _added(value: Value, inputs: Sequence[np.ndarray]) -> np.ndarray:
    """The sum that an operator makes, nothing subtracted."""
    if value.op.name == "subtract":
        return np.asarray(inputs[0] + inputs[1]).astype(np.float64)
    return _reference(value, inputs).astype(np.float64)


def _moved(
    order: Sequence[Value],
    given: Mapping[Value, np.ndarray],
    steps: Mapping[Value, np.ndarray],
    precision: np.dtype | None,
    rng: np.random.Generator,
) -> dict[Value, np.ndarray]:
    """Values, each moved by its step, up or down, before others are computed from it."""
    known = dict(given)
    for value in order:
        inputs = [known[operand] for operand in value.inputs]
        if value.op.name.startswith("attention"):
            size = _STEPS * _epsilon(precision or value.dtype)
            inputs = [x + size * many * x * _around(rng, x) for x, many in zip(inputs, _terms(inputs), strict=True)]
            inputs = [x.astype(value.dtype) for x in inputs]
        made = _reference(value, inputs)
        step = steps.get(value)
        known[value] = made if step is None else (made + step * _around(rng, made)).astype(made.dtype)
    return known


def _terms(inputs: Sequence[np.ndarray]) -> list[float]:
    """For each operand of attention the root of how many of its elements are added up; the first two make scores."""
    q, k, *others = inputs
    root = max(q.shape[-2], k.shape[-2], 1) ** 0.5
    return [1.0, 1.0, *(root if x.ndim == q.ndim else 1.0 for x in others)]


def _reference(value: Value, inputs: Sequence[np.ndarray]) -> np.ndarray:
    assert isinstance(value.op, Operator)
    return value.op.reference(*inputs)


def _around(rng: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Numbers around 0 as large as 1 on average. Of one size alone, two in a row would cancel too often."""
    return rng.uniform(-(3.0**0.5), 3.0**0.5, like.shape)


def _distance(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far elements are apart; infinitely where one of them is no number."""
    apart = np.abs(a.astype(np.float64) - b.astype(np.float64))
    return np.where((a == b) | (np.isnan(a) & np.isnan(b)), 0.0, np.where(np.isnan(apart), np.inf, apart))
