"""Forward mode: against difference quotients along a direction, and against reverse mode."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, note, settings

from adjoint import ops
from adjoint.errors import DifferentiationError, InvalidValueError, TypeRuleError
from adjoint.ir import Function, TensorType, is_float, param, verify
from adjoint.ops.arithmetic import Multiply
from adjoint.ops.calls import call
from adjoint.ops.catalogue import CATALOGUE
from adjoint.testing.gradients import STEP
from adjoint.testing.graphs import arguments, losses
from adjoint.testing.interpreter import interpret
from adjoint.testing.rounding import rounding
from adjoint.transforms import cse, gradient, inline_calls, jvp, simplify, vjp
from tests.ops.running import graph_of
from tests.transforms.operators import NoRule, through

X = param("x", (3,), "f64")
Y = param("y", (3,), "f64")
AT_X = np.array([0.3, -1.2, 2.0])
AT_Y = np.array([1.5, 0.7, -0.4])
ALONG_X = np.array([1.0, -0.5, 2.0])
ALONG_Y = np.array([0.25, 3.0, -1.0])


def widened(sample):
    """A sample with its floats in float64."""
    wide = tuple(x.astype(np.float64) if is_float(x.dtype) else x for x in sample.inputs)
    return type(sample)(sample.op, wide)


def differentiable(cls):
    """Samples of which the gradient is defined, from floats to floats."""
    for sample in map(widened, (s for s in cls.samples() if s.gradient and not s.error)):
        types = [TensorType(x.shape, x.dtype) for x in sample.inputs]
        if any(is_float(x.dtype) for x in sample.inputs) and is_float(sample.op.infer(*types).dtype):
            yield sample


def directions(rng, shapes):
    """Vectors of both signs, bounded away from 0."""
    return [rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape) for shape in shapes]


SMOOTH = [cls for cls in CATALOGUE if next(differentiable(cls), None) is not None]


@pytest.mark.parametrize("cls", SMOOTH, ids=lambda cls: cls.name)
def test_every_operator_agrees_with_reverse_mode_and_with_difference_quotients(cls):
    rng = np.random.default_rng(0)
    for sample in differentiable(cls):
        function = graph_of(sample)
        places = [i for i, x in enumerate(sample.inputs) if is_float(x.dtype)]
        tangents = directions(rng, [sample.inputs[i].shape for i in places])
        ct = directions(rng, [function.results[0].shape])[0].astype(function.results[0].dtype)
        _, along = interpret(jvp(function), *sample.inputs, *tangents)
        back = interpret(vjp(function), *sample.inputs, ct)

        # The inner products <ct, J t> and <J^T ct, t> are the same sum in another order.
        forward, reverse = [ct * along], [b * t for b, t in zip(back, tangents, strict=True)]
        totals = [sum(float(np.sum(term)) for term in terms) for terms in (forward, reverse)]
        terms = sum(float(np.sum(abs(term))) for term in (*forward, *reverse))
        assert abs(totals[0] - totals[1]) <= 1e-13 * terms, sample.op

        sides = []
        for step in (STEP, -STEP):
            moved = list(sample.inputs)
            for i, t in zip(places, tangents, strict=True):
                moved[i] = moved[i] + step * t
            sides.extend(interpret(function, *moved))
        quotient = (sides[0] - sides[1]) / (2 * STEP)
        scale = float(np.max(abs(quotient), initial=1.0))
        np.testing.assert_allclose(along, quotient, rtol=1e-5, atol=1e-7 * scale, err_msg=str(sample.op))


@settings(deadline=None, max_examples=25, derandomize=True, suppress_health_check=list(HealthCheck))
@given(losses(calls=True))
def test_random_graphs_agree_with_reverse_mode(function):
    note(str(function))
    arrays = arguments(function)
    floats = [p for p in function.params if is_float(p.dtype)]
    drawn = directions(np.random.default_rng(0), [p.shape for p in floats])
    tangents = [t.astype(p.dtype) for t, p in zip(drawn, floats, strict=True)]
    along, bound = rounding(jvp(function), *arrays, *tangents)[1]
    wanted = 0.0
    for t, (slope, error) in zip(tangents, rounding(gradient(function), *arrays)[1:], strict=True):
        wanted += np.sum(t * slope)
        bound = bound + np.sum(abs(t) * error)
    assert abs(along - wanted) <= bound


def test_tangents_are_parameters_and_results_after_the_original_ones():
    function = Function("f", (X, Y), (ops.sum(ops.exp(X)).named("total"), ops.multiply(X, Y)), {"note": 1})
    made = jvp(function)
    verify(made)
    assert made.name == "jvp_f"
    assert [p.label for p in made.params] == ["x", "y", "t_x", "t_y"]
    assert made.results[:2] == function.results
    assert made.attrs == function.attrs
    assert made.results[2].label == "total_tangent"
    _, _, total, product = interpret(made, AT_X, AT_Y, ALONG_X, ALONG_Y)
    np.testing.assert_allclose(total, np.sum(np.exp(AT_X) * ALONG_X), rtol=1e-14)
    np.testing.assert_allclose(product, AT_X * ALONG_Y + AT_Y * ALONG_X, rtol=1e-14)


def test_chosen_parameters_and_results():
    function = Function("f", (X, Y), (ops.sum(X), ops.multiply(X, Y)))
    made = jvp(function, "y", results=1, name="g")
    assert made.name == "g"
    assert [p.label for p in made.params] == ["x", "y", "t_y"]
    np.testing.assert_array_equal(interpret(made, AT_X, AT_Y, ALONG_Y)[2], AT_X * ALONG_Y)
    assert [p.label for p in jvp(function, [1, 0]).params] == ["x", "y", "t_y", "t_x"]


def test_names_of_tangents_avoid_those_of_parameters():
    taken = param("t_x", (3,), "f64")
    made = jvp(Function("f", (X, taken), (ops.multiply(X, taken),)), "x")
    assert [p.label for p in made.params] == ["x", "t_x", "_t_x"]


def test_a_result_that_is_a_parameter_has_its_tangent():
    made = jvp(Function("f", (X, Y), (X,)))
    np.testing.assert_array_equal(interpret(made, AT_X, AT_Y, ALONG_X, ALONG_Y)[1], ALONG_X)


def test_stop_gradient_and_integers_pass_no_tangent_on():
    ids = ops.argmax(X)
    function = Function("f", (X,), (ops.multiply(X, ops.stop_gradient(X)), ops.cast(ids, "f64"), ids))
    _, _, _, product, place = interpret(jvp(function), AT_X, ALONG_X)
    np.testing.assert_array_equal(product, AT_X * ALONG_X)
    assert place == 0


def test_forward_over_reverse_is_a_product_with_the_hessian():
    total = Function("f", (X,), (ops.sum(ops.multiply(ops.sin(X), ops.square(X))),))
    slope = gradient(total)
    found = interpret(jvp(slope, "x", results=1), AT_X, ALONG_X)[2]
    second = 2 * np.sin(AT_X) + 4 * AT_X * np.cos(AT_X) - AT_X**2 * np.sin(AT_X)
    np.testing.assert_allclose(found, second * ALONG_X, rtol=1e-13)


def test_forward_over_forward_is_the_second_derivative():
    once = jvp(Function("f", (X,), (ops.exp(ops.multiply(X, X)),)))
    twice = jvp(once, "x", results=1)
    found = interpret(twice, AT_X, ALONG_X, ALONG_X)[-1]
    np.testing.assert_allclose(found, (2 + 4 * AT_X**2) * np.exp(AT_X**2) * ALONG_X**2, rtol=1e-13)


def called():
    inner = Function("inner", (X, Y), (ops.multiply(ops.sin(X), Y), ops.sum(Y)))
    first, total = call(inner, X, Y)
    second, _ = call(inner, first, Y)
    return Function("f", (X, Y), (ops.multiply(second, total),))


def test_calls_are_followed():
    made = jvp(called())
    verify(made)
    inner, along = np.sin(AT_X) * AT_Y, np.cos(AT_X) * ALONG_X * AT_Y + np.sin(AT_X) * ALONG_Y
    second = np.sin(inner) * AT_Y
    along_second = np.cos(inner) * along * AT_Y + np.sin(inner) * ALONG_Y
    expected = along_second * AT_Y.sum() + second * ALONG_Y.sum()
    np.testing.assert_allclose(interpret(made, AT_X, AT_Y, ALONG_X, ALONG_Y)[1], expected, rtol=1e-13)


def test_nothing_of_the_backward_pass_is_left_when_calls_are_inlined():
    """Each product of the function has two of its derivative, and nothing else multiplies."""
    made = cse(simplify(inline_calls(jvp(called()))))
    products = [v for v in made.values() if isinstance(v.op, Multiply)]
    # Three products with two derivatives each, and one by the cosine for each of the two sines.
    assert len(products) == 3 + 6 + 2
    assert not any(v.op.name == "full" for v in made.values())


def test_operators_without_a_gradient_are_refused():
    function = Function("f", (X,), (through(NoRule, X),))
    with pytest.raises(DifferentiationError) as refusal:
        jvp(function)
    assert refusal.value.message == (
        "operators on the path to the gradient must have a vjp, got none for no_rule at %0 in @f; define one, or "
        "insert stop_gradient before them"
    )


def test_wrong_parameters_and_results_are_refused():
    n = param("n", (2,), "i64")
    function = Function("f", (X, n), (ops.exp(X), n))
    for wanted, error, message in [
        (("n",), TypeRuleError, "derivatives require float parameters, got %n: i64[2]; omit it from wrt"),
        (("x", 1), TypeRuleError, "result 1 of @f must be a float, got i64[2]; cast its operands"),
        (("x", 2), InvalidValueError, "@f has results 0 to 1, got 2; name one"),
    ]:
        with pytest.raises(error) as refusal:
            jvp(function, *wanted)
        assert refusal.value.message == message
