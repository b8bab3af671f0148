"""Differentiation through calls: TVM gives 0 there without a word; every test here would catch that."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint import ops
from adjoint.errors import DifferentiationError
from adjoint.ir import Function, IRModule, callees, closure, param, parse_function, verify
from adjoint.ops import call
from adjoint.ops.catalogue import OPERATORS
from adjoint.testing.gradients import numeric_gradient
from adjoint.testing.interpreter import interpret
from adjoint.transforms import cse, gradient, inline_calls, vjp
from tests.transforms.operators import Explosive, NoRule, through

X = param("x", (3,), "f64")
Y = param("y", (3,), "f64")
AT_X = np.array([0.3, -1.2, 2.0])
AT_Y = np.array([1.5, 0.7, -0.4])

WAVE = Function("wave", (X, Y), (ops.multiply(ops.sin(X), ops.exp(Y)),))


def derivatives(function, *arrays, **options):
    made = gradient(function, **options)
    verify(made)
    assert parse_function(str(made), {**OPERATORS, Explosive.name: Explosive}) == made
    found = interpret(made, *arrays)
    flat = interpret(inline_calls(made), *arrays)
    for one, other in zip(found, flat, strict=True):
        np.testing.assert_array_equal(one, other)
    return found[len(function.results) :]


def summed(value, *params):
    return Function("f", params or (X, Y), (ops.sum(value),))


def test_the_gradient_through_a_call_is_not_zero():
    dx, dy = derivatives(summed(call(WAVE, X, Y)), AT_X, AT_Y)
    np.testing.assert_allclose(dx, np.cos(AT_X) * np.exp(AT_Y), rtol=1e-14)
    np.testing.assert_allclose(dy, np.sin(AT_X) * np.exp(AT_Y), rtol=1e-14)


def test_a_callee_called_twice_is_differentiated_once():
    once = call(WAVE, X, Y)
    function = summed(call(WAVE, once, Y))
    made = gradient(function)
    assert [f.name for f in callees(made)] == ["wave", "vjp_wave"]
    inner = np.sin(AT_X) * np.exp(AT_Y)
    dx, _ = derivatives(function, AT_X, AT_Y)
    np.testing.assert_allclose(dx, np.cos(inner) * np.exp(AT_Y) * np.cos(AT_X) * np.exp(AT_Y), rtol=1e-13)


def test_equal_callees_that_are_different_objects_are_differentiated_once():
    def wave():
        return Function("wave", (X, Y), (ops.multiply(ops.sin(X), ops.exp(Y)),))

    made = gradient(summed(ops.add(call(wave(), X, Y), call(wave(), Y, X))))
    assert [f.name for f in closure((made,))] == ["wave", "vjp_wave", "f_adjoint"]


def test_only_what_varies_is_asked_for():
    made = gradient(summed(call(WAVE, X, Y)), wrt="x")
    (rule,) = (f for f in callees(made) if f.name == "vjp_wave")
    assert len(rule.results) == 1
    both = gradient(summed(ops.add(call(WAVE, X, Y), call(WAVE, X, ops.stop_gradient(Y)))))
    assert sorted(f.name for f in callees(both)) == ["vjp_wave", "vjp_wave_1", "wave"]


def test_tuples_and_results_that_nobody_takes():
    several = Function("several", (X, Y), (ops.square(X), ops.cast(Y, "i32"), ops.multiply(X, Y), ops.exp(Y)))
    first, whole, third, _ = call(several, X, Y)
    function = summed(ops.add(first, ops.multiply(third, ops.cast(whole, "f64"))))
    dx, dy = derivatives(function, AT_X, AT_Y)
    np.testing.assert_allclose(dx, 2 * AT_X + AT_Y * np.trunc(AT_Y), rtol=1e-14)
    np.testing.assert_allclose(dy, AT_X * np.trunc(AT_Y), rtol=1e-14)


def test_results_that_are_parameters_constants_and_each_other():
    y = ops.exp(X)
    echo = Function("echo", (X, Y), (y, X, y, ops.full(2.0, (3,), "f64"), Y))
    parts = call(echo, X, X)
    total = parts[0]
    for part in parts[1:]:
        total = ops.add(total, part)
    (dx,) = derivatives(summed(total, X), AT_X)
    np.testing.assert_allclose(dx, 2 * np.exp(AT_X) + 2, rtol=1e-14)


def test_a_call_through_which_nothing_flows_makes_no_vjp():
    still = Function("still", (X,), (ops.stop_gradient(X), ops.floor(X), ops.full(1.0, (3,), "f64")))
    stopped, floor, one = call(still, X)
    made = gradient(summed(ops.multiply(ops.add(stopped, ops.add(floor, one)), X), X))
    assert [f.name for f in callees(made)] == ["still"]
    np.testing.assert_allclose(interpret(made, AT_X)[1], AT_X + np.floor(AT_X) + 1)


def test_results_are_kept_apart_by_what_they_vary_with():
    """The second result varies with y only; so does what has no rule behind it."""
    apart = Function("apart", (X, Y), (ops.exp(X), ops.exp(Y)))
    first, second = call(apart, X, Y)
    (dx,) = derivatives(summed(ops.multiply(first, through(Explosive, second))), AT_X, AT_Y, wrt="x")
    np.testing.assert_allclose(dx, np.exp(AT_X) * np.exp(AT_Y), rtol=1e-14)


def test_missing_rules_in_callees_are_listed_with_those_outside():
    inner = Function("inner", (X,), (through(NoRule, X, "deep"),))
    outer = Function("outer", (X,), (call(inner, ops.sin(X)),))
    function = summed(through(NoRule, ops.add(call(outer, X), call(inner, X)), "top"), X)
    with pytest.raises(DifferentiationError) as caught:
        gradient(function)
    assert (
        "no_rule at %top in @f, no_rule at %deep in @inner; define one, or insert stop_gradient before them"
        in caught.value.message
    )


def test_second_order_through_calls():
    s = param("s", (), "f64")
    cube = Function("cube", (s,), (ops.multiply(ops.square(s), s),))
    function = Function("f", (s,), (call(cube, call(cube, s)),))
    for order in range(3):
        function = gradient(function, result=order)
        verify(function)
    at = 1.1
    expected = [at**9, 9 * at**8, 72 * at**7, 504 * at**6]
    np.testing.assert_allclose([float(r) for r in interpret(function, np.array(at))], expected, rtol=1e-12)
    names = [f.name for f in closure((function,))]
    assert len(set(names)) == len(names)
    assert IRModule(tuple(closure((function,))))["f_adjoint_adjoint_adjoint"] == function


def test_calling_a_gradient_and_differentiating_that():
    """d/dx of sum(y * d/dx sum(sin(x))) is -y sin(x)."""
    inner = gradient(Function("s", (X,), (ops.sum(ops.sin(X)),)))
    _, slope = call(inner, X)
    dx, dy = derivatives(summed(ops.multiply(Y, slope)), AT_X, AT_Y)
    np.testing.assert_allclose(dx, -AT_Y * np.sin(AT_X), rtol=1e-14)
    np.testing.assert_allclose(dy, np.cos(AT_X), rtol=1e-14)


def test_vjp_of_a_function_with_calls():
    made = vjp(Function("f", (X, Y), (call(WAVE, X, Y), call(WAVE, Y, X))))
    verify(made)
    ct = np.array([1.0, -2.0, 0.5])
    dx, _ = interpret(made, AT_X, AT_Y, ct, ct)
    expected = ct * (np.cos(AT_X) * np.exp(AT_Y) + np.sin(AT_Y) * np.exp(AT_X))
    np.testing.assert_allclose(dx, expected, rtol=1e-14)


def test_a_name_that_is_taken_is_not_taken_again():
    taken = Function("vjp_wave", (X,), (ops.exp(X),))
    made = gradient(summed(ops.add(call(WAVE, X, Y), call(taken, X))))
    verify(made)
    names = {f.name for f in closure((made,))}
    assert names == {"wave", "vjp_wave", "vjp_wave_1", "vjp_vjp_wave", "f_adjoint"}


def test_inlining_and_merging_leaves_one_forward_pass():
    """What the vjp function computes again is merged with what was computed before."""
    called = cse(inline_calls(gradient(summed(call(WAVE, X, Y)))))
    direct = cse(gradient(inline_calls(summed(call(WAVE, X, Y)))))
    assert sorted(v.op.name for v in called.values()) == sorted(v.op.name for v in direct.values())


def test_calls_that_nest_deeper_than_the_recursion_limit():
    depth = sys.getrecursionlimit() + 100
    function = Function("f", (X,), (X,))
    for level in range(depth):
        function = Function(f"f{level}", (X,), (ops.sin(call(function, X)),))
    made = gradient(Function("top", (X,), (ops.sum(call(function, X)),)))
    assert len(closure((made,))) == 2 * depth + 3
    verify(made)


def test_a_chain_of_calls_in_calls():
    function = Function("f", (X,), (X,))
    value, slope = AT_X, np.ones(3)
    for level in range(50):
        function = Function(f"f{level}", (X,), (ops.sin(call(function, X)),))
        value, slope = np.sin(value), slope * np.cos(value)
    (dx,) = derivatives(summed(call(function, X), X), AT_X)
    np.testing.assert_allclose(dx, slope, rtol=1e-12)


def test_a_tower_of_shared_callees_stays_linear():
    """Twenty levels that call the one below twice: 2**20 paths, a vjp function a level."""
    function = Function("f0", (X,), (ops.multiply(ops.sin(X), 0.5),))
    for level in range(1, 20):
        function = Function(f"f{level}", (X,), (call(function, call(function, X)),))
    made = gradient(Function("top", (X,), (ops.sum(call(function, X)),)))
    assert len(closure((made,))) == 41


UNARY = [ops.sin, ops.tanh, ops.square, lambda x: ops.multiply(x, 0.5)]
BINARY = [ops.add, ops.subtract, ops.multiply]


@st.composite
def bodies(draw, name, known):
    """A function of two vectors, with one to three results, that may call those in `known`."""
    values = [X, Y]
    pick = st.sampled_from
    for _ in range(draw(st.integers(1, 5))):
        kind = draw(st.integers(0, 2))
        if kind == 0:
            values.append(draw(pick(UNARY))(draw(pick(values))))
        elif kind == 1 or not known:
            values.append(draw(pick(BINARY))(draw(pick(values)), draw(pick(values))))
        else:
            made = call(draw(pick(known)), draw(pick(values)), draw(pick(values)))
            values.extend(made if isinstance(made, tuple) else (made,))
    results = draw(st.lists(pick(values), min_size=1, max_size=3))
    return Function(name, (X, Y), tuple(results))


@st.composite
def programs(draw):
    known = []
    for number in range(draw(st.integers(1, 3))):
        known.append(draw(bodies(f"f{number}", known)))
    return Function("main", (X, Y), (ops.mean(draw(bodies("last", known)).results[0]),))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_any_program_with_calls_agrees_with_difference_quotients(function):
    for at, derivative in enumerate(derivatives(function, AT_X, AT_Y)):
        expected = numeric_gradient(function, [AT_X, AT_Y], [np.array(1.0)], at)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(derivative, expected, rtol=1e-5, atol=1e-6 * scale)
