"""Calls and tuples as operators."""

import sys

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, TensorType, TupleType, apply, param
from adjoint.ops import call, custom_call, parse_function
from adjoint.ops.calls import Call, TupleGet
from adjoint.testing import interpret
from adjoint.transforms import gradient, vectorize

X = param("x", (2,))
Y = param("y", (3,), "i32")
AT = np.array([1.0, 2.0], np.float32)
ONE = Function("one", (X,), (ops.exp(X),))
TWO = Function("two", (X, Y), (ops.multiply(X, 2.0), ops.add(Y, 1)))


def test_one_result_is_a_tensor_and_several_are_a_tuple():
    assert call(ONE, X).type == TensorType((2,))
    first, second = call(TWO, X, Y)
    assert (first.type, second.type) == (X.type, Y.type)
    assert first.inputs == second.inputs
    assert first.inputs[0].type == TupleType((X.type, Y.type))


def test_references():
    np.testing.assert_array_equal(Call(ONE).reference(AT), np.exp(AT))
    first, second = Call(TWO).reference(AT, np.arange(3, dtype=np.int32))
    np.testing.assert_array_equal(first, 2 * AT)
    np.testing.assert_array_equal(second, [1, 2, 3])
    assert TupleGet(1).reference((first, second)) is second


def test_references_of_calls_in_calls():
    function = Function("f", (X,), (ops.add(call(ONE, call(ONE, X)), call(ONE, X)),))
    np.testing.assert_array_equal(Call(function).reference(AT), np.exp(np.exp(AT)) + np.exp(AT))
    deep = ONE
    for level in range(sys.getrecursionlimit() + 100):
        deep = Function(f"f{level}", (X,), (ops.negative(call(deep, X)),))
    np.testing.assert_array_equal(Call(deep).reference(AT), np.exp(AT))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: call(TWO, X), r"call: @two takes 2 arguments \(%x: f32\[2\], %y: i32\[3\]\), got 1; pass one per"),
        (lambda: call(ONE, Y), r"call: %x of @one must be f32\[2\], got i32\[3\]; cast, reshape or broadcast it"),
        (lambda: apply(TupleGet(0), X), r"tuple_get: the operand must be a tuple, got f32\[2\]; use the value itself"),
        (
            lambda: apply(TupleGet(2), call(TWO, X, Y)[0].inputs[0]),
            r"tuple_get: index must be from 0 to 1 for \(f32\[2\], i32\[3\]\), got 2",
        ),
        (lambda: apply(TupleGet(-1), call(TWO, X, Y)[0].inputs[0]), "tuple_get: index must be from 0 to 1"),
    ],
)
def test_refusals(make, message):
    with pytest.raises(TypeRuleError, match=message):
        make()


def test_a_call_with_a_rule_of_its_own():
    z, o1, o2, c1, c2 = (param(name, (2,)) for name in ("z", "o1", "o2", "c1", "c2"))
    both = Function("both", (X,), (ops.multiply(X, X), ops.sin(X)))
    rule = Function("rule", (X, o1, o2, c1, c2), (ops.add(ops.multiply(c1, 7.0), ops.multiply(c2, o2)),))
    square, sine = custom_call(both, rule, (0,), z)
    total = Function("total", (z,), (ops.sum(ops.add(square, sine)),))
    value, slope = interpret(gradient(total, "z"), AT)
    np.testing.assert_allclose(value, np.sum(AT**2 + np.sin(AT)), rtol=1e-6)
    np.testing.assert_allclose(slope, 7 + np.sin(AT), rtol=1e-6)
    assert parse_function(str(total)) == total
    # One result is used: the cotangent of the other is zeros.
    alone = Function("alone", (z,), (ops.sum(sine),))
    np.testing.assert_allclose(interpret(gradient(alone, "z"), AT)[1], np.sin(AT), rtol=1e-6)
    many = interpret(vectorize(gradient(total, "z"), 0, 2), np.stack([AT, 2 * AT]))[1]
    np.testing.assert_allclose(many, 7 + np.sin([AT, 2 * AT]), rtol=1e-6)
    with pytest.raises(TypeRuleError) as error:
        custom_call(both, ONE, (0,), z)
    assert error.value.message == (
        "custom_call: the rule of @both must take (f32[2], f32[2], f32[2], f32[2], f32[2]), got (f32[2]); correct @one"
    )
