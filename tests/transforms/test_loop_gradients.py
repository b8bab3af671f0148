"""Derivatives of loops and branches, backwards, forwards, and along a mapped axis."""

import itertools

import numpy as np
import pytest

from adjoint import CompileOptions, Function, compile, ops, param
from adjoint.errors import DifferentiationError
from adjoint.ops.contract import MatMul
from adjoint.ops.control import Scan
from adjoint.pipeline import after_graph_passes
from adjoint.transforms import gradient, jvp, vectorize

ONE = CompileOptions(threads=1)
RNG = np.random.default_rng(5)
EXAMPLES = 3


def wide(name, *shape, dtype="f64"):
    return param(name, shape, dtype)


def nest():
    """A scalar from a loop, backwards, over a loop and a branch."""
    q, start, rows = wide("q", 4), wide("start", 4), wide("rows", 5, 3, 4)

    def outer(carry, row):
        def inner(state, x):
            return ops.tanh(state * q + x), (state * x).sum()

        state, sums = ops.scan(inner, carry, row)
        total = sums.sum()
        chosen = ops.cond(total < 0.3, lambda x: (x * 2.0, x.sum()), lambda x: (ops.sin(x), x.sum() * 0.5), state * q)
        return chosen[0] * 0.5, chosen[1] + total

    last, totals = ops.scan(outer, start, rows, reverse=True)
    return Function("nest", (q, start, rows), ((last * last).sum() + (totals * totals).sum(),))


@pytest.fixture(scope="module")
def differentiated():
    """The function, its gradient, their arguments and a direction; both compiled."""
    function = nest()
    derived = gradient(function)
    arrays = [RNG.normal(size=p.shape) for p in function.params]
    direction = [RNG.normal(size=p.shape) for p in function.params]
    return derived, compile(function, options=ONE), compile(derived, options=ONE), arrays, direction


def along(run, arrays, direction, h=1e-6):
    """Central differences of results along a direction."""
    up, down = (run(*(a + sign * h * d for a, d in zip(arrays, direction, strict=True))) for sign in (1, -1))
    return [(u - d) / (2 * h) for u, d in zip(np.atleast_1d(up), np.atleast_1d(down), strict=True)]


def test_the_gradient_of_nested_loops_and_branches(differentiated):
    _, run, slopes, arrays, direction = differentiated
    value, *found = slopes(*arrays)
    assert value == run(*arrays)
    (want,) = along(run, arrays, direction)
    np.testing.assert_allclose(sum((g * d).sum() for g, d in zip(found, direction, strict=True)), want, rtol=1e-6)


def test_second_derivatives_in_both_modes(differentiated):
    derived, _, slopes, arrays, direction = differentiated
    wanted = [1, 2, 3]
    forward = compile(jvp(derived, results=wanted), options=ONE)(*arrays, *direction)[4:]
    weights = [ops.constant(d) for d in direction]
    dot = sum(
        (ops.sum(g * w) for g, w in zip(derived.results[1:], weights, strict=True)), start=ops.full(0.0, (), "f64")
    )
    backward = compile(gradient(Function("dot", derived.params, (dot,))), options=ONE)(*arrays)[1:]
    up, down = (slopes(*(a + s * 1e-6 * d for a, d in zip(arrays, direction, strict=True)))[1:] for s in (1, -1))
    for f, b, u, d in zip(forward, backward, up, down, strict=True):
        np.testing.assert_allclose(f, (u - d) / 2e-6, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(f, b, rtol=1e-10, atol=1e-12)


def test_the_gradient_of_each_example(differentiated):
    derived, _, slopes, arrays, _ = differentiated
    many = [RNG.normal(size=(2, *a.shape)) for a in arrays[1:]]
    found = compile(vectorize(derived, (None, 0, 0), 2), options=ONE)(arrays[0], *many)
    for n in range(2):
        for got, want in zip(found, slopes(arrays[0], *(a[n] for a in many)), strict=True):
            np.testing.assert_allclose(got[n], want, rtol=1e-10, atol=1e-12)


def counted():
    """A loop over a branch and a loop whose number of iterations depends on data."""
    q, start, counts = wide("q", 4), wide("start", 4), wide("counts", 5, dtype="i64")

    def step(carry, count):
        grown, n = ops.while_loop(
            lambda state: state[1] < count,
            lambda state: (ops.tanh(state[0]) * 1.5 + 1.0, state[1] + 1),
            (carry * 0.5, ops.full(0, (), "i64")),
        )
        chosen = ops.cond(
            grown.sum() < 3.0, lambda x: (x * 2.0, x.sum()), lambda x: (ops.sin(x), x.sum() * 0.5), grown * q
        )
        return chosen[0], (chosen[1], n)

    last, (sums, steps) = ops.scan(step, start, counts)
    return Function("counted", (q, start, counts), (last, sums, steps, last.sum()))


def test_every_choice_of_mapped_parameters():
    function = counted()
    run = compile(function, options=ONE)
    arrays = [
        RNG.normal(size=(EXAMPLES, 4)), RNG.normal(size=(EXAMPLES, 4)), RNG.integers(0, 4, (EXAMPLES, 5))
    ]  # fmt: skip
    for axes in ((0, 0, 0), (0, None, None), (None, 0, None), (None, None, 0)):
        given = [a if axis == 0 else a[0] for a, axis in zip(arrays, axes, strict=True)]
        found = compile(vectorize(function, axes, EXAMPLES), options=ONE)(*given)
        for n in range(EXAMPLES):
            one = run(*(a[n if axis == 0 else 0] for a, axis in zip(arrays, axes, strict=True)))
            for got, want in zip(found, one, strict=True):
                np.testing.assert_allclose(got[n], want, rtol=1e-12)


def test_forward_mode_through_a_loop_that_data_ends():
    function = counted()
    run = compile(function, options=ONE)
    arrays = [RNG.normal(size=4), RNG.normal(size=4), np.array([0, 3, 1, 0, 2])]
    direction = [RNG.normal(size=4), RNG.normal(size=4), 0]
    found = compile(jvp(function, ["q", "start"], [0, 1, 3]), options=ONE)(*arrays, *direction[:2])
    values, tangents = found[:4], found[4:]
    up, down = (
        run(*(a + s * 1e-6 * d for a, d in zip(arrays[:2], direction, strict=False)), arrays[2]) for s in (1, -1)
    )
    for got, want in zip(values, run(*arrays), strict=True):
        np.testing.assert_array_equal(got, want)
    for tangent, n in zip(tangents, (0, 1, 3), strict=True):
        np.testing.assert_allclose(tangent, (up[n] - down[n]) / 2e-6, rtol=1e-5, atol=1e-7)


def test_reverse_mode_through_a_loop_that_data_ends_is_refused():
    with pytest.raises(DifferentiationError) as error:
        gradient(counted(), "q", 3)
    assert error.value.message.startswith(
        "reverse derivatives need the number of iterations before they run, got a while_loop on the path to the "
        "gradient at %"
    )
    assert error.value.message.endswith("; use scan or fori_loop, or insert stop_gradient")


def recurrent(steps=6):
    weight, bias, hidden = wide("weight", 4, 4), wide("bias", 4), wide("hidden", 3, 4)
    rows = wide("rows", steps, 3, 4)

    def step(h, x):
        new = ops.tanh(h @ weight + x + bias)
        return new, new

    last, outputs = ops.scan(step, hidden, rows)
    return Function("recurrent", (weight, bias, hidden, rows), ((outputs * outputs).sum() + last.sum(),))


def test_a_weight_gets_its_gradient_from_one_product_after_the_loop():
    """And the loop of the values is the loop of the gradient, which saves nothing twice."""
    graph = after_graph_passes(gradient(recurrent()))
    loops = [v for v in graph.values() if isinstance(v.op, Scan)]
    assert [loop.op.reverse for loop in loops] == [False, True]
    products = [v for v in graph.values() if isinstance(v.op, MatMul)]
    assert [[v.shape for v in p.inputs] for p in products] == [[(18, 4), (18, 4)]]
    assert len(loops[0].type.items) == 3, "the carry, the outputs, and the carry before each iteration"
    assert loops[1].op.carries == 1, "nothing is added up in the loop"


def test_the_gradient_of_a_loop_is_that_of_the_unrolled_loop():
    function = recurrent()
    weight, bias, hidden, rows = function.params
    h, total = hidden, ops.full(0.0, (), "f64")
    for n in range(6):
        h = ops.tanh(h @ weight + rows[n] + bias)
        total = total + (h * h).sum()
    unrolled = Function("unrolled", function.params, (total + h.sum(),))
    arrays = [RNG.normal(size=p.shape) for p in function.params]
    found, want = (compile(gradient(f), options=ONE)(*arrays) for f in (function, unrolled))
    for got, other in zip(found, want, strict=True):
        np.testing.assert_allclose(got, other, rtol=1e-12, atol=1e-14)


def test_a_constant_in_another_operator_is_added_up_and_an_unused_one_gets_zeros():
    scale, unused, start = wide("scale", 3), wide("unused", 2), wide("start", 3)
    last, _ = ops.scan(lambda c, _: (ops.sin(c * scale), None), start, length=4)
    function = Function("f", (scale, unused, start), (last.sum(),))
    arrays = [RNG.normal(size=3), RNG.normal(size=2), RNG.normal(size=3)]
    _, slope, nothing, _ = compile(gradient(function), options=ONE)(*arrays)
    run = compile(function, options=ONE)
    for n, unit in enumerate(np.eye(3)):
        (want,) = along(run, arrays, [unit, np.zeros(2), np.zeros(3)])
        np.testing.assert_allclose(slope[n], want, rtol=1e-6)
    assert not nothing.any()


def test_masks_are_the_same_for_all_choices():
    """Vectorization of a branch with a condition for each example computes both sides of it."""
    condition, x = param("condition", (), "bool"), wide("x", 2)
    function = Function("f", (condition, x), (ops.cond(condition, lambda v: v * 2.0, lambda v: v - 1.0, x),))
    for axes in itertools.product((0, None), repeat=2):
        if axes == (None, None):
            continue
        given = np.array([True, False]), np.array([[1.0, 2.0], [3.0, 4.0]])
        args = [a if axis == 0 else a[0] for a, axis in zip(given, axes, strict=True)]
        found = compile(vectorize(function, axes, 2), options=ONE)(*args)
        ones = [[a[n if axis == 0 else 0] for a, axis in zip(given, axes, strict=True)] for n in range(2)]
        assert found.tolist() == [(v * 2.0 if c else v - 1.0).tolist() for c, v in ones]
