"""Factorizations, linear systems and determinants of small matrices, against NumPy and difference quotients."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.errors import TypeRuleError
from adjoint.ir import Function, param
from adjoint.testing import check_gradients, interpret
from adjoint.transforms import jvp
from tests.ops.running import gradient

RNG = np.random.default_rng(0)
A = RNG.standard_normal((2, 4, 4)) + 2 * np.eye(4)
B = RNG.standard_normal((2, 4, 3))
S = A @ A.swapaxes(-1, -2)


def test_results_are_numpys():
    a, b, s = param("a", A.shape, "f64"), param("b", B.shape, "f64"), param("s", S.shape, "f64")
    factor = ops.cholesky(s)
    sign, logarithm = ops.slogdet(a)
    results = {
        "cholesky": (factor, np.linalg.cholesky(S)),
        "upper": (ops.cholesky(s, upper=True), np.linalg.cholesky(S).swapaxes(-1, -2)),
        "cholesky_solve": (ops.cholesky_solve(b, factor), np.linalg.solve(S, B)),
        "cholesky_solve, upper": (ops.cholesky_solve(b, ops.cholesky(s, True), True), np.linalg.solve(S, B)),
        "solve": (ops.solve(a, b), np.linalg.solve(A, B)),
        "vectors": (ops.solve(a, b[:, :, 0]), np.linalg.solve(A, B)[:, :, 0]),
        "one matrix": (ops.solve(a[0], b), np.linalg.solve(A[0], B)),
        "triangular": (ops.solve_triangular(a, b, upper=True), np.linalg.solve(np.triu(A), B)),
        "inv": (ops.inv(a), np.linalg.inv(A)),
        "det": (ops.det(a), np.linalg.det(A)),
        "logdet": (ops.logdet(s), np.log(np.linalg.det(S))),
        "sign": (sign, np.sign(np.linalg.det(A))),
        "logarithm": (logarithm, np.log(abs(np.linalg.det(A)))),
    }
    function = Function("f", (a, b, s), tuple(result for result, _ in results.values()))
    found = compile(function, options=CompileOptions(threads=1, cache=False))(A, B, S)
    for name, got, (_, wanted) in zip(results, found, results.values(), strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-10, atol=1e-12, err_msg=name)


def test_gradients_of_functions():
    one = S[0] / 4
    check_gradients(lambda s, b: ops.cholesky_solve(b, ops.cholesky(s)), (one, B[0]), rtol=1e-5)
    check_gradients(ops.inv, (A[0],), rtol=1e-5)
    check_gradients(ops.logdet, (one,), rtol=1e-5)
    found = gradient(ops.cholesky, one)
    np.testing.assert_allclose(found, found.T, rtol=1e-13)  # of the symmetric part


def test_forward_mode_of_a_system():
    a, b = param("a", (4, 4), "f64"), param("b", (4, 3), "f64")
    move = RNG.standard_normal((4, 4)), RNG.standard_normal((4, 3))
    x, slope = interpret(jvp(Function("f", (a, b), (ops.solve(a, b),))), A[0], B[0], *move)
    np.testing.assert_allclose(slope, np.linalg.solve(A[0], move[1] - move[0] @ x), rtol=1e-10)


def test_matrices_without_a_factor_or_an_inverse_give_nan_and_infinities():
    singular, negative = np.array([[1.0, 2.0], [2.0, 4.0]]), np.array([[4.0, 2.0], [2.0, -1.0]])
    a, b = param("a", (2, 2), "f64"), param("b", (2, 2), "f64")
    results = (ops.cholesky(b), ops.inv(a), ops.det(a), *ops.slogdet(a), ops.logdet(b))
    function = Function("f", (a, b), results)
    run = compile(function, options=CompileOptions(threads=1, cache=False))
    factor, inverse, det, sign, logarithm, of_negative = run(singular, negative)
    np.testing.assert_array_equal(factor, [[2, 0], [1, np.nan]])
    assert not np.isfinite(inverse).any()
    assert (det, sign, logarithm) == (0, 0, -np.inf)
    assert np.isnan(of_negative)


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        ("cholesky: matrices must be square, got f64[2,3]; reshape it to [..., n, n]", lambda x: ops.cholesky(x)),
        ("inv: matrices must be square, got f64[3]; reshape it to [..., n, n]", lambda x: ops.inv(x[0])),
        (
            "solve: both must be matrices or batches of them, got f64[3] and f64[2,3]; reshape one",
            lambda x: ops.solve(x[0], x),
        ),
        (
            "solve: batch dimensions must be equal or 1, got f64[2,1,1] and f64[3,1,2]; reshape one",
            lambda x: ops.solve(x[:, :1, None], ops.reshape(x, (3, 1, 2))),
        ),
    ],
)
def test_refusals(sentence, call):
    with pytest.raises(TypeRuleError) as error:
        call(param("x", (2, 3), "f64"))
    assert error.value.message == sentence
