"""Sums of steps beside those of rows: the same bits as in a kernel of their own."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import host_target
from adjoint.compiler import compile
from adjoint.ir import Function, apply, param
from adjoint.kernel.target import Target
from adjoint.ops.attention import Attention
from adjoint.ops.attention_gradients import AttentionKeyGradient, AttentionQueryGradient
from adjoint.pipeline import lower_function
from tests.lower.attention.test_online_softmax import OPTIONS, inputs, slopes


def kernels(function: Function, target: Target) -> list[str]:
    return [kernel.name for kernel in lower_function(function, target).kernels if "adjoint" in kernel.name]


@pytest.mark.parametrize("causal", [False, True])
def test_one_kernel_gives_the_bits_of_two(causal, monkeypatch):
    params, arrays = inputs((2,), 70, 53, 37, 19, "f32")
    function = slopes(params, causal, 0.5)
    assert len(kernels(function, host_target())) == 1
    together = compile(function, options=OPTIONS)(*arrays)
    monkeypatch.setattr(costs, "MAX_SCRATCH_BYTES", 0)
    assert len(kernels(function, host_target())) == 2
    for one, other in zip(together, compile(function, options=OPTIONS)(*arrays), strict=True):
        np.testing.assert_array_equal(one, other)


def test_few_heads_are_left_to_all_cores():
    """A kernel with sums of steps has as many units as there are heads."""
    params, _ = inputs((3,), 512, 512, 32, 32, "f32")
    function, target = slopes(params, False, 0.5), host_target()
    assert len(kernels(function, replace(target, cores=1))) == 1
    assert len(kernels(function, replace(target, cores=16))) == 2


def test_gradients_of_other_weights_have_kernels_of_their_own():
    """Gradients of queries and keys by different scales, or only one of them causal."""
    q, k, v, ct = (param(name, (2, 40, 8)) for name in ("q", "k", "v", "ct"))
    logsum, delta = (param(name, (2, 40)) for name in ("logsum", "delta"))
    operands = (q, k, v, logsum, delta, ct)
    for other, count in (((0.5, False), 1), ((0.25, False), 2), ((0.5, True), 2)):
        made = apply(AttentionQueryGradient(0.5), *operands), apply(AttentionKeyGradient(*other), *operands)
        assert len(lower_function(Function("f", operands, made), host_target()).kernels) == count


def test_what_follows_a_sum_of_steps_ends_its_kernel():
    q, k, v, ct = params = inputs((2,), 40, 24, 8, 8, "f32")[0]
    out = apply(Attention(0.5, False), q, k, v)
    to_q, to_k, _ = out.op.vjp(ct, out, q, k, v)
    function = Function("f", tuple(params), (ops.add(ops.tanh(to_q), q), to_k))
    assert len(lower_function(function, host_target()).kernels) == 3, "attention, delta and the gradients"
