"""Merging of equal values."""

import sys

from adjoint import ops
from adjoint.ir import Function, param
from adjoint.transforms import cse

X = param("x", (2,))
Y = param("y", (2,))


def merged(*results, params=(X, Y)):
    return cse(Function("f", params, results)).results


def test_equal_values_become_one_all_the_way_up():
    one, other = merged(ops.exp(ops.add(X, Y)), ops.exp(ops.add(X, Y)))
    assert one is other


def test_parameters_of_one_type_are_not_merged():
    one, other = merged(ops.exp(X), ops.exp(Y))
    assert one is not other


def test_order_of_operands_matters():
    one, other = merged(ops.subtract(X, Y), ops.subtract(Y, X))
    assert one is not other


def test_constants_merge_by_their_bits():
    a, b, c, d, e = merged(*(ops.full(v, (2,)) for v in (0.0, -0.0, 0, float("nan"), float("nan"))))
    assert a is c
    assert a is not b
    assert d is e
    assert merged(ops.full(1, (2,), "i32"), ops.full(1.0, (2,), "f32"))[0].dtype.kind == "i"


def test_what_is_merged_already_is_left_as_it_is():
    result = ops.exp(ops.add(X, Y))
    assert merged(result)[0] is result


def test_a_function_merges_with_itself_in_place_of_its_attributes():
    function = Function("f", (X,), (ops.exp(X),), {"a": 1})
    assert cse(function) == function


def test_the_work_is_linear():
    def calls(length):
        one, other = X, X
        for _ in range(length):
            one, other = ops.sin(one), ops.sin(other)
        function = Function("f", (X,), (one, other))
        count = 0

        def tick(_frame, event, _argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(tick)
        try:
            found = cse(function)
        finally:
            sys.setprofile(None)
        assert found.results[0] is found.results[1]
        return count

    assert 1.9 < calls(4_000) / calls(2_000) < 2.1
