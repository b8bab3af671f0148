"""Rewriting by rules: that each does something, and that none changes a bit."""

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from adjoint import ops
from adjoint.ir import DTYPES, Function, apply, is_float, numbered, param, verify
from adjoint.ops import shape
from adjoint.ops.catalogue import CATALOGUE
from adjoint.testing.interpreter import interpret
from adjoint.transforms import gradient, rewrites, simplify
from adjoint.transforms.cse import cse
from adjoint.transforms.simplify import RULES

X = param("x", (3,))
Y = param("y", (3,))
I = param("i", (3,), "i32")  # noqa: E741
C = param("c", (3,), "bool")
SPECIAL = np.array([0.0, -0.0, np.nan, np.inf, -np.inf, 1e-40, -3.0, 1.0, 65504.0])


def simple(value):
    function = Function("f", (X, Y, I, C), (value,))
    made = simplify(function)
    verify(made)
    return made.results[0]


def names(value):
    """The operators that are left, without parameters."""
    found = Function("f", (X, Y, I, C), (value,)).values()
    return [v.op.name for v in found if v.op.name != "param"]


def same_bits(one, other):
    assert one.dtype == other.dtype
    if is_float(one.dtype):
        one, other = one.astype(np.float64), other.astype(np.float64)  # NumPy does not know bfloat16's NaN
    np.testing.assert_array_equal(one, other)
    if is_float(one.dtype):
        np.testing.assert_array_equal(np.signbit(one[one == one]), np.signbit(other[other == other]))


def test_rules_are_for_operators_that_exist():
    assert set(RULES) <= set(CATALOGUE)


@pytest.mark.parametrize(
    ("value", "left"),
    [
        (ops.multiply(ops.multiply(X, 1.0), 1.0), []),
        (ops.multiply(1, I), []),
        (ops.add(0, I), []),
        (ops.add(I, 0), []),
        (ops.subtract(I, 0), []),
        (ops.divide(I, 1), []),
        (ops.negative(ops.negative(I)), []),
        (ops.add(X, ops.negative(Y)), ["subtract"]),
        (ops.add(ops.negative(X), ops.negative(Y)), ["negative", "subtract"]),
        (ops.subtract(X, ops.negative(ops.negative(ops.negative(Y)))), ["add"]),
        (ops.multiply(X, X), ["square"]),
        (ops.multiply(ops.negative(X), ops.negative(X)), ["square"]),
        (ops.square(ops.abs(ops.negative(X))), ["square"]),
        (ops.multiply(I, -1), ["negative"]),
        (ops.minimum(X, X), []),
        (ops.logical_or(C, C), []),
        (ops.where(ops.logical_not(ops.logical_not(C)), X, Y), ["where"]),
        (ops.where(ops.less(ops.full(1.0, (3,)), 2.0), X, Y), []),
        (ops.where(ops.less(ops.full(2.0, (3,)), 1.0), X, Y), []),
        (ops.power(X, 2.0), ["square"]),
        (ops.transpose(ops.transpose(ops.reshape(X, (3, 1)))), ["reshape"]),
        (ops.reshape(ops.transpose(ops.full(2.0, (1, 3))), (3,)), ["full"]),
        (ops.slice_axis(ops.full(2.0, (5,)), 0, 1, 4), ["full"]),
        (ops.add(ops.full(1, (3,), "i32"), ops.cast(ops.full(2.5, (3,)), "i32")), ["full"]),
    ],
)  # fmt: skip
def test_what_is_left(value, left):
    assert names(simple(value)) == left


@pytest.mark.parametrize(
    "value",
    [
        ops.add(X, 0.0),
        ops.subtract(X, -0.0),
        ops.multiply(X, 0.0),
        ops.subtract(X, X),
        ops.divide(X, X),
        ops.divide(X, 3.0),
        ops.divide(I, 2),
        ops.divide(1.0, X),
        ops.exp(ops.log(X)),
        ops.exp(ops.full(1.0, (3,))),
        ops.cast(ops.cast(X, "f16"), "f32"),
        ops.cast(ops.cast(I, "f32"), "i32"),
        ops.cast(ops.cast(X, "bool"), "f32"),
        apply(shape.ReduceSum(()), X),
        ops.reshape(ops.broadcast_to(ops.reshape(X, (3, 1)), (3, 3)), (9,)),
        ops.multiply(ops.multiply(X, 3.0), 5.0),
        ops.add(ops.add(X, 3.0), 5.0),
    ],
)
def test_what_must_stay(value):
    function = Function("f", (X, Y, I, C), (value,))
    assert simplify(function) == function


def test_a_label_stays_with_what_takes_its_place():
    assert simple(ops.multiply(X, X).named("y")).label == "y"
    assert simple(ops.multiply(ops.exp(X).named("a"), 1.0).named("b")).label == "a"


def test_what_is_simple_already_is_the_same_object():
    value = ops.exp(ops.add(X, Y))
    assert simple(value) is value


def test_constants_fold_to_the_bits_of_their_dtype():
    third = ops.divide(ops.full(1.0, (), "f32"), 3.0)
    assert simple(third).op.value == float(np.float32(1) / np.float32(3))
    wrapped = ops.add(ops.full(127, (), "i8"), 1)
    assert simple(wrapped).op.value == -128
    assert simple(ops.divide(ops.full(1, (), "i32"), 0)).op.value == 0
    assert np.isnan(simple(ops.sqrt(ops.full(-1.0, ()))).op.value)
    assert np.signbit(simple(ops.negative(ops.full(0.0, ()))).op.value)
    assert simple(ops.full(1.0, (0, 2))).shape == (0, 2)


@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64"])
def test_division_by_powers_of_two_is_exact(dtype):
    """For f16 and bf16 all numbers there are; for the others the special ones and some of every size."""
    numpy = DTYPES[dtype]
    if numpy.itemsize == 2:
        numbers = np.arange(2**16, dtype=np.uint16).view(numpy)
    else:
        rng = np.random.default_rng(0)
        bits = rng.integers(0, 2 ** (8 * numpy.itemsize), 20_000, dtype=np.uint64)
        numbers = bits.astype(f"u{numpy.itemsize}").view(numpy)
    x = param("x", numbers.shape, dtype)
    changed = 0
    for divisor in (2.0, -2.0, 0.5, 1024.0, 2.0**-14, 2.0**14, 2.0**15, 2.0**126, 2.0**127, 3.0, 0.0, float("inf")):
        if divisor > 60000 and dtype == "f16" and np.isfinite(divisor):
            continue  # no f16
        function = Function("f", (x,), (ops.divide(x, divisor),))
        made = simplify(function)
        changed += made.results[0].op.name == "multiply"
        with np.errstate(all="ignore"):
            same_bits(interpret(function, numbers)[0], interpret(made, numbers)[0])
    assert changed >= 5


def test_gradients_become_what_one_would_write_by_hand():
    """The seed of ones, its reshape and broadcast, and the products with it are gone."""
    s = param("s", (2, 3))
    made = simplify(gradient(Function("f", (s,), (ops.sum(ops.sin(s)),))))
    assert [v.op.name for v in made.values()] == ["param", "sin", "sum", "cos"]


UNARY = [
    ops.negative, ops.abs, ops.square, ops.relu, ops.sqrt, ops.floor, ops.exp,
    lambda x: ops.reshape(x, (3, 1)), lambda x: ops.reshape(x, (3,)), lambda x: ops.transpose(x),
    lambda x: ops.cast(ops.cast(x, "f64"), "f32"), lambda x: ops.cast(ops.cast(x, "f16"), "f32"),
    lambda x: ops.broadcast_to(x, (3, 3)), lambda x: ops.sum(x, -1) if x.shape else x,
]  # fmt: skip
BINARY = [ops.add, ops.subtract, ops.multiply, ops.divide, ops.maximum, ops.minimum, lambda x, y: ops.where(
    ops.logical_not(ops.less(x, y)), x, y)]  # fmt: skip
CONSTANTS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 4.0, 3.0]


@st.composite
def programs(draw):
    """Operators that have rules, and some that have none, on vectors, matrices and constants."""
    values = [X, Y]
    for _ in range(draw(st.integers(1, 10))):
        x = draw(st.sampled_from(values))
        kind = draw(st.integers(0, 2))
        if kind == 0:
            build = draw(st.sampled_from(UNARY))
            reshapes = x.type.size == 3 and len(x.shape) < 3
            if build in UNARY[7:9] + UNARY[12:13] and not reshapes:
                continue
            values.append(build(x))
        elif kind == 1:
            values.append(draw(st.sampled_from(BINARY))(x, draw(st.sampled_from(CONSTANTS))))
        else:
            values.append(draw(st.sampled_from(BINARY))(x, draw(st.sampled_from(values))))
    return Function("f", (X, Y), tuple(values[2:]) or (X,))


@pytest.mark.parametrize(
    ("low", "high", "interior", "value", "left"),
    [
        ((1, 0), (0, 2), (0, 0), 0, 1),
        ((1, 0), (0, 2), (0, 0), 0.0, 1),
        ((0, 0), (0, 0), (0, 1), 0, 2),
        ((1, 0), (0, 2), (0, 0), -0.0, 2),
        ((1, 0), (0, 2), (0, 0), 1, 2),
    ],
)
def test_a_border_around_a_border_is_one(low, high, interior, value, left):
    """Where both put the same there; zeros between what is padded already are another matter."""
    x = param("x", (2, 3))
    inner = ops.pad(x, (2, 1), (0, 1), 0.0, interior=(2, 1))
    function = Function("f", (x,), (ops.pad(inner, low, high, value, interior),))
    made = simplify(function)
    assert [v.op.name for v in made.values()].count("pad") == left
    array = np.random.default_rng(0).standard_normal((2, 3)).astype("f4")
    same_bits(interpret(made, array)[0], interpret(function, array)[0])


@pytest.mark.parametrize(
    ("size", "stride", "padding", "dilation", "high"),
    [(9, 1, 1, 1, 1), (8, 2, 1, 1, 0), (9, 2, 1, 1, 1), (8, 3, 1, 1, 0), (8, 2, 2, 2, 1)],
)
def test_the_border_of_an_image_ends_where_the_last_window_does(size, stride, padding, dilation, high):
    x, w = param("x", (1, 2, size, 9)), param("w", (3, 2, 3, 1))
    y = ops.conv2d(x, w, stride=(stride, 1), padding=(padding, 0), dilation=(dilation, 1))
    function = gradient(Function("f", (x, w), (ops.sum(ops.square(y)),)), ("w",))
    made = simplify(function)
    verify(made)
    pads = [v for v in made.values() if isinstance(v.op, shape.Pad) and v.inputs[0].label == "x"]
    assert {v.op.high for v in pads} == {(0, 0, high, 0)}
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    for got, want in zip(interpret(made, *arrays), interpret(function, *arrays), strict=True):
        np.testing.assert_array_equal(got, want)


@settings(max_examples=150, deadline=None)
@given(programs(), st.integers(0, 2**32 - 1))
def test_no_rule_changes_a_bit(function, seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.choice(np.concatenate([SPECIAL, rng.normal(size=9)]), 3).astype(np.float32) for _ in range(2)]
    made = simplify(function)
    verify(made)
    with np.errstate(all="ignore"):
        for one, other in zip(interpret(function, *arrays), interpret(made, *arrays), strict=True):
            same_bits(one, other)
    assert simplify(made) == made


def test_the_work_is_linear():
    def calls(length):
        value = X
        for _ in range(length):
            value = ops.multiply(ops.negative(ops.negative(ops.sin(value))), 1.0)
        function = Function("f", (X,), (value,))
        count = 0

        def tick(_frame, event, _argument):
            nonlocal count
            count += event == "call"

        sys.setprofile(tick)
        try:
            made = simplify(function)
        finally:
            sys.setprofile(None)
        assert len(made.values()) == length + 1
        return count

    assert 1.9 < calls(2_000) / calls(1_000) < 2.1


def test_every_rule_is_used_in_the_table():
    used = {rule.__name__ for rules in RULES.values() for rule in rules}
    defined = {
        name for name, rule in vars(rewrites).items()
        if callable(rule) and getattr(rule, "__module__", "") == rewrites.__name__ and not name.startswith("_")
    }  # fmt: skip
    assert used == defined


def test_what_takes_the_place_of_a_value_has_its_number_and_line():
    function = numbered(Function("f", (X, Y), (ops.multiply(ops.exp(X), ops.exp(X)), ops.multiply(Y, -1.0))))
    made = simplify(cse(function))
    assert [value.op.name for value in made.results] == ["square", "negative"]
    assert [v.number for v in made.results] == [v.number for v in function.results]
    assert [v.line for v in made.results] == [v.line for v in function.results]
    assert all(v.line.startswith(__file__) for v in made.results)
