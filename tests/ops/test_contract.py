import numpy as np
import pytest

from adjoint import ops
from adjoint.errors import TypeRuleError
from adjoint.ir import param, toposort
from adjoint.ops.contract import MatMul
from tests.closeness import close_to_product
from tests.ops.running import differences, gradient, parameters, pulled, run

RNG = np.random.default_rng(5)


def array(*shape):
    return RNG.standard_normal(shape)


SHAPES = [
    ((3, 4), (4, 5)),
    ((4,), (4, 5)),
    ((3, 4), (4,)),
    ((4,), (4,)),
    ((2, 3, 4), (4,)),
    ((4,), (2, 4, 5)),
    ((2, 3, 4), (4, 5)),
    ((2, 6, 3, 4), (4, 5)),
    ((2, 3, 4), (1, 4, 5)),
    ((3, 4), (2, 4, 5)),
    ((2, 3, 4), (2, 4, 5)),
    ((2, 1, 3, 4), (1, 6, 4, 5)),
    ((6, 3, 4), (2, 1, 4, 5)),
    ((2, 3, 0), (0, 5)),
]


@pytest.mark.blas
@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_matmul_is_numpys(a, b):
    x, y = array(*a), array(*b)
    close_to_product(run(ops.matmul, x, y), x, y)


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
def test_its_gradients_agree_with_differences(a, b):
    x, y = array(*a), array(*b)
    weight = RNG.standard_normal(np.matmul(x, y).shape)

    def weighted(x, y):
        return ops.multiply(ops.matmul(x, y), ops.constant(weight))

    expected = differences(lambda x: (np.matmul(x, y) * weight).sum(), x)
    np.testing.assert_allclose(gradient(weighted, x, y), expected, atol=1e-7)
    expected = differences(lambda y: (np.matmul(x, y) * weight).sum(), y)
    np.testing.assert_allclose(gradient(lambda y, x: weighted(x, y), y, x), expected, atol=1e-7)


@pytest.mark.blas
@pytest.mark.parametrize("batch", [(), (2,), (3, 1)])
@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_flags_exchange_the_last_two_axes(ta, tb, batch):
    x, y = array(*batch, *((4, 3) if ta else (3, 4))), array(*((5, 4) if tb else (4, 5)))
    found = run(lambda a, b: ops.matmul(a, b, ta, tb), x, y)
    close_to_product(found, np.swapaxes(x, -1, -2) if ta else x, y.T if tb else y)


def products(value):
    return [v for v in toposort([value]) if isinstance(v.op, MatMul)]


def test_a_batch_times_one_matrix_is_one_product_and_so_is_the_gradient():
    x, w = param("x", (8, 16, 32)), param("w", (32, 10))
    out = ops.matmul(x, w)
    assert out.shape == (8, 16, 10)
    (product,) = products(out)
    assert product.shape == (128, 10)
    backward = pulled(out, w)
    (grad,) = [v for v in products(backward) if v is not product]
    assert grad.shape == (32, 10)
    assert [v.shape for v in grad.inputs] == [(128, 32), (128, 10)]


@pytest.mark.parametrize("ta", [False, True])
@pytest.mark.parametrize("tb", [False, True])
def test_gradients_are_products_with_other_flags(ta, tb):
    a, b = parameters(array(*((4, 3) if ta else (3, 4))), array(*((5, 4) if tb else (4, 5))))
    out = ops.matmul(a, b, ta, tb)
    for grad, operand in ((pulled(out, a), a), (pulled(out, b), b)):
        assert grad.type == operand.type
        assert {v.op.name for v in toposort([grad])} == {"param", "full", "matmul"}


def test_integers_multiply_exactly():
    x = np.array([[2**40, 3], [-1, 7]])
    np.testing.assert_array_equal(run(ops.matmul, x, x), x @ x)


@pytest.mark.parametrize(
    ("a", "b", "flags", "fix"),
    [
        ((64, 784), (128, 784), (False, False), r"f32\[64,784\] @ f32\[128,784\]; transpose the second operand\?"),
        ((784, 64), (784, 10), (False, False), r"transpose the first operand\?"),
        ((784, 64), (10, 784), (False, False), r"transpose both operands, or exchange them\?"),
        ((64, 784), (784, 10), (False, True), r"f32\[784,10\].T; leave the second operand as it is\?"),
        ((64, 784), (784, 10), (True, False), r"f32\[64,784\].T @ .*; leave the first operand as it is\?"),
        ((784, 64), (784, 10), (False, True), r"transpose the first operand instead\?"),
        ((64, 784), (128, 10), (False, False), "change 784 or 128 to match the other"),
        ((2, 64, 784), (128, 784), (False, False), r"transpose the second operand\?"),
        ((3,), (4, 5), (False, False), r"f32\[3\] @ f32\[4,5\]; change 3 or 4"),
        ((4, 5), (4,), (False, False), r"f32\[4,5\] @ f32\[4\]; change 5 or 4"),
    ],
)
def test_inner_dimensions_that_differ_are_refused_with_what_would_fit(a, b, flags, fix):
    with pytest.raises(TypeRuleError, match=f"matmul: inner dimensions differ, .*{fix}"):
        ops.matmul(param("a", a), param("b", b), *flags)


def test_other_refusals():
    matrix = param("m", (2, 2))
    with pytest.raises(TypeRuleError, match=r"matmul: operands must not be scalars, got f32\[\] @ f32\[2,2\]"):
        ops.matmul(param("s", ()), matrix)
    with pytest.raises(TypeRuleError, match=r"only matrices can be transposed, got f32\[2\]; omit the flag"):
        ops.matmul(matrix, param("v", (2,)), transpose_b=True)
    with pytest.raises(
        TypeRuleError, match=r"matmul: batch dimensions must be equal or 1, got f32\[2,3,4\] and f32\[3,4,5\]"
    ):
        ops.matmul(param("a", (2, 3, 4)), param("b", (3, 4, 5)))
    with pytest.raises(
        TypeRuleError, match=r"matmul: operands must have the same dtype, got f32\[2,2\] and f64\[2,2\]; cast one of"
    ):
        ops.matmul(matrix, param("d", (2, 2), "f64"))


def test_errors_show_the_shapes_that_were_given():
    """Not those of the matrices that a product of a batch becomes."""
    image, wide = param("image", (32, 16, 5, 5)), param("w", (400, 120))
    for build, expected in [
        (
            lambda: ops.matmul(image, wide),
            "matmul: inner dimensions differ, f32[32,16,5,5] @ f32[400,120]; x.flatten(1) makes "
            "f32[32,400] of the first operand",
        ),
        (
            lambda: ops.matmul(param("sequence", (4, 32, 8, 10)), param("wide", (80, 10))),
            "matmul: inner dimensions differ, f32[4,32,8,10] @ f32[80,10]; x.flatten(2) makes f32[4,32,80] of the "
            "first operand",
        ),
        (
            lambda: ops.linear(image, wide),
            "linear: the last axis of x must be the first of w, got x f32[32,16,5,5] and w f32[400,120]; x.flatten(1) "
            "makes f32[32,400] of it",
        ),
        (
            lambda: ops.linear(image, param("w", (7, 3))),
            "linear: the last axis of x must be the first of w, got x f32[32,16,5,5] and w f32[7,3]; x must be "
            "[..., 7]",
        ),
        (
            lambda: ops.matmul(image, param("w", (5, 120), "f64")),
            "matmul: operands must have the same dtype, got f32[32,16,5,5] and f64[5,120]; cast one of them",
        ),
    ]:
        with pytest.raises(TypeRuleError) as caught:
            build()
        assert caught.value.message == expected
