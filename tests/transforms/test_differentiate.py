"""Differentiation of one function: against closed forms and difference quotients, in first and higher order."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint import ops
from adjoint.errors import DifferentiationError, InvalidValueError, NameLookupError, TypeRuleError, located
from adjoint.ir import Function, TensorType, param, verify
from adjoint.testing.gradients import numeric_gradient
from adjoint.testing.interpreter import interpret
from adjoint.testing.rounding import unit_roundoff
from adjoint.transforms import gradient, vjp
from tests.closeness import within
from tests.transforms.operators import Explosive, NoRule, NoRuleEither, TooMany, WrongType, through

X = param("x", (3,), "f64")
Y = param("y", (3,), "f64")
AT_X = np.array([0.3, -1.2, 2.0])
AT_Y = np.array([1.5, 0.7, -0.4])


def scalar(value, *params):
    """A function of the sum of a value."""
    return Function("f", params or (X, Y), (ops.sum(value),))


def derivatives(function, *arrays, **options):
    """The derivatives alone, after verifying the function that computes them."""
    made = gradient(function, **options)
    verify(made)
    return interpret(made, *arrays)[len(function.results) :]


def test_one_derivative_a_parameter_in_closed_form():
    dx, dy = derivatives(scalar(ops.multiply(ops.sin(X), ops.exp(Y))), AT_X, AT_Y)
    np.testing.assert_allclose(dx, np.cos(AT_X) * np.exp(AT_Y), rtol=1e-14)
    np.testing.assert_allclose(dy, np.sin(AT_X) * np.exp(AT_Y), rtol=1e-14)


def test_the_original_results_come_first_and_are_the_same_values():
    function = Function("f", (X,), (ops.square(X), ops.sum(ops.exp(X))), {"note": 1})
    made = gradient(function, result=1)
    assert made.name == "f_adjoint"
    assert made.params == function.params
    assert made.results[:2] == function.results
    assert made.attrs == function.attrs
    assert [r.type for r in made.results[2:]] == [X.type]
    assert gradient(function, result=1, name="g").name == "g"


@pytest.mark.parametrize("uses", [1, 2, 3, 7])
def test_several_uses_of_a_value_add_up(uses):
    total = X
    for _ in range(uses - 1):
        total = ops.add(total, X)
    (dx,) = derivatives(scalar(total, X), AT_X)
    np.testing.assert_array_equal(dx, np.full(3, float(uses)))


def test_one_value_as_both_operands():
    (dx,) = derivatives(scalar(ops.multiply(X, X), X), AT_X)
    np.testing.assert_array_equal(dx, 2 * AT_X)
    (dx,) = derivatives(scalar(ops.divide(X, X), X), AT_X)
    np.testing.assert_allclose(dx, np.zeros(3), atol=1e-15)


def test_a_diamond():
    y = ops.exp(X)
    (dx,) = derivatives(scalar(ops.multiply(ops.sin(y), ops.cos(y)), X), AT_X)
    np.testing.assert_allclose(dx, np.cos(2 * np.exp(AT_X)) * np.exp(AT_X), rtol=1e-13)


def test_a_diamond_of_diamonds_is_walked_once():
    """Forty diamonds have 2**40 paths."""
    value = X
    for _ in range(40):
        value = ops.multiply(ops.add(value, value), 0.5)
    made = gradient(scalar(value, X))
    assert len(made.values()) < 400
    np.testing.assert_array_equal(interpret(made, AT_X)[1], np.ones(3))


def test_a_parameter_that_is_not_reached_gets_zeros():
    dx, dy = derivatives(scalar(ops.exp(X)), AT_X, AT_Y)
    np.testing.assert_array_equal(dx, np.exp(AT_X))
    np.testing.assert_array_equal(dy, np.zeros(3))
    constant = Function("f", (X,), (ops.full(2.0, (), "f64"),))
    np.testing.assert_array_equal(derivatives(constant, AT_X)[0], np.zeros(3))


def test_a_result_that_is_the_parameter_itself():
    s = param("s", (), "f64")
    made = gradient(Function("f", (s,), (s,)))
    assert interpret(made, np.array(4.0)) == (4.0, 1.0)


def test_where_to_differentiate():
    function = scalar(ops.multiply(X, ops.square(Y)))
    dx, dy = AT_Y**2, 2 * AT_X * AT_Y
    for wrt, expected in [
        ("y", [dy]),
        (0, [dx]),
        (["y", "x"], [dy, dx]),
        ((1, 0), [dy, dx]),
        (["x", 1], [dx, dy]),
        (None, [dx, dy]),
    ]:
        for found, wanted in zip(derivatives(function, AT_X, AT_Y, wrt=wrt), expected, strict=True):
            np.testing.assert_allclose(found, wanted, rtol=1e-14)


def test_only_float_parameters_are_chosen_by_default():
    i, b = param("i", (3,), "i32"), param("b", (3,), "bool")
    function = Function("f", (i, X, b), (ops.sum(ops.where(b, X, ops.cast(i, "f64"))),))
    made = gradient(function)
    assert [r.type for r in made.results] == [TensorType((), "f64"), X.type]
    assert interpret(made, np.arange(3, dtype=np.int32), AT_X, np.array([True, False, True]))[1].tolist() == [1, 0, 1]


@pytest.mark.parametrize("dtype", ["f32", "f64", "f16", "bf16"])
def test_derivatives_have_the_dtype_of_the_parameter(dtype):
    x = param("x", (2, 3), dtype)
    made = gradient(Function("f", (x,), (ops.sum(ops.cast(ops.square(x), "f32")),)))
    assert made.results[1].type == x.type
    (_, dx) = interpret(made, np.ones((2, 3), x.dtype))
    assert dx.dtype == x.dtype
    assert (dx == 2).all()


def test_derivatives_are_named_after_what_they_are_derivatives_for():
    y = ops.multiply(X, Y).named("y_of_x")
    made = gradient(scalar(ops.sin(y)))
    assert [r.label for r in made.results[1:]] == ["x_adjoint", "y_adjoint"]
    assert "%y_of_x_adjoint: f64[3] = multiply(" in str(made)


def test_names_of_the_user_are_kept():
    """A cotangent that is a value of the forward pass stays what it is."""
    made = gradient(Function("f", (X,), (ops.sum(X),)))
    assert made.results[0].inputs == (X,)
    factor = ops.exp(Y).named("factor")
    again = gradient(scalar(ops.multiply(X, factor)), wrt="x")
    assert "%factor: f64[3] = exp(%y)" in str(again)


# Second and third order


def test_higher_orders_in_closed_form():
    """x**4: 4 x**3, 12 x**2, 24 x, 24, 0."""
    s = param("s", (), "f64")
    function = Function("f", (s,), (ops.square(ops.square(s)),))
    expected = [1.5**4, 4 * 1.5**3, 12 * 1.5**2, 24 * 1.5, 24.0, 0.0]
    for order in range(1, 6):
        function = gradient(function, result=order - 1)
        verify(function)
        np.testing.assert_allclose([float(r) for r in interpret(function, np.array(1.5))], expected[: order + 1])


def test_third_order_of_a_composition():
    """exp(sin x): f' = f cos, f'' = f (cos^2 - sin), f''' = f cos (cos^2 - 3 sin - 1)."""
    s = param("s", (), "f64")
    function = Function("f", (s,), (ops.exp(ops.sin(s)),))
    for order in range(3):
        function = gradient(function, result=order)
    at = 0.7
    f, sin, cos = np.exp(np.sin(at)), np.sin(at), np.cos(at)
    expected = [f, f * cos, f * (cos**2 - sin), f * cos * (cos**2 - 3 * sin - 1)]
    np.testing.assert_allclose([float(r) for r in interpret(function, np.array(at))], expected, rtol=1e-13)


def test_a_hessian_vector_product():
    """Of x' A x / 2 + sum(x**3): (A + A') v / 2 + 6 x v."""
    rng = np.random.default_rng(0)
    a, v = rng.normal(size=(3, 3)), rng.normal(size=3)
    matrix, vector = param("a", (3, 3), "f64"), param("v", (3,), "f64")
    quadratic = ops.sum(ops.multiply(X, ops.matmul(matrix, X)))
    function = Function("f", (matrix, X), (ops.add(ops.multiply(quadratic, 0.5), ops.sum(ops.power(X, 3.0))),))
    slope = gradient(function, wrt="x").results[1]
    along = Function("g", (matrix, X, vector), (ops.sum(ops.multiply(slope, vector)),))
    (found,) = derivatives(along, a, AT_X, v, wrt="x")
    terms = abs(a + a.T) @ abs(v) + abs(AT_X * v)
    within(found, (a + a.T) @ v / 2 + 6 * AT_X * v, 20 * unit_roundoff("f8") * terms)


# What is not differentiated


def test_stop_gradient_integers_and_comparisons_cut():
    stopped = ops.multiply(X, ops.stop_gradient(ops.exp(X)))
    np.testing.assert_array_equal(derivatives(scalar(stopped, X), AT_X)[0], np.exp(AT_X))
    whole = ops.cast(ops.cast(X, "i64"), "f64")
    np.testing.assert_array_equal(derivatives(scalar(ops.multiply(X, whole), X), AT_X)[0], np.trunc(AT_X))
    chosen = ops.where(ops.greater(X, 0.0), ops.square(X), Y)
    dx, dy = derivatives(scalar(chosen), AT_X, AT_Y)
    np.testing.assert_array_equal(dx, np.where(AT_X > 0, 2 * AT_X, 0))
    np.testing.assert_array_equal(dy, np.where(AT_X > 0, 0, 1))


def test_values_that_do_not_vary_with_what_is_wanted_are_never_asked():
    frozen = through(Explosive, ops.exp(Y))
    (dx,) = derivatives(scalar(ops.multiply(X, frozen)), AT_X, AT_Y, wrt="x")
    np.testing.assert_array_equal(dx, np.exp(AT_Y))


def test_values_that_the_result_does_not_need_are_never_asked():
    function = Function("f", (X,), (ops.sum(X), through(Explosive, X)))
    np.testing.assert_array_equal(derivatives(function, AT_X)[0], np.ones(3))


def test_values_behind_a_cut_are_never_asked():
    behind = through(Explosive, ops.stop_gradient(X))
    before = ops.stop_gradient(through(Explosive, X))
    (dx,) = derivatives(scalar(ops.multiply(ops.add(behind, before), X), X), AT_X)
    np.testing.assert_array_equal(dx, 2 * AT_X)


def test_a_missing_rule_off_the_path_is_no_error():
    frozen = through(NoRule, Y)
    behind = through(NoRule, ops.cast(ops.cast(X, "i32"), "f64"))
    unused = through(NoRule, X)
    function = Function("f", (X, Y), (ops.sum(ops.multiply(X, ops.add(frozen, behind))), unused))
    np.testing.assert_array_equal(derivatives(function, AT_X, AT_Y, wrt="x")[0], AT_Y + np.trunc(AT_X))


def test_all_missing_rules_are_listed_at_once():
    one = through(NoRule, ops.exp(X), "one")
    other = through(NoRuleEither, ops.sin(one), "other")
    third = through(NoRule, Y)
    function = scalar(ops.multiply(other, third))
    with pytest.raises(DifferentiationError) as caught:
        gradient(function)
    message = caught.value.message
    assert message.count("no_rule") == 3
    for place in ("no_rule at %one in @f", "no_rule_either at %other in @f", "no_rule at %4 in @f"):
        assert place in message
    assert "define one, or insert stop_gradient before them" in message


def test_a_missing_rule_is_reported_at_the_line_of_its_value():
    with located("model.py:5"):
        wrong = through(NoRule, X)
    with pytest.raises(DifferentiationError, match=r"\[at model.py:5\]$"):
        gradient(scalar(ops.exp(wrong)))


def test_a_gradient_has_the_lines_of_what_it_is_the_derivative_of():
    with located("model.py:1"):
        one = ops.sin(X)
    with located("model.py:2"):
        other = ops.exp(one)
    with located("model.py:3"):
        both = ops.add(one, other)
    with located("loss.py:4"):
        function = Function("f", (X, Y), (ops.sum(both),))
    made = gradient(function)
    added = [value for value in made.values() if value not in set(function.values())]
    assert [(value.op.name, value.line) for value in added] == [
        ("full", "loss.py:4"),
        ("reshape", "loss.py:4"),
        ("broadcast_to", "loss.py:4"),
        ("multiply", "model.py:2"),
        ("add", "model.py:1"),
        ("cos", "model.py:1"),
        ("multiply", "model.py:1"),
        ("full", Y.line),
    ]


def test_a_rule_that_is_wrong_is_named():
    with pytest.raises(
        DifferentiationError, match="the vjp of too_many must return a tuple with a cotangent or None for each of 1"
    ):
        gradient(scalar(through(TooMany, X)))
    with pytest.raises(DifferentiationError, match=r"the vjp of wrong_type must .* type f64\[3\], got f64\[\]"):
        gradient(scalar(through(WrongType, X)))


# Refusals


def test_refusals():
    i = param("i", (), "i64")
    function = Function("f", (X, i), (ops.sum(X), X, i))
    for options, error, message in [
        ({"result": 1}, TypeRuleError, r"result 1 of @f must be a scalar, got f64\[3\]; reduce it with ops.sum"),
        ({"result": 2}, TypeRuleError, r"result 2 of @f must be a float, got i64\[\]; cast"),
        ({"result": 3}, InvalidValueError, "@f has results 0 to 2, got 3"),
        ({"result": -1}, InvalidValueError, "@f has results 0 to 2, got -1"),
        ({"wrt": "z"}, NameLookupError, "function @f has no parameter 'z'; known parameters: x, i"),
        ({"wrt": 2}, InvalidValueError, "@f has parameters 0 to 1, got 2 in wrt; use its name instead"),
        ({"wrt": "i"}, TypeRuleError, r"derivatives require float parameters, got %i: i64\[\]; omit it"),
        ({"wrt": ["x", 0]}, InvalidValueError, "wrt must not repeat parameters, got %x, %x; remove"),
        ({"wrt": []}, InvalidValueError, "@f has no float parameter to differentiate with respect to"),
    ]:
        with pytest.raises(error, match=message):
            gradient(function, **options)
    with pytest.raises(InvalidValueError, match="@g has no float parameter"):
        gradient(Function("g", (i,), (ops.cast(i, "f32"),)))


# vjp


def test_vjp_takes_cotangents_to_cotangents():
    function = Function("f", (X, Y), (ops.multiply(X, Y), ops.cast(X, "i32"), ops.exp(X)))
    made = vjp(function)
    verify(made)
    assert made.name == "vjp_f"
    assert [p.label for p in made.params] == ["x", "y", "ct_0", "ct_2"]
    one, two = np.array([1.0, 2.0, 3.0]), np.array([-1.0, 0.5, 0.0])
    dx, dy = interpret(made, AT_X, AT_Y, one, two)
    np.testing.assert_allclose(dx, one * AT_Y + two * np.exp(AT_X), rtol=1e-15)
    np.testing.assert_allclose(dy, one * AT_X, rtol=1e-15)


def test_vjp_of_chosen_results_and_parameters():
    function = Function("f", (X, Y), (ops.multiply(X, Y), ops.exp(X)))
    made = vjp(function, wrt=["y"], results=1, name="g")
    assert (made.name, [p.label for p in made.params], len(made.results)) == ("g", ["x", "y", "ct_1"], 1)
    assert not interpret(made, AT_X, AT_Y, AT_X)[0].any()
    with pytest.raises(InvalidValueError, match="be at least one distinct float result"):
        vjp(function, results=[])
    with pytest.raises(InvalidValueError, match="results must"):
        vjp(function, results=[0, 0])


def test_cotangents_are_not_named_as_parameters_are():
    taken = param("ct_0", (), "f64")
    made = vjp(Function("f", (taken,), (ops.exp(taken),)))
    assert [p.label for p in made.params] == ["ct_0", "_ct_0"]


def test_vjp_of_one_value_returned_twice():
    y = ops.exp(X)
    made = vjp(Function("f", (X,), (y, y, X)))
    (dx,) = interpret(made, AT_X, np.ones(3), np.ones(3), np.ones(3))
    np.testing.assert_allclose(dx, 2 * np.exp(AT_X) + 1)


# Size


def chain(length):
    value = X
    for _ in range(length):
        value = ops.sin(value)
    return Function("chain", (X,), (ops.sum(value),))


def test_a_chain_far_longer_than_the_stack_is_differentiated_and_printed():
    """Twenty times Python's limit of recursion; that the work is linear is tested below."""
    made = gradient(chain(20_000))
    assert len(made.values()) > 60_000
    assert str(made).count("cos(") == 20_000


def test_the_work_is_linear():
    def calls(length):
        function = chain(length)
        count = 0

        def tick(_frame, event, _argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(tick)
        try:
            gradient(function)
        finally:
            sys.setprofile(None)
        return count

    assert 1.9 < calls(4_000) / calls(2_000) < 2.1


# Any graph

UNARY = [ops.sin, ops.tanh, ops.square, ops.negative, lambda x: ops.exp(ops.sin(x)), lambda x: ops.multiply(x, 0.5)]
BINARY = [ops.add, ops.subtract, ops.multiply, lambda x, y: ops.divide(x, ops.add(ops.square(y), 1.0))]


@st.composite
def programs(draw):
    """A function of x and y with up to eight operators, values used in any number of places."""
    values = [X, Y]
    for _ in range(draw(st.integers(1, 8))):
        if draw(st.booleans()):
            values.append(draw(st.sampled_from(UNARY))(draw(st.sampled_from(values))))
        else:
            pick = st.sampled_from(values)
            values.append(draw(st.sampled_from(BINARY))(draw(pick), draw(pick)))
    return Function("f", (X, Y), (ops.mean(values[-1]),))


@settings(max_examples=60, deadline=None)
@given(programs())
def test_any_graph_agrees_with_difference_quotients(function):
    found = derivatives(function, AT_X, AT_Y)
    for at, derivative in enumerate(found):
        expected = numeric_gradient(function, [AT_X, AT_Y], [np.array(1.0)], at)
        scale = max(1.0, np.abs(expected).max())
        np.testing.assert_allclose(derivative, expected, rtol=1e-5, atol=1e-6 * scale)
