"""What varies with what."""

from adjoint import ops
from adjoint.ir import Function, param
from adjoint.ops import call, custom_call
from adjoint.transforms.activity import dependence, flow

X = param("x", (2,))
Y = param("y", (2,))
I = param("i", (2,), "i32")  # noqa: E741


def reach(*results):
    """Bits of x (1), y (2) and i (4) that the results vary with."""
    function = Function("f", (X, Y, I), results)
    return dependence(function)[function]


def test_floats_vary_with_the_floats_they_are_computed_from():
    assert reach(X, Y, ops.add(X, Y), ops.full(1.0, (2,)), ops.exp(ops.multiply(X, 2.0))) == (1, 2, 3, 0, 1)


def test_integers_bool_and_stop_gradient_cut():
    assert reach(I, ops.greater(X, Y), ops.cast(I, "f32")) == (0, 0, 0)
    assert reach(ops.where(ops.greater(X, 0.0), Y, 1.0), ops.stop_gradient(X)) == (2, 0)
    assert reach(ops.add(ops.stop_gradient(X), Y), ops.cast(ops.cast(X, "i32"), "f32")) == (2, 0)
    assert reach(ops.cast(ops.cast(X, "f16"), "f32")) == (1,)


def test_calls_keep_results_apart():
    swap = Function("swap", (X, Y), (Y, ops.exp(X), ops.cast(X, "i32")))
    first, second, third = call(swap, X, ops.add(X, Y))
    assert reach(first, second, ops.cast(third, "f32")) == (3, 1, 0)
    inner = Function("inner", (X, Y), tuple(call(swap, Y, X)[:2]))
    assert reach(*call(inner, X, Y)) == (1, 2)


def test_a_call_with_a_rule_joins_what_its_derivative_flows_to():
    fixed = Function("fixed", (X, Y), (ops.full(1.0, (2,)), ops.cast(X, "i32")))
    out, number, ct = param("out", (2,)), param("number", (2,), "i32"), param("ct", (2,))
    rule = Function("rule", (X, Y, out, number, ct), (ct,))
    first, second = custom_call(fixed, rule, (1,), X, Y)
    assert reach(first, ops.cast(second, "f32")) == (2, 0)


def test_flow_starts_where_it_is_told_to():
    y = ops.exp(X)
    z = ops.multiply(y, Y)
    found = flow((X, Y, y, z), {y: (1,)}, {})
    assert [found[v] for v in (X, Y, y, z)] == [(0,), (0,), (1,), (1,)]
