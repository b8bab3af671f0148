"""Rounding error estimates: evaluate a graph in wider floats, with an error bound for every element.

Compiled code sums in another order than NumPy, and so does each BLAS; none of them is exact. Here each value is
computed in floats of twice the width (float32 in float64, float64 in `numpy.longdouble`), together with the error that
rounding to its own dtype may cause in each element.

- The error of a sum of n products is at most ``n u sum |a| |b|`` [1]_, where u is the unit roundoff, and by a rule of
  thumb [2]_ about ``sqrt(n) u sum |a| |b|``, because errors of both signs cancel. The factor used is ``sqrt(n) + 1``,
  since errors of a few terms need not cancel.
- The propagation to later values is determined by random trials: the graph is evaluated several times more, with every
  value randomly perturbed by the error of its own operator. The spread of an element estimates its error [3]_. This
  captures cancellation, division by small numbers and comparisons of equal numbers, element by element.

.. [1] N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., SIAM 2002: sections 3.1 (inner
   products) and 3.5 (products of matrices).
.. [2] The same, section 2.8; proved for independent errors by N. J. Higham and T. Mary, A new approach to probabilistic
   rounding error analysis, SIAM J. Sci. Comput. 41 (2019).
.. [3] J. Vignes, A stochastic arithmetic for reliable scientific computation, Math. Comput. Simulation 35 (1993).
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np

from adjoint.ir import DTYPES, Function, Value, is_float, is_param
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Elementwise, Operator
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Branch, Control, Scan, While
from adjoint.ops.decompositions import SWEEPS
from adjoint.transforms.inline_calls import inline_calls

__all__ = ["rounding", "unit_roundoff"]

_WIDER: dict[np.dtype, np.dtype] = {
    DTYPES["f16"]: np.dtype(np.float64),
    DTYPES["bf16"]: np.dtype(np.float64),
    np.dtype(np.float32): np.dtype(np.float64),
    np.dtype(np.float64): np.dtype(np.longdouble),
}
#: Error of an elementwise operator in unit roundoffs: the polynomials of vector math have up to four.
_ELEMENTWISE = 4
#: That of functions that are composed of several of these.
_SPECIAL = 16
#: Additional error factor of Winograd convolutions, which add and subtract before they multiply.
_WINOGRAD = 3
#: Number of trials, and the factor from their root mean square to the bound.
_TRIALS, _SPREAD = 8, 4.0


def unit_roundoff(dtype: Any) -> float:
    """Half the distance from 1 to the next number of a dtype; 2**-24 for float32."""
    bits = {DTYPES["f16"]: 11, DTYPES["bf16"]: 8, DTYPES["f32"]: 24, DTYPES["f64"]: 53}
    return float(2.0 ** -bits[np.dtype(dtype)])


def rounding(function: Function, *arrays: Any) -> tuple[tuple[np.ndarray, np.ndarray], ...]:
    """The results of a function in wider floats, with an error bound for every element.

    Parameters
    ----------
    function : Function
        The function, with any operators; calls are inlined.
    *arrays : array_like
        One argument per parameter, of its dtype, assumed to be exact.

    Returns
    -------
    tuple of (numpy.ndarray, numpy.ndarray)
        For each result the value and the error bound. For integers and bool, the bound is 0, or 1 if the element
        changed in a trial.
    """
    known: list[_Known] = []
    for parameter, array in zip(function.params, arrays, strict=True):
        given = np.asarray(array, parameter.dtype).astype(_wider(parameter.dtype))
        known.append(_Known(given, [given] * _TRIALS, np.zeros(given.shape)))
    with np.errstate(all="ignore"):
        results = _results(inline_calls(function), known, np.random.default_rng(0))
        return tuple((found.exact, _bound(found)) for found in results)


@dataclass(frozen=True, slots=True)
class _Known:
    """A value in wider floats: unperturbed, in each trial, and the error of its own operator."""

    exact: np.ndarray
    trials: list[np.ndarray]
    own: np.ndarray


def _results(function: Function, given: Sequence[_Known], rng: np.random.Generator) -> list[_Known]:
    """The results of a function, before they are perturbed by the errors of their own operators."""
    known = dict(zip(function.params, given, strict=True))
    several: dict[Value, list[_Known]] = {}
    kept = dict(known)
    for value in function.values():
        if is_param(value):
            continue
        if isinstance(value.op, Control):
            several[value] = _controlled(value.op, [known[v] for v in value.inputs], rng)
            continue
        if isinstance(value.op, TupleGet):
            found = several[value.inputs[0]][value.op.index]
        else:
            found = _computed(value, [known[v] for v in value.inputs])
        kept[value], known[value] = found, _moved(found, rng)
    return [kept[result] for result in function.results]


def _controlled(op: Control, inputs: list[_Known], rng: np.random.Generator) -> list[_Known]:
    """The results of a loop or branch. Conditions must not depend on rounding: they are those of the exact values."""
    bodies = [inline_calls(body) for body in op.bodies()]
    if isinstance(op, Branch):
        return _results(bodies[0 if bool(inputs[0].exact) else 1], inputs[1:], rng)
    if isinstance(op, While):
        consts, carries = inputs[: op.consts], inputs[op.consts :]
        while bool(_results(bodies[0], [*consts, *carries], rng)[0].exact):
            carries = [_moved(x, rng) for x in _results(bodies[1], [*consts, *carries], rng)]
        return [replace(x, own=np.zeros_like(x.own)) for x in carries]
    assert isinstance(op, Scan)
    fixed = op.consts + op.carries
    carries, rows = inputs[op.consts : fixed], {}
    for n in reversed(range(op.length)) if op.reverse else range(op.length):
        own = [_row(x, n) for x in inputs[fixed:]]
        made = _results(bodies[0], [*inputs[: op.consts], *carries, *own], rng)
        carries, rows[n] = [_moved(x, rng) for x in made[: op.carries]], made[op.carries :]
    # The error of the last operator of a carry is part of its trials.
    carries = [replace(x, own=np.zeros_like(x.own)) for x in carries]
    return [*carries, *(_stacked([rows[n][i] for n in range(op.length)]) for i in range(len(rows[0])))]


def _row(x: _Known, n: int) -> _Known:
    exact = np.asarray(x.exact[n])
    return _Known(exact, [np.asarray(trial[n]) for trial in x.trials], np.zeros(exact.shape))


def _stacked(rows: list[_Known]) -> _Known:
    trials = [np.stack(trial) for trial in zip(*(x.trials for x in rows), strict=True)]
    return _Known(np.stack([x.exact for x in rows]), trials, np.stack([x.own for x in rows]))


def _wider(dtype: np.dtype) -> np.dtype:
    return _WIDER.get(dtype, dtype)


def _bound(known: _Known) -> np.ndarray:
    exact = known.exact
    if exact.dtype.kind in "biu":
        differs: np.ndarray = np.any([trial != exact for trial in known.trials], axis=0).astype(np.float64)
        return differs
    exact = _at_least_double(exact)
    squares = [np.where(exact == trial, 0, exact - trial) ** 2 for trial in map(_at_least_double, known.trials)]
    spread: np.ndarray = known.own + _SPREAD * np.sqrt(sum(squares) / _TRIALS)
    # Infinities and NaN must agree; if only a trial is not finite, any value is accepted.
    return np.where(np.isfinite(exact), np.where(np.isnan(spread), np.inf, spread), 0)


def _at_least_double(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.itemsize >= 8 else array.astype(np.float64)


def _moved(known: _Known, rng: np.random.Generator) -> _Known:
    """The value with its trials randomly perturbed by the error of its operator."""
    if not known.own.any():
        return known
    trials = [_at_least_double(trial) + rng.standard_normal(known.own.shape) * known.own for trial in known.trials]
    return _Known(known.exact, [np.asarray(trial, known.exact.dtype) for trial in trials], known.own)


def _computed(value: Value, inputs: list[_Known]) -> _Known:
    op = value.op
    assert isinstance(op, Operator)
    # The reference of a cast would round to the dtype that is widened here.
    run = _kept if op.name == "cast" and value.dtype in _WIDER else op.reference

    def made(*operands: np.ndarray) -> np.ndarray:
        wide: np.ndarray = np.asarray(run(*operands)).astype(_wider(value.dtype))
        if value.dtype in _WIDER:  # overflow occurs in the value's own dtype
            most = float(ml_dtypes.finfo(value.dtype).max)  # type: ignore[no-untyped-call]
            wide = np.where(abs(wide) > most, np.copysign(np.inf, wide), wide)
        return wide

    exact = made(*(x.exact for x in inputs))
    own = np.zeros(exact.shape)
    if is_float(value.dtype):
        own = unit_roundoff(value.dtype) * _own(value, made, exact, [x.exact for x in inputs])
    unmoved = all(trial is x.exact for x in inputs for trial in x.trials)
    return _Known(exact, [exact] * _TRIALS if unmoved else _trials(made, inputs), own)


def _kept(x: np.ndarray) -> np.ndarray:
    return x


def _trials(made: Callable[..., np.ndarray], inputs: list[_Known]) -> list[np.ndarray]:
    return [made(*operands) for operands in zip(*(x.trials for x in inputs), strict=True)]


def _own(value: Value, made: Callable[..., np.ndarray], exact: np.ndarray, operands: list[np.ndarray]) -> np.ndarray:
    """The error of an operator with exact operands, in unit roundoffs."""
    op = value.op
    size = abs(_at_least_double(exact))
    if op.name in _TERMS:
        sizes = [abs(x) if is_float(v.dtype) else x for x, v in zip(operands, value.inputs, strict=True)]
        size = _at_least_double(made(*sizes)) * (np.sqrt(_TERMS[op.name](value)) + 1)
        if op.name.startswith("conv2d") and size.size:
            # Winograd's transforms combine neighbours, so errors are relative to the maximum of an image.
            size = np.broadcast_to(_WINOGRAD * size.max((2, 3), keepdims=True), size.shape)
    elif op.name in ("centred_squares", "present_squares", "sum_exp"):
        size = size * (np.sqrt(operands[0].size / max(exact.size, 1)) + _ELEMENTWISE)
    elif op.name.startswith("attention") or op.name in _FACTORIZATIONS:
        size = _of_inner_sums(value, made, exact, operands)
    elif op.name == "gelu":
        # What remains of a negative operand after the subtraction is small, but its error is that of the operand.
        size = _ELEMENTWISE * abs(_at_least_double(operands[0]))
    elif op.name in ("lgamma", "polygamma"):  # around the zeros, the error is that of the terms
        size = _SPECIAL * np.maximum(size, 1)
    elif op.name in ("asin", "acos", "asinh", "acosh", "atanh", "erfc", "lgamma"):
        size = _SPECIAL * size
    elif isinstance(op, Elementwise) or op.name == "normalize":
        size = size * _ELEMENTWISE
    elif value.dtype in _WIDER:
        size = np.zeros_like(size)  # moving values does not round them
    return np.where(np.isfinite(size), size, 0)


def _of_inner_sums(
    value: Value, made: Callable[..., np.ndarray], exact: np.ndarray, operands: list[np.ndarray]
) -> np.ndarray:
    """The error of attention, its gradients, and factorizations: perturbed operands model that of inner sums."""
    rng = np.random.default_rng(1)
    terms = np.sqrt(max(n for x in operands for n in x.shape[-2:]))
    unit = unit_roundoff(value.dtype)
    squares = np.zeros(exact.shape)
    scaled, size = [(x, x) for x in operands], abs(_at_least_double(exact))
    if value.op.name in _DECOMPOSITIONS and exact.size:  # reflections and rotations combine rows
        scaled = [(x, abs(x).max((-2, -1), keepdims=True)) for x in operands]
        size = np.broadcast_to(size.max(-1, keepdims=True), size.shape)
        terms *= np.sqrt(SWEEPS)  # a row is rotated with each other one in every sweep
    for _ in range(_TRIALS):
        moved = ((x + terms * unit * rng.standard_normal(x.shape) * scale).astype(x.dtype) for x, scale in scaled)
        squares = squares + ((_at_least_double(made(*moved)) - exact) / unit) ** 2
    found: np.ndarray = (terms + _ELEMENTWISE) * size + _SPREAD * np.sqrt(squares / _TRIALS)
    return found


#: Operators that solve linear systems: their errors are those of slightly different matrices.
_DECOMPOSITIONS = frozenset(("orthonormal_factor", "symmetric_eigen", "singular_values"))
_FACTORIZATIONS = _DECOMPOSITIONS | {"cholesky", "solve_triangular", "solve", "determinant"}

#: For operators that compute products or sums of products: the number of terms per element.
_TERMS: dict[str, Callable[[Value], float]] = {
    "matmul": lambda v: v.inputs[0].shape[-2 if v.op.transpose_a else -1],  # type: ignore[attr-defined]
    "conv2d": lambda v: v.inputs[1].type.size / max(v.inputs[1].shape[0], 1),
    "conv2d_weight_gradient": lambda v: v.inputs[1].type.size / max(v.inputs[1].shape[1], 1),
    "conv_transpose2d": lambda v: v.inputs[1].type.size / max(v.inputs[1].shape[1], 1),
    "conv3d": lambda v: v.inputs[1].type.size / max(v.inputs[1].shape[0], 1),
    "conv3d_weight_gradient": lambda v: v.inputs[1].type.size / max(v.inputs[1].shape[1], 1),
    "conv_transpose3d": lambda v: v.inputs[1].type.size / max(v.inputs[1].shape[1], 1),
    "sum": lambda v: v.inputs[0].type.size / max(v.type.size, 1),
    "present_sum": lambda v: v.inputs[0].type.size / max(v.type.size, 1),
    "prod": lambda v: v.inputs[0].type.size / max(v.type.size, 1),
    "sum_pool2d": lambda v: v.op.window[0] * v.op.window[1],  # type: ignore[attr-defined]
    "window_spread": lambda v: v.op.window[0] * v.op.window[1],  # type: ignore[attr-defined]
    "scatter": lambda v: v.inputs[1].shape[-1] + 1 if v.op.reduce in ("add", "prod") else 0,  # type: ignore[attr-defined]
    "cumsum": lambda v: v.shape[v.op.axis],  # type: ignore[attr-defined]
    "cumprod": lambda v: v.shape[v.op.axis],  # type: ignore[attr-defined]
    "linear_recurrence": lambda v: 2 * v.shape[v.op.axis],  # type: ignore[attr-defined]
    "scatter_add": lambda v: max((i.type.size for i in v.inputs if not is_float(i.dtype)), default=1),
}
