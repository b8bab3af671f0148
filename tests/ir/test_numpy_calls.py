"""NumPy's operators and functions with a graph value: the operators build graphs, the functions are refused."""

import operator

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, param

X, N, M = param("x", (2, 3)), param("n", (2, 3), "i32"), param("m", (2, 3), "bool")
ROWS = np.array([[0.5, 2.0, -1.0], [3.0, 0.25, 1.0]], np.float32)
ELSEWHERE = "use the functions of adjoint.ops or the methods of the value"


@pytest.mark.parametrize(
    "apply",
    [
        operator.add,
        operator.sub,
        operator.mul,
        operator.truediv,
        operator.pow,
        operator.lt,
        operator.le,
        operator.gt,
        operator.ge,
    ],
)
@pytest.mark.parametrize("left", [np.abs(ROWS) + 1, np.float32(2), np.float64(3), np.array(2.0)])
def test_operators_beside_an_array_are_those_of_numpy(apply, left, tmp_path):
    function = Function("f", (X,), (apply(left, X),))
    got = compile(function, options=CompileOptions(threads=1, cache_directory=tmp_path))(ROWS)
    np.testing.assert_allclose(got, apply(left, ROWS.astype(np.float64)), rtol=1e-6)


@pytest.mark.parametrize(
    ("written", "called"),
    [
        (lambda: np.ones((4, 2)) @ X, lambda: ops.matmul(np.ones((4, 2)), X)),
        (lambda: np.arange(3) // N, lambda: ops.divide(np.arange(3), N)),
        (lambda: np.int64(7) // N, lambda: ops.divide(7, N)),
        (lambda: np.ones(3, bool) & M, lambda: ops.logical_and(np.ones(3, bool), M)),
        (lambda: np.ones(3, bool) | M, lambda: ops.logical_or(np.ones(3, bool), M)),
        (lambda: np.bool_(True) ^ M, lambda: ops.logical_xor(True, M)),
    ],
)
def test_operators_that_need_other_operands_build_the_same_graph(written, called):
    assert Function("f", (X, N, M), (written(),)) == Function("f", (X, N, M), (called(),))


def test_equality_compares_objects_from_either_side():
    assert (ROWS == X) is False
    assert (X == ROWS) is False
    assert (ROWS != X) is True
    assert np.float32(1) not in (X,)


def in_place():
    total = np.zeros((2, 3))
    total += X


@pytest.mark.parametrize(
    ("code", "sentence"),
    [
        (lambda: np.exp(X), "numpy.exp does not take graph values, got f32[2,3]; use ops.exp(x) or x.exp()"),
        (lambda: np.maximum(X, 0), "numpy.maximum does not take graph values, got f32[2,3]; use ops.maximum(x, y)"),
        (lambda: np.maximum(0, X), "numpy.maximum does not take graph values, got f32[2,3]; use ops.maximum(x, y)"),
        (lambda: np.absolute(X), "numpy.absolute does not take graph values, got f32[2,3]; use ops.abs(x) or x.abs()"),
        (lambda: np.add(X, 1), "numpy.add does not take graph values, got f32[2,3]; use ops.add(x, y)"),
        (lambda: np.var(X), "numpy.var does not take graph values, got f32[2,3]; use ops.variance or x.var"),
        (lambda: np.concatenate([X, X]), "numpy.concatenate does not take graph values, got f32[2,3]; use ops.concat"),
        (lambda: np.isnan(X), "numpy.isnan does not take graph values, got f32[2,3]; use ops.isnan(x)"),
        (lambda: ROWS % X, "numpy.remainder does not take graph values, got f32[2,3]; use ops.remainder(x, y)"),
        (lambda: np.add.reduce(X), f"numpy.add.reduce does not take graph values, got f32[2,3]; {ELSEWHERE}"),
        (
            in_place,
            "an array cannot take the result of numpy.add with a graph value, got f32[2,3]; write total = total + x "
            "instead of total += x",
        ),
    ],
)
def test_functions_are_refused_with_that_of_adjoint(code, sentence):
    with pytest.raises(TypeRuleError) as refusal:
        code()
    assert refusal.value.message == sentence
