"""Numeric gradient checks: compare vjp rules with finite differences in float64.

`pullback` is a minimal reverse mode, forty lines without activity analysis, calls or checkpoints. It is independent of
`adjoint.transforms.differentiate`, so that each can be tested with the other.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.errors import DifferentiationError, TypeRuleError
from adjoint.ir import Function, Value, is_float, is_param, param, toposort
from adjoint.ops.arithmetic import add
from adjoint.ops.base import Operator
from adjoint.ops.build import full_like
from adjoint.testing.interpreter import interpret

__all__ = ["check_gradients", "numeric_gradient", "pullback"]

#: Step of a finite difference, relative to max(1, abs(element)). It is close to the cube root of float64's epsilon,
#: where truncation error and rounding error are about equal.
STEP = 6e-6

#: Gradients of gradients are compared element by element for inputs of at most this many elements, and along this many
#: random directions for larger ones: an element costs two evaluations of the graph, and there are many more to check.
ELEMENTS, DIRECTIONS = 40, 6


def pullback(results: Sequence[Value], cotangents: Sequence[Value], wrt: Sequence[Value]) -> tuple[Value, ...]:
    """Cotangents of `wrt`, given those of `results`, computed by the vjp rules only.

    Parameters
    ----------
    results : sequence of Value
        Float values that depend on `wrt`.
    cotangents : sequence of Value
        One per result, of its type.
    wrt : sequence of Value
        Float values anywhere in the graph.

    Returns
    -------
    tuple of Value
        One per value in `wrt`, of its type; zeros if no result depends on it.

    Raises
    ------
    DifferentiationError
        If there is a call, or another op without a vjp, on the path.
    """
    flowing: dict[Value, Value] = {}

    def accumulate(value: Value, ct: Value) -> None:
        flowing[value] = add(flowing[value], ct) if value in flowing else ct

    for result, ct in zip(results, cotangents, strict=True):
        accumulate(result, ct)
    wanted = set(wrt)
    order = toposort(results)
    active = set(wanted)
    for value in order:
        if any(operand in active for operand in value.inputs):
            active.add(value)
    for value in reversed(order):
        if value not in flowing or value not in active or is_param(value):
            continue
        for operand, found in zip(value.inputs, _vjp(value, flowing[value]), strict=True):
            if found is not None and operand in active:
                _require_type(value, operand, found)
                accumulate(operand, found)
        if value not in wanted:
            del flowing[value]
    return tuple(flowing[value] if value in flowing else full_like(value, 0.0) for value in wrt)


def _vjp(value: Value, ct: Value) -> tuple[Value | None, ...]:
    if not isinstance(value.op, Operator) or type(value.op).vjp is Operator.vjp:
        raise DifferentiationError(f"{value.op.name} has no vjp; inline calls first, or define one")
    return value.op.vjp(ct, value, *value.inputs)


def _require_type(value: Value, operand: Value, ct: Value) -> None:
    if ct.type != operand.type:
        raise TypeRuleError(f"{value.op.name}: vjp returns {ct.type} for an operand of type {operand.type}; correct it")


def check_gradients(
    build: Callable[..., Value | Sequence[Value]],
    inputs: Sequence[Any],
    rtol: float = 1e-5,
    order: int = 2,
    *,
    seed: int = 0,
) -> None:
    """Compare gradients with central differences, in float64.

    Parameters
    ----------
    build : callable
        Maps one graph value per input to one or several results. Results that are not floats are ignored.
    inputs : sequence of array_like
        The point at which to check. Floats are converted to float64 and differentiated; others are passed unchanged.
        Keep the values at least 1e-4 away from kinks and ties.
    rtol : float, default 1e-5
        Relative tolerance of each element; the absolute tolerance is 1e-2 of it, relative to the greatest element or 1.
    order : int, default 2
        With 2, check also the gradients of the gradient, with respect to inputs and cotangent; and so on. Inputs of
        more than 40 elements are then checked along six random directions instead of element by element.
    seed : int, default 0
        Seed of the random cotangents.

    Raises
    ------
    AssertionError
        If a gradient and its finite difference differ, with the input and the elements.
    """
    arrays = [_widened(np.asarray(value)) for value in inputs]
    params = [param(f"x{i}", array.shape, array.dtype) for i, array in enumerate(arrays)]
    built = build(*params)
    results = (built,) if isinstance(built, Value) else tuple(built)
    rng = np.random.default_rng(seed)
    for current in range(1, order + 1):
        results = tuple(result for result in results if is_float(result.dtype))
        if not results:
            return
        cotangents = [param(f"ct{current}_{i}", result.shape, result.dtype) for i, result in enumerate(results)]
        weights = [_random_weights(rng, ct) for ct in cotangents]
        wrt = [p for p in params if is_float(p.dtype)]
        gradients = pullback(results, cotangents, wrt)
        primal = Function("primal", tuple(params), results)
        params = [*params, *cotangents]
        exact = Function("gradient", tuple(params), gradients)
        every = None if current == 1 else rng
        _compare(primal, exact, arrays, weights, tuple(p.label for p in wrt), rtol, every)
        results, arrays = gradients, [*arrays, *weights]


def _random_weights(rng: np.random.Generator, ct: Value) -> np.ndarray:
    """Cotangents of both signs, bounded away from 0."""
    weights = rng.uniform(0.5, 1.5, ct.shape) * rng.choice((-1.0, 1.0), ct.shape)
    return np.asarray(weights, ct.dtype)


def _compare(
    primal: Function,
    exact: Function,
    arrays: list[np.ndarray],
    weights: list[np.ndarray],
    names: tuple[str, ...],
    rtol: float,
    rng: np.random.Generator | None,
) -> None:
    """One order: compare the gradient function with finite differences of the weighted sum of the primal's results.

    With `rng`, large inputs are compared along directions that it draws.
    """
    for name, found in zip(names, interpret(exact, *arrays, *weights), strict=True):
        at = next(i for i, p in enumerate(primal.params) if p.label == name)
        if rng is not None and arrays[at].size > ELEMENTS and arrays[at].dtype == np.float64:
            directions = rng.uniform(-1.0, 1.0, (DIRECTIONS, *arrays[at].shape))
            expected = np.array([_slope(primal, arrays, weights, at, STEP * way) / STEP for way in directions])
            found = np.array([np.sum(found * way) for way in directions])
        else:
            expected = numeric_gradient(primal, arrays, weights, at)
        scale = max(1.0, float(np.max(np.abs(expected), initial=0.0)))
        place = f"gradient of {', '.join(sorted({r.op.name for r in primal.results}))} for {name}"
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=1e-2 * rtol * scale, err_msg=place)


def numeric_gradient(
    function: Function, arrays: Sequence[np.ndarray], weights: Sequence[np.ndarray], at: int
) -> np.ndarray:
    """Central differences of ``sum(weight * result)`` with respect to argument `at`, in float64.

    Parameters
    ----------
    function : Function
        The function; the weighted sum of its results is differentiated.
    arrays : sequence of numpy.ndarray
        The arguments.
    weights : sequence of numpy.ndarray
        One per result, of its shape.
    at : int
        Index of the argument, which must be float64.
    """
    result = np.empty(arrays[at].shape)
    for place in np.ndindex(result.shape):
        there = arrays[at][place]
        step = STEP * max(1.0, abs(float(there)))
        way = np.zeros(result.shape, arrays[at].dtype)
        way[place] = step
        # The step is what lies between the two points, which are rounded.
        result[place] = 2 * _slope(function, arrays, weights, at, way) / ((there + step) - (there - step))
    return result


def _slope(
    function: Function, arrays: Sequence[np.ndarray], weights: Sequence[np.ndarray], at: int, way: np.ndarray
) -> float:
    """Half the difference of ``sum(weight * result)`` when argument `at` is moved by `way`, and by its opposite."""
    up, down = (interpret(function, *arrays[:at], arrays[at] + sign * way, *arrays[at + 1 :]) for sign in (1.0, -1.0))
    # Sum differences instead of subtracting sums, so that unchanged terms cancel exactly.
    return float(sum(np.sum(w * _difference(a, b)) for w, a, b in zip(weights, up, down, strict=True)) / 2)


def _difference(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a - b``, and 0 for equal infinities."""
    with np.errstate(invalid="ignore"):
        return np.where(a == b, 0.0, a - b)


def _widened(array: np.ndarray) -> np.ndarray:
    return array.astype(np.float64) if is_float(array.dtype) else array
