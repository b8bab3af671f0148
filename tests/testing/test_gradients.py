"""The gradient checker finds wrong gradients, and its reverse mode is right on graphs of more than one operator."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import DifferentiationError, TypeRuleError
from adjoint.ir import Function, apply, param
from adjoint.ops.base import Operator
from adjoint.testing import check_gradients, interpret, pullback

X = np.array([0.3, -0.7, 1.1])


@dataclass(frozen=True, slots=True)
class Cube(Operator):
    """``x**3`` whose gradient is as wrong as the test wants it."""

    name: ClassVar[str] = "cube"
    factor: float = 3.0
    factor2: float = 2.0

    def infer(self, x):
        return x

    def reference(self, x):
        return x**3

    def vjp(self, ct, out, x):  # noqa: ARG002
        return (ops.multiply(ct, apply(Slope(self.factor, self.factor2), x)),)


@dataclass(frozen=True, slots=True)
class Slope(Operator):
    """``factor * x**2``, with a gradient of ``factor * factor2 * x``."""

    name: ClassVar[str] = "slope"
    factor: float
    factor2: float

    def infer(self, x):
        return x

    def reference(self, x):
        return self.factor * x**2

    def vjp(self, ct, out, x):  # noqa: ARG002
        return (ops.multiply(ct, ops.multiply(x, self.factor * self.factor2)),)


def test_right_gradients_pass():
    check_gradients(lambda x: apply(Cube(), x), [X])


@pytest.mark.parametrize("factor", [3.0001, -3.0, 0.0])
def test_wrong_gradients_are_found(factor):
    with pytest.raises(AssertionError, match="gradient of cube for x0"):
        check_gradients(lambda x: apply(Cube(factor), x), [X], order=1)


def test_wrong_second_derivatives_are_found_at_order_2_only():
    def build(x):
        return apply(Cube(3.0, 2.001), x)

    check_gradients(build, [X], order=1)
    with pytest.raises(AssertionError, match="for x0"):
        check_gradients(build, [X], order=2)


def test_a_wrong_second_derivative_in_one_of_many_elements_is_found():
    """Where they are checked along random directions."""
    x = np.linspace(0.2, 1.8, 60)

    def build(x, factor2):
        first, last = ops.slice_axis(x, 0, 0, 59), ops.slice_axis(x, 0, 59, 60)
        return ops.concat(apply(Cube(), first), apply(Cube(3.0, factor2), last), axis=0)

    check_gradients(lambda x: build(x, 2.0), [x])
    check_gradients(lambda x: build(x, 2.001), [x], order=1)
    with pytest.raises(AssertionError, match="for x0"):
        check_gradients(lambda x: build(x, 2.001), [x])


def test_a_missing_cotangent_is_found():
    with pytest.raises(AssertionError):
        check_gradients(lambda x: ops.add(x, ops.stop_gradient(x)), [X])


def test_float32_inputs_are_checked_in_float64_and_integers_are_handed_on():
    def build(table, ids):
        return ops.square(ops.take(table, ids))

    check_gradients(build, [np.arange(6, dtype=np.float32).reshape(3, 2), np.array([2, 0, 2])])


def test_results_that_are_not_floats_are_left_out():
    check_gradients(lambda x: (ops.greater(x, 0.0), ops.exp(x)), [X])
    check_gradients(lambda x: ops.greater(x, 0.0), [X])


def test_an_infinity_that_does_not_move_is_no_difference():
    check_gradients(lambda x: ops.where(ops.greater(x, 0.0), x, -np.inf), [X], order=1)


def test_a_vjp_of_the_wrong_type_is_found():
    @dataclass(frozen=True, slots=True)
    class Bad(Operator):
        name: ClassVar[str] = "bad"

        def infer(self, x):
            return x

        def reference(self, x):
            return x

        def vjp(self, ct, out, x):  # noqa: ARG002
            return (ops.sum(ct),)

    with pytest.raises(TypeRuleError, match=r"bad: vjp returns f64\[\] for an operand of type f64\[3\]"):
        check_gradients(lambda x: apply(Bad(), x), [X])


def test_pullback_sums_over_all_paths():
    x = param("x", (3,), "f64")
    e = ops.exp(x)
    out = ops.multiply(e, ops.add(e, x))  # e**2 + x e
    ct = param("ct", (3,), "f64")
    found = interpret(Function("g", (x, ct), pullback([out], [ct], [x])), X, np.ones(3))
    np.testing.assert_allclose(found[0], 2 * np.exp(2 * X) + (1 + X) * np.exp(X), rtol=1e-14)


def test_pullback_of_several_results_one_of_them_inside_the_other():
    x = param("x", (3,), "f64")
    s = ops.sin(x)
    cts = [param("a", (3,), "f64"), param("b", (3,), "f64")]
    found = interpret(Function("g", (x, *cts), pullback([s, ops.square(s)], cts, [x])), X, np.ones(3), np.full(3, 10.0))
    np.testing.assert_allclose(found[0], np.cos(X) + 20 * np.sin(X) * np.cos(X), rtol=1e-13)


def test_pullback_to_values_inside_the_graph():
    x = param("x", (3,), "f64")
    s = ops.sin(x)
    ct = param("ct", (3,), "f64")
    found = pullback([ops.square(s)], [ct], [s, x])
    inner, outer = interpret(Function("g", (x, ct), found), X, np.ones(3))
    np.testing.assert_allclose(inner, 2 * np.sin(X), rtol=1e-14)
    np.testing.assert_allclose(outer, 2 * np.sin(X) * np.cos(X), rtol=1e-14)


def test_pullback_gives_zeros_where_nothing_flows():
    x, y = param("x", (3,), "f64"), param("y", (2,), "f64")
    ct = param("ct", (3,), "f64")
    found = interpret(Function("g", (x, y, ct), pullback([ops.exp(x)], [ct], [y])), X, np.ones(2), np.ones(3))
    np.testing.assert_array_equal(found[0], [0, 0])


def test_pullback_of_a_long_chain_is_not_recursive():
    x = param("x", (), "f64")
    value = x
    for _ in range(5000):
        value = ops.sin(value)
    pullback([value], [ops.full(1.0, (), "f64")], [x])


def test_calls_are_refused_with_the_way_out():
    x = param("x", (3,), "f64")
    inner = Function("inner", (x,), (ops.exp(x),))
    y = param("y", (3,), "f64")
    with pytest.raises(DifferentiationError, match="call has no vjp; inline calls first"):
        pullback([ops.call(inner, y)], [ops.full(1.0, (3,), "f64")], [y])


def test_composites_over_several_inputs():
    rng = np.random.default_rng(0)

    def build(x, w, b):
        return ops.sum(ops.softmax(ops.add(ops.matmul(ops.tanh(x), w), b)), axis=0)

    check_gradients(build, [rng.normal(size=(2, 3)), rng.normal(size=(3, 4)), rng.normal(size=4)])
