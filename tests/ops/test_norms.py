"""Norms, distances, differences and integrals."""

import math

import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param
from adjoint.testing import check_gradients
from tests.ops.running import gradient, run

X = np.array([[3.0, -4.0, 0.0], [0.0, 0.0, 0.0]])


@pytest.mark.parametrize("p", [0, 0.5, 1, 2, 3, math.inf, -math.inf, -1])
def test_norms_are_those_of_numpy(p):
    rows = np.array([[3.0, -4.0, 0.5], [1.0, 1.0, -2.0]])
    wanted = np.linalg.norm(rows, p, 1)
    np.testing.assert_allclose(run(lambda v: ops.norm(v, p, 1), rows), wanted)
    np.testing.assert_allclose(run(lambda v: v.norm(p, -1, keepdims=True), rows), wanted[:, None])


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, math.inf])
def test_the_gradient_of_a_norm_is_zero_where_the_norm_is_zero(p):
    """torch.norm(x, p, 1).sum().backward()."""
    found = gradient(lambda v: ops.norm(v, p, 1), X)
    assert found[1].tolist() == [0, 0, 0]
    if p in (1, 2, math.inf):
        wanted = {1: [1, -1, 0], 2: [0.6, -0.8, 0], math.inf: [0, -1, 0]}[p]
        np.testing.assert_allclose(found[0], wanted, atol=1e-15)


def test_distances_of_rows():
    x, y = np.array([[0.0, 0.0], [3.0, 4.0]]), np.array([[3.0, 4.0]])
    assert run(ops.cdist, x, y).tolist() == [[5], [0]]
    np.testing.assert_allclose(gradient(ops.cdist, x, y), [[-0.6, -0.8], [0, 0]])
    with pytest.raises(TypeRuleError) as error:
        ops.cdist(param("x", (2, 3)), param("y", (2, 4)))
    assert error.value.message == "cdist: operands must be rows [..., n, d] of one length d, got f32[2,3] and f32[2,4]"


def test_counts_and_sums_without_nan():
    x = np.array([[1.0, math.nan, 3.0], [0.0, math.nan, math.nan]])
    assert run(lambda v: ops.nansum(v, 1), x).tolist() == [4, 0]
    assert run(lambda v: ops.nanmean(v, 1), x).tolist() == [2, 0]
    assert gradient(lambda v: ops.nanmean(v, 1), x).tolist() == [[0.5, 0, 0.5], [1, 0, 0]]
    assert run(lambda v: ops.count_nonzero(v, 0), x).tolist() == [1, 2, 2]
    assert run(lambda v: v.any(1), X).tolist() == [True, False]
    assert run(lambda v: v.all(0), X).tolist() == [False, False, False]
    assert run(lambda v: ops.all(v, 0), np.zeros((0, 2))).tolist() == [True, True]


def test_differences_and_integrals_are_those_of_numpy():
    y = np.array([[1.0, 4.0, 9.0, 16.0], [0.0, 1.0, 0.0, -3.0]])
    assert run(lambda v: ops.diff(v, 2), y).tolist() == np.diff(y, 2).tolist()
    assert run(lambda v: ops.diff(v, 1, 0), y).tolist() == np.diff(y, 1, 0).tolist()
    assert run(ops.diff, np.array([True, True, False])).tolist() == [False, True]
    assert run(lambda v: ops.diff(v, 5), y).shape == (2, 0)
    x, places = np.array([0.0, 1.0, 3.0, 4.0]), np.array([0.0, 2.0])
    means = (y[:, 1:] + y[:, :-1]) / 2
    assert run(ops.trapezoid, y, x).tolist() == (means * np.diff(x)).sum(1).tolist()
    assert run(lambda v: ops.trapezoid(v, dx=0.5), y).tolist() == (means.sum(1) / 2).tolist()
    assert run(lambda v, w: ops.trapezoid(v, w, axis=0), y, places).tolist() == y.sum(0).tolist()
    check_gradients(lambda v, w: ops.trapezoid(v, w), [y, x])
    with pytest.raises(InvalidValueError) as error:
        ops.diff(param("x", (3,)), -1)
    assert error.value.message == "diff: n must be at least 0, got -1; use cumsum for sums"
