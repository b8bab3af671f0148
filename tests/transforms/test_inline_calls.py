"""Flattening of calls."""

import sys

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import Function, callees, numbered, param, value_names
from adjoint.ops import call
from adjoint.testing.interpreter import interpret
from adjoint.transforms import inline_calls

X = param("x", (2,))
Y = param("y", (2,))
AT = np.array([1.0, 2.0], np.float32)


def test_a_function_without_calls_is_itself():
    function = Function("f", (X,), (ops.exp(X),), {"a": 1})
    assert inline_calls(function) is function


def test_name_parameters_and_attributes_stay():
    inner = Function("inner", (X,), (ops.exp(X),), {"donate": (("x", 0),)})
    function = Function("f", (X, Y), (call(inner, X),), {"donate": (("y", 0),)})
    flat = inline_calls(function)
    assert (flat.name, flat.params, dict(flat.attrs)) == (function.name, function.params, dict(function.attrs))
    assert not callees(flat)


def test_values_of_the_caller_keep_their_names_and_those_of_callees_get_unused_ones():
    inner = numbered(Function("inner", (X,), (ops.exp(ops.exp(X)).named("a"),)))
    made = ops.sin(ops.add(call(inner, Y), ops.exp(Y)).named("a"))
    function = numbered(Function("f", (Y,), (ops.add(made, call(inner, made)),)))
    assert [(name, v.op.name) for v, name in value_names(function).items()][1:] == [
        ("%0", "call"), ("%1", "exp"), ("%a", "add"), ("%3", "sin"), ("%4", "call"), ("%5", "add")
    ]  # fmt: skip
    flat = {name: v.op.name for v, name in value_names(inline_calls(function)).items()}
    assert flat == {
        "%y": "param", "%6": "exp", "%0": "exp", "%1": "exp", "%a": "add", "%3": "sin", "%7": "exp", "%4": "exp",
        "%5": "add",
    }  # fmt: skip


def test_labels_of_callees_that_are_in_use_get_a_number():
    hidden = ops.exp(X).named("a")
    inner = Function("inner", (X,), (ops.sin(hidden), hidden))
    first, _ = call(inner, Y)
    function = numbered(Function("f", (Y,), (ops.add(first, ops.tanh(Y)).named("a"),)))
    flat = {name: v.op.name for v, name in value_names(inline_calls(function)).items()}
    assert flat == {"%y": "param", "%a_1": "exp", "%1": "sin", "%2": "tanh", "%a": "add"}


def test_results_of_nested_calls_have_the_names_that_they_have_in_the_caller():
    inner = Function("inner", (X,), (ops.exp(X), ops.sin(X)))
    exp, sin = call(inner, X)
    middle = Function("middle", (X,), (sin, exp, sin))
    one, other, again = call(middle, Y)
    function = numbered(Function("f", (Y,), (ops.add(ops.add(one, other).named("sum"), again),)))
    before = {name: interpret(Function("g", (Y,), (v,)), AT) for v, name in value_names(function).items()
              if v.op.name != "call"}  # fmt: skip
    after = {name: interpret(Function("g", (Y,), (v,)), AT) for v, name in value_names(inline_calls(function)).items()}
    assert after.keys() < before.keys()
    assert "%sum" in after
    for name, arrays in after.items():
        np.testing.assert_array_equal(arrays[0], before[name][0])


def test_values_of_a_callee_keep_their_lines():
    inner = Function("inner", (X,), (ops.exp(X),))
    flat = inline_calls(Function("f", (Y,), (call(inner, Y),)))
    assert flat.results[0].line == inner.results[0].line != ""


def test_arguments_take_the_place_of_parameters_not_of_values_that_look_like_them():
    """Functions share parameters as Python objects: @swap's x is the same object as @f's."""
    swap = Function("swap", (X, Y), (ops.subtract(Y, X), X))
    first, second = call(swap, Y, X)
    function = Function("f", (X, Y), (first, second))
    for one, other in zip(interpret(inline_calls(function), AT, AT * 3), (AT - AT * 3, AT * 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_an_unused_argument_is_not_computed():
    ignore = Function("ignore", (X, Y), (ops.exp(X),))
    flat = inline_calls(Function("f", (X,), (call(ignore, X, ops.sin(X)),)))
    assert [v.op.name for v in flat.values()] == ["param", "exp"]


def test_shared_values_stay_shared():
    inner = Function("inner", (X,), (ops.exp(X), ops.exp(X)))
    one, _ = call(inner, X)
    flat = inline_calls(Function("f", (X,), (ops.add(one, one),)))
    assert flat.results[0].inputs[0] is flat.results[0].inputs[1]


@pytest.mark.parametrize("depth", [3, sys.getrecursionlimit() + 100])
def test_calls_nest_as_deeply_as_they_like(depth):
    function = Function("f", (X,), (X,))
    for level in range(depth):
        function = Function(f"f{level}", (X,), (ops.add(call(function, X), 1.0),))
    np.testing.assert_array_equal(interpret(inline_calls(function), AT)[0], AT + depth)
