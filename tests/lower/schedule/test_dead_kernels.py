"""Dead kernels: what is left of padding that no kernel reads, and of padding that one does."""

import numpy as np

from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.pipeline import lower_function
from tests.lower.contractions.test_contractions import AVX512


def pads_of(function):
    return [k.name for k in lower_function(function, AVX512).kernels if k.name.startswith("pad")]


def convolved(results):
    x, w = param("x", (2, 32, 8, 8)), param("w", (32, 1, 3, 3))
    padded = ops.pad(x, (0, 0, 1, 1), (0, 0, 1, 1))
    return Function("f", (x, w), results(padded, ops.conv2d(padded, w, groups=32, stride=2)))


def test_padding_that_no_kernel_reads_is_not_computed():
    assert pads_of(convolved(lambda _, y: (y,))) == []


def test_padding_that_is_a_result_is():
    function = convolved(lambda padded, y: (padded, y))
    x, w = (np.random.default_rng(0).standard_normal(p.shape).astype("f4") for p in function.params)
    padded, _ = compile(function)(x, w)
    np.testing.assert_array_equal(padded, np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1))))
    assert len(pads_of(function)) == 1


def test_kernels_of_empty_results_stay():
    x = param("x", (0, 4))
    made = compile(Function("f", (x,), (ops.sum(x, axis=1),)))(np.zeros((0, 4), np.float32))
    assert made.shape == (0,)
