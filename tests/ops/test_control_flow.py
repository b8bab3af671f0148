"""Loops and branches in graphs: what the functions return, their types, their texts."""

import numpy as np
import pytest

from adjoint import CompileOptions, Function, compile, ops, param
from adjoint.errors import AdjointError
from adjoint.ops.control import Branch, Scan, While, on_bodies, uniquely_named
from adjoint.ops.text import parse
from adjoint.testing.interpreter import interpret
from adjoint.transforms import inline_calls

x = param("x", (4, 3))
start = param("start", (3,))
flag = param("flag", (), "bool")


def test_scan_takes_containers_and_functions_and_captures_values():
    def body(carry, rows):
        return {"total": carry["total"] + rows[0] * start, "count": carry["count"] + 1}, [carry["total"], rows[1]]

    carry, (before, numbers) = ops.scan(
        body, {"total": ops.full(0.0, (3,)), "count": ops.full(0, (), "i64")}, (x, ops.iota(4)), reverse=True
    )
    step = Function("step", (a := param("a", (3,)), b := param("b", (3,))), (a * b, a + b))
    product, sums = ops.scan(step, start, x)
    function = Function("f", (x, start), (carry["total"], carry["count"], before, numbers, product, sums))
    arrays = np.arange(12, dtype="f").reshape(4, 3), np.array([1, 2, 3], "f")
    rows = arrays[0] * arrays[1]
    totals = np.cumsum(rows[::-1], 0)[::-1]
    products = [arrays[1], *(arrays[1] * np.cumprod(arrays[0], 0))]
    want = [totals[0], 4, np.concatenate([totals[1:], np.zeros((1, 3))]), np.arange(4), products[4]]
    want.append(np.stack(products[:4]) + arrays[0])
    for found in (compile(function, options=CompileOptions(threads=1))(*arrays), interpret(function, *arrays)):
        for got, other in zip(found, want, strict=True):
            np.testing.assert_allclose(got, other)


def test_loops_without_iterations_and_with_bounds_of_either_kind():
    count = param("count", (), "i64")
    empty = param("empty", (0, 3))
    last, rows = ops.scan(lambda c, r: (c + r, c), start, empty)
    function = Function(
        "f",
        (start, empty, count),
        (
            last + 0.0,
            rows,
            ops.fori_loop(2, 5, lambda i, c: c * ops.cast(i, "f32"), start),
            ops.fori_loop(2, count, lambda i, c: c * ops.cast(i, "f32"), start),
            ops.fori_loop(5, 2, lambda _, c: c * 2.0, start) + 0.0,
        ),
    )
    given = np.array([1, 2, 3], "f"), np.zeros((0, 3), "f"), np.array(5)
    found = compile(function, options=CompileOptions(threads=1))(*given)
    for got, want in zip(found, (given[0], given[1], given[0] * 24, given[0] * 24, given[0]), strict=True):
        np.testing.assert_array_equal(got, want)


def test_their_text_can_be_read_again():
    last = ops.while_loop(
        lambda c: c.sum() < 9.0, lambda c: c + start, ops.cond(flag, lambda v: v, lambda v: -v, start)
    )
    function = Function("f", (flag, start, x), (ops.scan(lambda c, r: (c + r, None), last, x)[0],))
    assert str(parse(str(function))["f"]) == str(function)
    assert {type(v.op) for v in function.values()} >= {Scan, Branch, While}


def test_a_change_of_bodies_reaches_inner_ones():
    inner = Function("inner", (a := param("a", (3,)),), (a * 2.0,))
    outer, _ = ops.scan(
        lambda c, r: (ops.scan(lambda d, _: (ops.call(inner, d) + r, None), c, length=2)[0], None), start, x
    )
    function = Function("f", (start, x), (outer,))
    assert "call(" in str(function)
    assert "call(" not in str(on_bodies(function, inline_calls))
    named = uniquely_named(inner)
    assert uniquely_named(named).name == named.name, "the digest is that of the function, not of its name"
    assert named.name != uniquely_named(Function("inner", (a,), (a * 3.0,))).name


REFUSED = {
    "scan: the body must return a pair of the new carry and an output, got a Value; return (carry, None) for no "
    "output": (lambda: ops.scan(lambda c, _: c, start, x)),
    "scan: the body must return a carry of the structure of init, *, got (*, *); return the same containers": (
        lambda: ops.scan(lambda c, _: ((c, c), None), start, x)
    ),
    "scan: length and the first axes of xs must be one number, got a scalar, 2; make them equal": lambda: ops.scan(
        lambda c, _: (c, None), start, flag, length=2
    ),
    "scan: init must be graph values, alone or in tuples, lists and dicts, got a float": lambda: ops.scan(
        lambda c, _: (c, None), 1.0, x
    ),
    "while_loop: the condition must return a graph value, got a bool; compare scalars": lambda: ops.while_loop(
        lambda _: True, lambda c: c, start
    ),
    "cond: the condition must be a graph value, got a bool; use Python's if": lambda: ops.cond(
        True, lambda: x, lambda: x
    ),
    "cond: both functions must return the same structure, got * and [*]; return the same containers": lambda: ops.cond(
        flag, lambda: x, lambda: [x]
    ),
    "cond: the condition must be a bool scalar, got f32[3]; compare scalars": lambda: ops.cond(
        start, lambda v: v, lambda v: v + 1.0, start
    ),
}


@pytest.mark.parametrize("sentence", REFUSED)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSED[sentence]()
    assert error.value.message == sentence


def test_types_are_checked():
    vector = Function("vector", (a := param("a", (3,)), b := param("b", (3,))), (a, b))
    wide = Function("wide", (a, b), (ops.cast(a, "f64"), b))
    f3, f43 = start.type, x.type
    refused = {
        "scan: the length must be at least 1, got 0; use the initial carries": (Scan(vector, 0, 0, 1), f3, f43),
        "scan: stacked inputs must have 5 rows along axis 0, got f32[4,3]; stack as many": (
            Scan(vector, 5, 0, 1), f3, f43
        ),
        "scan: @vector must take f32[3], f32[3], f32[3], got parameters of types f32[3], f32[3]; match them": (
            Scan(vector, 4, 1, 1), f3, f3, f43
        ),
        "scan: @wide must return each carry with the type that it takes, got f32[3] and then f64[3] for carry 0; cast "
        "or reshape it": (Scan(wide, 4, 0, 1), f3, f43),
        "while_loop: @wide must return the carries with the types that it takes, got f32[3], f32[3] and then f64[3], "
        "f32[3]; cast or reshape them": (
            While(Function("go", (a, b), (ops.less(a.sum(), b.sum()),)), wide), f3, f3
        ),
        "while_loop: the result of @vector must be a bool scalar, got f32[3]; compare scalars": (
            While(vector, vector), f3, f3
        ),
        "cond: both functions must return the same types, got f32[3], f32[3] from @vector and f64[3], f32[3] from "
        "@wide; cast or reshape the results of one": (Branch(vector, wide), flag.type, f3, f3),
    }  # fmt: skip
    for sentence, (op, *types) in refused.items():
        with pytest.raises(AdjointError) as error:
            op.infer(*types)
        assert error.value.message == sentence
