"""Small programs on one thread: which are, and that the others keep the kernels that threads share."""

import numpy as np

from adjoint import ops
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, param
from adjoint.pipeline import lower_function
from tests.lower.contractions.test_contractions import AVX512


def shared(function):
    return [kernel.parallel for kernel in lower_function(function, AVX512).kernels]


def product(rows, depth, columns):
    a, b = param("a", (rows, depth)), param("b", (depth, columns))
    return Function("f", (a, b), (ops.matmul(a, b),))


def test_a_product_of_a_microsecond_is_not_shared_and_a_longer_one_is():
    assert shared(product(80, 2, 104)) == [False]
    assert shared(product(80, 64, 104)) == [True]


def test_kernels_that_are_long_enough_together_are_shared():
    a, b = param("a", (80, 2)), param("b", (2, 104))
    middle = ops.matmul(a, b)
    two = Function("f", (a, b), (middle, ops.matmul(middle, ops.transpose(b, (1, 0)))))
    assert shared(two) == [True, True]


def test_kernels_of_loops_are_shared_however_short_an_iteration_is():
    x, a, b = param("x", (80, 104)), param("a", (80, 2)), param("b", (2, 104))
    made = ops.fori_loop(0, 50, lambda _, carry: ops.add(carry, ops.matmul(a, b)), x)
    assert any(shared(Function("f", (x, a, b), (made,))))


def test_a_small_step_on_several_threads_has_the_result_of_one():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((80, 2), np.float32), rng.standard_normal((2, 104), np.float32)
    one, three = (compile(product(80, 2, 104), options=CompileOptions(threads=n))(a, b) for n in (1, 3))
    np.testing.assert_array_equal(one, three)
    np.testing.assert_allclose(one, a @ b, rtol=1e-6, atol=1e-6)
