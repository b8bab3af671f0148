"""Bounds of rounding: they hold for what float32 does, are not far above it, and grow where digits are lost."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import Function, param
from adjoint.testing import interpret
from adjoint.testing.rounding import rounding, unit_roundoff
from tests.closeness import agrees_with_graph, close_to_product, within

RNG = np.random.default_rng(0)


def floats(*shape, dtype="f4"):
    return RNG.standard_normal(shape).astype(dtype)


def product(dtype="f32"):
    a, b = param("a", (30, 200), dtype), param("b", (200, 20), dtype)
    return Function("f", (a, b), (ops.matmul(a, b),))


def summed_in_order(a, b):
    """A product whose sums run from the first term to the last, each step rounded: the worst order in use."""
    made = np.zeros((len(a), b.shape[1]), a.dtype)
    for k in range(len(b)):
        made += a[:, k : k + 1] * b[k]
    return made


@pytest.mark.blas
@pytest.mark.parametrize("dtype", ["f32", "f64"])
def test_products_in_any_order_are_within_and_less_precise_ones_are_not(dtype):
    a, b = (floats(*p.shape, dtype=p.dtype) for p in product(dtype).params)
    for found in (a @ b, summed_in_order(a, b)):
        agrees_with_graph(found, product(dtype), a, b)
        close_to_product(found, a, b)
    rounded = [(x.astype(np.longdouble).astype(f"f{x.itemsize // 2}")).astype(x.dtype) for x in (a, b)]
    for check in (close_to_product, lambda found, *arrays: agrees_with_graph(found, product(dtype), *arrays)):
        with pytest.raises(AssertionError, match="are off by more than rounding allows; the worst is"):
            check(rounded[0] @ rounded[1], a, b)


def test_the_bound_of_a_product_is_that_of_the_book():
    a, b = floats(30, 200), floats(200, 20)
    ((value, bound),) = rounding(product(), a, b)
    wide = a.astype("f8"), b.astype("f8")
    np.testing.assert_allclose(value, wide[0] @ wide[1], rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(bound, (np.sqrt(200) + 1) * 2.0**-24 * (abs(wide[0]) @ abs(wide[1])), rtol=1e-12)


def test_an_element_that_is_small_is_not_excused_by_a_large_one():
    x = param("x", (2,))
    function = Function("f", (x,), (ops.multiply(x, 3.0),))
    array = np.array([1e6, 1e-6], "f4")
    with pytest.raises(AssertionError, match="result 0: 1 of 2 elements"):
        agrees_with_graph(np.array([3e6, 3.1e-6], "f4"), function, array)


def test_where_digits_cancel_more_is_allowed():
    """A difference of numbers near 1000 has the rounding of those, a difference of numbers near 1 that of these."""
    x, y = param("x", (100,)), param("y", (100,))
    function = Function("f", (x, y), (ops.subtract(ops.exp(x), ops.exp(y)),))
    near, far = (rounding(function, np.full(100, top, "f4"), np.full(100, top - 1e-3, "f4"))[0][1] for top in (0, 6.9))
    assert (far > 300 * near).all()
    assert (near < 1e-5).all()
    array = floats(100)
    agrees_with_graph(interpret(function, array, array + np.float32(1e-4)), function, array, array + np.float32(1e-4))


def test_a_comparison_that_rounding_decides_may_come_out_either_way():
    x = param("x", (2,))
    high = ops.greater(ops.exp(ops.log(x)), ops.constant(np.array([2, 1], np.float32)))
    ((_, bound),) = rounding(Function("f", (x,), (high,)), np.array([2, 2], "f4"))
    np.testing.assert_array_equal(bound, [1, 0])


def test_infinities_and_nan_have_to_be_where_they_are():
    x = param("x", (3,))
    function = Function("f", (x,), (ops.log(ops.exp(x)),))
    array = np.array([100, 1, np.nan], "f4")
    agrees_with_graph(np.array([np.inf, 1, np.nan], "f4"), function, array)
    for wrong in ([100, 1, np.nan], [np.inf, np.nan, np.nan], [np.inf, 1, 1]):
        with pytest.raises(AssertionError):
            agrees_with_graph(np.array(wrong, "f4"), function, array)


def test_unit_roundoffs_are_half_of_epsilon():
    for dtype in (np.float16, np.float32, np.float64):
        assert unit_roundoff(dtype) == np.finfo(dtype).eps / 2


def test_within_looks_at_shapes_and_exact_numbers():
    with pytest.raises(AssertionError, match=r"\(2,\) instead of \(3,\)"):
        within(np.zeros(2), np.zeros(3), np.zeros(3))
    with pytest.raises(AssertionError, match="1 of 2 elements are off"):
        within(np.array([1, 2]), np.array([1, 3]), np.zeros(2))
