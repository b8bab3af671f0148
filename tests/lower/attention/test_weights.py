"""Scores are computed while dot products are in registers, beside weights that are not."""

import numpy as np
import pytest

from adjoint.codegen.targets import target_for
from adjoint.compiler import compile
from adjoint.ir import Function, apply, param
from adjoint.kernel.printer import print_kernel
from adjoint.ops.attention import Attention, AttentionLogSum
from adjoint.ops.attention_gradients import AttentionQueryGradient
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph

SCALE = 0.25


def parameters(t, s, d):
    q, k, v = (param(name, (2, rows, d)) for name, rows in (("q", t), ("k", s), ("v", s)))
    return q, k, v, param("logsum", (2, t)), param("delta", (2, t)), param("ct", (2, t, d))


@pytest.mark.parametrize("causal", [False, True])
def test_no_loop_of_its_own_computes_scores(causal):
    q, k, v, *_ = parameters(40, 40, 16)
    (kernel,) = lower_function(
        Function("f", (q, k, v), (apply(Attention(SCALE, causal), q, k, v),)), target_for("avx512")
    ).kernels
    text = print_kernel(kernel)
    assert f"mul(acc[i*32 + v.1*16 + l], {SCALE})" in text
    assert "mul(dots0[" not in text


@pytest.mark.parametrize("causal", [False, True])
def test_scores_beside_other_weights_of_the_same_dot_products(causal):
    """The gradient of queries needs the same dot products, but its weights are no exponents."""
    params = parameters(37, 70, 24)
    q, k, v, *_ = params
    results = (
        apply(Attention(SCALE, causal), q, k, v),
        apply(AttentionQueryGradient(SCALE, causal), *params),
        apply(AttentionLogSum(SCALE, causal), q, k),
    )
    function = Function("f", params, results)
    assert len(lower_function(function, target_for("avx512")).kernels) == 1
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype(np.float32) for p in params]
    arrays[3] += 4.0  # about the logarithm of a sum of 70 exponentials
    agrees_with_graph(compile(function)(*arrays), function, *arrays)
