"""Recomputation: the same bits, less memory, as late as needed."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from adjoint import ops
from adjoint.ir import Function, param, verify
from adjoint.testing.graphs import arguments, losses
from adjoint.testing.interpreter import interpret
from adjoint.transforms import cse, gradient, inline_calls
from adjoint.transforms.rematerialize import rematerializations, rematerialize
from adjoint.transforms.separate_results import separate_results

SETTINGS = settings(deadline=None, max_examples=60, derandomize=True, suppress_health_check=list(HealthCheck))


def deep(layers, rows=32, width=8):
    """Forward and backward of equal layers, ``tanh(h @ w)``."""
    x = h = param("x", (rows, width))
    weights = [param(f"w{i}", (width, width)) for i in range(layers)]
    for weight in weights:
        h = ops.tanh(ops.matmul(h, weight))
    function = Function("main", (x, *weights), (ops.mean(ops.square(h)),))
    return separate_results(cse(gradient(function, [w.label for w in weights])))


def peak(function):
    return next(rematerializations(function))[0]


def computed(function, name):
    return sum(v.op.name == name for v in function.values())


def test_within_the_budget_nothing_changes():
    function = deep(6)
    assert rematerialize(function, peak(function)) is function


@pytest.mark.parametrize("share", [0.9, 0.7, 0.5])
def test_the_budget_is_kept_by_the_estimate_and_the_bits_by_all(share):
    function = deep(16)
    budget = int(share * peak(function))
    made = rematerialize(function, budget)
    verify(made)
    assert peak(made) <= budget
    arrays = arguments(function, 0)
    for one, other in zip(interpret(function, *arrays), interpret(made, *arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def test_layers_are_computed_again_at_most_once():
    function = deep(16)
    made = rematerialize(function, 0)
    assert computed(function, "matmul") < computed(made, "matmul") <= computed(function, "matmul") + 16


def test_peaks_fall_from_step_to_step_and_the_last_is_far_below():
    peaks = [p for p, _ in rematerializations(deep(25))]
    assert all(b <= a for a, b in pairwise(peaks))
    # Of 25 values at least the square root of that many stay, and as many come back at a time.
    assert peaks[-1] < 0.6 * peaks[0]


def test_the_cheap_is_computed_again_before_the_dear():
    x, w, v = param("x", (32, 8)), param("w", (8, 8)), param("v", (8, 8))
    h = ops.matmul(x, w)
    # Two values of one size that live equally long: a product and an elementwise function of the parameter.
    cheap = ops.exp(ops.multiply(x, ops.sum(x)))
    y = ops.matmul(ops.matmul(ops.add(h, cheap), v), v)
    late = ops.matmul(y, v)
    results = ops.matmul(h, late, transpose_a=True), ops.matmul(cheap, late, transpose_a=True)
    function = Function("f", (x, w, v), results)
    steps = rematerializations(function)
    next(steps)
    _, first = next(steps)
    assert computed(first, "exp") == 2
    assert computed(first, "matmul") == computed(function, "matmul")


def test_a_second_copy_cannot_be_merged_with_the_first():
    made = rematerialize(deep(8), 0)
    assert computed(made, "after")
    assert len(cse(made).values()) == len(made.values())


@SETTINGS
@given(losses(calls=True))
def test_random_gradients_keep_their_bits(function):
    before = separate_results(cse(inline_calls(gradient(function))))
    arrays = arguments(before, 0)
    expected = interpret(before, *arrays)
    for number, (_, made) in enumerate(rematerializations(before)):
        if number % 4 == 1:
            verify(made)
            for one, other in zip(expected, interpret(made, *arrays), strict=True):
                np.testing.assert_array_equal(one, other)
