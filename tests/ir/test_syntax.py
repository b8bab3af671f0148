"""Python's syntax on graph values: it builds what the functions build, agrees with NumPy, and refuses what it must."""

import operator
import subprocess
import sys
import traceback

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import basic_indices

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, TensorType, TupleType, Value, param
from adjoint.ops.calls import Call
from adjoint.testing import interpret

X, Y, W = param("x", (3, 4)), param("y", (3, 4)), param("w", (4, 2))
N, M = param("n", (3, 4), "i32"), param("m", (3, 4), "bool")
ROWS = np.arange(12.0).reshape(3, 4)


def same(one, other):
    """Whether two values are computed by equal graphs of the same parameters."""
    params = (X, Y, W, N, M)
    return Function("f", params, (one,)) == Function("f", params, (other,))


@pytest.mark.parametrize(
    ("written", "called"),
    [
        (lambda: X + Y, lambda: ops.add(X, Y)),
        (lambda: X + 1, lambda: ops.add(X, 1)),
        (lambda: 1 + X, lambda: ops.add(1, X)),
        (lambda: X - 2.5, lambda: ops.subtract(X, 2.5)),
        (lambda: 2.5 - X, lambda: ops.subtract(2.5, X)),
        (lambda: X * Y, lambda: ops.multiply(X, Y)),
        (lambda: 3 * X, lambda: ops.multiply(3, X)),
        (lambda: X / 3, lambda: ops.divide(X, 3)),
        (lambda: 3 / X, lambda: ops.divide(3, X)),
        (lambda: N / 2.0, lambda: ops.divide(ops.cast(N, "f32"), 2.0)),
        (lambda: N // 2, lambda: ops.divide(N, 2)),
        (lambda: 7 // N, lambda: ops.divide(7, N)),
        (lambda: X**2, lambda: ops.power(X, 2)),
        (lambda: 2**X, lambda: ops.power(2, X)),
        (lambda: X @ W, lambda: ops.matmul(X, W)),
        (lambda: -X, lambda: ops.negative(X)),
        (lambda: abs(X), lambda: ops.abs(X)),
        (lambda: X < Y, lambda: ops.less(X, Y)),
        (lambda: X <= 0, lambda: ops.less_equal(X, 0)),
        (lambda: X > Y, lambda: ops.greater(X, Y)),
        (lambda: X >= 0, lambda: ops.greater_equal(X, 0)),
        (lambda: 0 < X, lambda: ops.greater(X, 0)),  # noqa: SIM300
        (lambda: ~M, lambda: ops.logical_not(M)),
        (lambda: M & (X > 0), lambda: ops.logical_and(M, ops.greater(X, 0))),
        (lambda: M | True, lambda: ops.logical_or(M, True)),
        (lambda: False ^ M, lambda: ops.logical_xor(False, M)),
        (lambda: np.float32(2) * X, lambda: ops.multiply(2, X)),
        (lambda: ROWS * X, lambda: ops.multiply(ops.constant(ROWS, "f32"), X)),
        (lambda: ROWS > X, lambda: ops.less(X, ops.constant(ROWS, "f32"))),
        (lambda: ROWS.T @ X, lambda: ops.matmul(ops.constant(ROWS.T, "f32"), X)),
        (lambda: X @ ROWS.T, lambda: ops.matmul(X, ops.constant(ROWS.T, "f32"))),
        (lambda: X[1:, None], lambda: ops.getitem(X, (slice(1, None), None))),
    ],
)
def test_syntax_builds_what_the_functions_build(written, called):
    assert same(written(), called())


def test_plus_is_the_value_itself():
    assert +X is X


def test_equality_is_identity_so_that_values_are_keys():
    assert (X == X) is True
    assert (X == Y) is False
    assert (X != Y) is True
    assert {X: 1, Y: 2}[X] == 1


#: Functions of two f64 arrays or values of one shape, with slopes of at most 8 where both are within -1 to 1.
BINARY = [
    lambda a, b: a + b,
    lambda a, b: a - b * 0.5,
    lambda a, b: 2 - a * b,
    lambda a, b: a / (abs(b) + 1),
    lambda a, b: 1 / (a**2 + 1) + b,
    lambda a, b: -a + np.float32(0.25) * b,
    lambda a, b: a * np.linspace(-1, 1, a.shape[-1], dtype=np.float32) - b,
    lambda a, b: (a.T @ b)[: a.shape[0]] if a.shape[0] == a.shape[1] else a - b,
    lambda a, b: a[::-1] + b[:, ::-1],
    lambda a, b: a[:1] - b[:, -1:],
    lambda a, b: a - b.sum(axis=1, keepdims=True) / 8,
    lambda a, b: a.max(0) + b.reshape(-1).min() + b * 0,
]


def expression(data, pairs, shape):
    """Arrays and values of a random expression and of what is indexed and compared in it."""
    pairs = list(pairs)
    for _ in range(data.draw(st.integers(1, 6))):
        function = data.draw(st.sampled_from(BINARY))
        (a, x), (b, y) = (data.draw(st.sampled_from(pairs)) for _ in range(2))
        pairs.append(tuple(made / (abs(made) + 1) for made in (function(a, b), function(x, y))))
    key = data.draw(basic_indices(shape, allow_newaxis=True))
    return [(made, made[key], (made > 0) & ~(made > 0.5)) for made in pairs[-1]]


@settings(max_examples=3, deadline=None)
@given(st.data())
def test_random_expressions_agree_with_numpy_interpreted_and_compiled(data):
    shape = data.draw(st.sampled_from([(3, 3), (2, 5), (4, 1)]))
    arrays = [np.random.default_rng(seed).uniform(-1, 1, shape) for seed in range(3)]
    params = tuple(param(name, shape, "f64") for name in "abc")
    drawn = [expression(data, zip(arrays, params, strict=True), shape) for _ in range(8)]
    function = Function("f", params, tuple(value for _, values in drawn for value in values))
    compiled = compile(function, options=CompileOptions(threads=1, cache=False))(*arrays)
    # Up to 6 steps amplify roundings of 2**-53 by up to 8 each; the results are within -1 to 1.
    error = 8**6 * 16 * 2**-53
    for found in (interpret(function, *arrays), compiled):
        for n, ((array, part, sure), _) in enumerate(drawn):
            close = np.minimum(np.abs(array), np.abs(array - 0.5)) < error
            np.testing.assert_allclose(found[3 * n], array, rtol=0, atol=error)
            np.testing.assert_allclose(found[3 * n + 1], part, rtol=0, atol=error)
            np.testing.assert_array_equal(found[3 * n + 2] | close, sure | close)


def test_iteration_and_length_follow_the_first_axis():
    assert len(X) == 3
    rows = list(X)
    assert [same(row, X[n]) for n, row in enumerate(rows)] == [True] * 3
    first, second = param("pair", (2, 5))
    assert first.shape == second.shape == (5,)
    assert list(param("none", (0, 2))) == []


PAIR = Value(Call, (), TupleType((TensorType((2,)), TensorType((2,)))))
SCALAR = param("s", ())


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (
            lambda: X + param("z", (3, 4), "f64"),
            "add: operands must have the same dtype, got f32[3,4] and f64[3,4]; cast one to f32",
        ),
        (lambda: X @ Y, "matmul: inner dimensions differ, f32[3,4] @ f32[3,4]; transpose the second operand?"),
        (
            lambda: N / 2,
            "true_divide: the operands of / must be float, got i32[3,4] / i32[3,4]; use // for the quotient rounded "
            "down, or cast to f32 first",
        ),
        (
            lambda: X // 2,
            "floor_divide: the operands of // must be integers, got f32[3,4] // f32[3,4]; use ops.floor(x / y) "
            "for floats",
        ),
        (lambda: X & M, "logical_and: the dtype must be bool, got f32[3,4]; compare it, for example not_equal(x, 0)"),
        (
            lambda: bool(X > 0),
            "a graph value is neither true nor false until it is compiled and run, got bool[3,4]; select elements with "
            "ops.where",
        ),
        (
            lambda: 0 < X < 1,  # Python asks for the truth of 0 < X
            "a graph value is neither true nor false until it is compiled and run, got bool[3,4]; select elements with "
            "ops.where",
        ),
        (
            lambda: float(SCALAR),
            "a graph value has no number until it is compiled and run, got f32[] where float() needs one; convert with "
            "ops.cast, or compile the function and read its result",
        ),
        (
            lambda: int(SCALAR),
            "a graph value has no number until it is compiled and run, got f32[] where int() needs one; convert with "
            "ops.cast, or compile the function and read its result",
        ),
        (
            lambda: complex(SCALAR),
            "a graph value has no number until it is compiled and run, got f32[] where complex() needs one; convert "
            "with ops.cast, or compile the function and read its result",
        ),
        (
            lambda: range(SCALAR),
            "a graph value has no number until it is compiled and run, got f32[] where Python needs one; convert with "
            "ops.cast, or compile the function and read its result",
        ),
        (
            lambda: np.asarray(X),
            "a graph value has no elements for NumPy until it is compiled and run, got f32[3,4]; use the functions of "
            "adjoint.ops",
        ),
        (
            lambda: np.array([X, Y]),
            "a graph value has no elements for NumPy until it is compiled and run, got f32[3,4]; use the functions of "
            "adjoint.ops",
        ),
        (
            lambda: np.sum(X),
            "numpy.sum does not take graph values, got f32[3,4]; use ops.sum or x.sum",
        ),
        (
            lambda: 1.0 in X,
            "a graph value has no elements to search until it is compiled and run, got f32[3,4]; compare with "
            "ops.equal",
        ),
        (
            lambda: operator.setitem(X, 0, 1.0),
            "a graph value cannot be changed, got an assignment to elements of f32[3,4]; build a new one with "
            "ops.where, ops.concat or ops.scatter_add",
        ),
        (lambda: len(SCALAR), "only a tensor with an axis has a length, got f32[]; use its size or reshape it"),
        (lambda: list(SCALAR), "only a tensor with an axis can be iterated over, got f32[]; reshape it"),
        (lambda: list(PAIR), "only a tensor with an axis can be iterated over, got (f32[2], f32[2]); reshape it"),
    ],
)
def test_refusals_by_sentence_and_line(code, sentence):
    with pytest.raises(TypeRuleError) as refusal:
        code()
    assert refusal.value.message == sentence
    line = next(frame.lineno for frame in traceback.extract_tb(refusal.value.__traceback__) if frame.name == "<lambda>")
    assert refusal.value.where == f"{__file__}:{line}"


def test_param_alone_is_enough():
    code = "from adjoint import param; x = param('x', (2, 3)); print((2 * x + 1)[:, 1:].type)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout == "f32[2,2]\n"
