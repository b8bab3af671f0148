import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import param, toposort
from adjoint.ops.reduce import ReduceProd
from tests.ops.running import differences, gradient, parameters, pulled, run

RNG = np.random.default_rng(3)
X = RNG.standard_normal((2, 3, 4))
AXES = [None, 0, 1, -1, (0, 2), (-1, 1), [1], ()]
PAIRS = [(ops.sum, np.sum), (ops.max, np.max), (ops.min, np.min), (ops.prod, np.prod), (ops.mean, np.mean)]


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("axis", AXES, ids=str)
@pytest.mark.parametrize(("ours", "numpys"), PAIRS, ids=lambda f: getattr(f, "__name__", ""))
def test_reductions_are_numpys(ours, numpys, axis, keepdims):
    expected = numpys(X, axis if axis is None or isinstance(axis, int) else tuple(axis), keepdims=keepdims)
    found = run(lambda x: ours(x, axis, keepdims), X)
    assert found.shape == expected.shape
    np.testing.assert_allclose(found, expected, rtol=1e-13)


@pytest.mark.parametrize(("reduction", "value"), [(ops.sum, 0.0), (ops.prod, 1.0)])
def test_a_reduction_of_nothing_is_neutral(reduction, value):
    found = run(lambda x: reduction(x, 1), np.zeros((2, 0, 3)))
    np.testing.assert_array_equal(found, np.full((2, 3), value))
    assert gradient(lambda x: reduction(x, 1), np.zeros((2, 0, 3))).shape == (2, 0, 3)


@pytest.mark.parametrize("reduction", [ops.max, ops.min, ops.argmax])
def test_nothing_has_no_extreme(reduction):
    name = reduction.__name__
    with pytest.raises(TypeRuleError, match=rf"{name}: a reduced axis must not be empty, got f32\[2,0\] over axis 1"):
        reduction(param("x", (2, 0)), -1)
    assert run(lambda x: reduction(x, 1), np.zeros((0, 3))).shape == (0,)


def test_nan_wins():
    x = np.array([[1.0, np.nan, 3.0], [2.0, 5.0, 4.0]])
    np.testing.assert_array_equal(run(lambda x: ops.max(x, 1), x), [np.nan, 5])
    np.testing.assert_array_equal(run(lambda x: ops.min(x, 1), x), [np.nan, 2])
    np.testing.assert_array_equal(run(lambda x: ops.argmax(x, 1), x), [1, 1])


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_argmax_is_numpys_and_takes_the_first(axis):
    x = np.round(X)
    found = run(lambda x: ops.argmax(x, axis), x)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, x.argmax(axis))
    np.testing.assert_array_equal(run(lambda x: ops.argmax(x, axis, True), x), x.argmax(axis, keepdims=True))


@pytest.mark.parametrize("reduction", [ops.max, ops.min])
def test_ties_share_the_gradient_equally(reduction):
    # torch.amax and torch.amin of [[3, 3, 1], [2, 2, 2]] along dim 1, and of [3, 3, 3, 1] over everything.
    x = np.array([[3.0, 3.0, 1.0], [2.0, 2.0, 2.0]]) * (1 if reduction is ops.max else -1)
    np.testing.assert_allclose(gradient(lambda x: reduction(x, 1), x), [[0.5, 0.5, 0], [1 / 3] * 3])
    np.testing.assert_allclose(gradient(lambda x: reduction(x), x), [[0.5, 0.5, 0], [0] * 3])


ZEROS = {
    "none": [1.5, -2.0, 0.5, 3.0, 0.7],
    "one": [1.5, 0.0, 0.5, 3.0, 0.7],
    "two": [1.5, 0.0, 0.5, 0.0, 0.7],
    "three": [0.0, 0.0, 0.5, 0.0, 0.7],
    "tiny": [1e-30, 1e30, 1e-20, 1e20, 2.0],
}


@pytest.mark.parametrize("x", [*map(np.array, ZEROS.values())], ids=ZEROS)
def test_gradient_of_a_product_is_the_product_of_the_others(x):
    expected = [np.prod(np.delete(x, i)) for i in range(len(x))]
    np.testing.assert_allclose(gradient(ops.prod, x), expected, rtol=1e-14)


@pytest.mark.parametrize("x", [*map(np.array, list(ZEROS.values())[:4])], ids=list(ZEROS)[:4])
def test_second_derivatives_of_a_product_are_right_beside_zeros(x):
    n = len(x)
    first = np.array([np.prod(np.delete(x, i)) for i in range(n)])
    second = np.array([[0.0 if i == j else np.prod(np.delete(x, [i, j])) for j in range(n)] for i in range(n)])
    np.testing.assert_allclose(gradient(ops.prod, x, order=2), 2 * second @ first, rtol=1e-13, atol=1e-14)


@pytest.mark.parametrize("axis", [0, (0, 2), (1, 2), None], ids=str)
def test_gradient_of_a_product_over_several_axes(axis):
    x = X.copy()
    x[0, 1, 2] = x[1, 0, 0] = 0
    expected = differences(lambda x: np.prod(x, axis).sum(), x)
    np.testing.assert_allclose(gradient(lambda x: ops.prod(x, axis), x), expected, atol=1e-9)


def test_gradient_of_a_long_product_is_a_short_graph():
    (x,) = parameters(np.ones(1000))
    assert len(toposort([pulled(ops.prod(x), x)])) < 200
    assert isinstance(ops.prod(x).op, ReduceProd)


def test_integers_stay_integers_and_wrap():
    x = np.array([100, 100], np.int8)
    found = run(ops.sum, x)
    assert found.dtype == np.int8
    assert found == -56


def test_mean_of_halves_does_not_overflow():
    x = np.full(3000, 50.0, np.float16)  # their sum is more than twice the greatest f16
    found = run(ops.mean, x)
    assert found.dtype == np.float16
    assert found == 50


def test_refusals():
    x = param("x", (2, 3))
    with pytest.raises(InvalidValueError, match="sum: axis 2 is out of range for rank 2; use -2 to 1"):
        ops.sum(x, 2)
    with pytest.raises(InvalidValueError, match=r"max: axes must be distinct, got \(0, -2\)"):
        ops.max(x, (0, -2))
    with pytest.raises(
        TypeRuleError, match=r"sum: the dtype must be float or integer or unsigned, got bool\[2\]; cast it to i32 first"
    ):
        ops.sum(param("b", (2,), "bool"))
    with pytest.raises(TypeRuleError, match=r"mean: the dtype must be float, got i32\[2\]; cast to a float"):
        ops.mean(param("i", (2,), "i32"))


def test_axes_may_be_numpys_integers_and_must_be_integers():
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    np.testing.assert_array_equal(run(lambda v: ops.sum(v, np.int64(1)), x), x.sum(1))
    np.testing.assert_array_equal(run(lambda v: ops.sum(v, np.array([0, 1])), x), x.sum())
    for axis in (1.0, (1.0,)):
        with pytest.raises(InvalidValueError) as refusal:
            ops.sum(param("x", (2, 3)), axis)
        assert refusal.value.message == "sum: an axis must be an integer, got 1.0; pass one such as 0 or -1"
