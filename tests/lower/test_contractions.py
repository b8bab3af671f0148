"""Contractions of every plan against NumPy in float64: in place, packed, turned, blocked, with edges and batches."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.native import target_for
from adjoint.compiler import CompileOptions, compile, host, lower_function
from adjoint.ir import Function, param
from adjoint.kernel.index import as_index
from adjoint.kernel.target import Target
from adjoint.lower.contractions import Contraction, match_contraction, plan_contraction
from adjoint.lower.emit import Context, group_puller
from adjoint.lower.fuse import fuse
from adjoint.lower.pull import output_vars
from tests.codegen.test_targets import levels

OPTIONS = CompileOptions(cache=False, threads=2)
AVX512 = Target("x86_64-unknown-linux-gnu", "x86-64-v4", "", 64, 32)
AVX2 = Target("x86_64-unknown-linux-gnu", "x86-64-v3", "", 32, 16)
SSE2 = Target("x86_64-unknown-linux-gnu", "x86-64", "", 16, 16)


def product(m, k, n, transpose_a=False, transpose_b=False, batch=()):
    a = param("a", (*batch, *((k, m) if transpose_a else (m, k))))
    b = param("b", (*batch, *((n, k) if transpose_b else (k, n))))
    return Function("product", (a, b), (ops.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b),))


def contraction_of(function):
    """The contraction that a function of one product lowers to."""
    fusion = fuse(function)
    (group,) = fusion.groups
    context = Context(host(), {}, names={})
    puller = group_puller(context, group)
    for p in function.params:
        from_buffer = lower_function(function, host()).slots[function.params.index(p)]
        context.homes[p] = from_buffer
    out = output_vars(group.shape)
    made = match_contraction(puller.describe(group.root, tuple(as_index(v) for v in out)), out)
    assert isinstance(made, Contraction)
    return made


SHAPES = [
    (1, 1, 2),
    (1, 300, 70),
    (64, 784, 128),
    (33, 17, 10),
    (5, 1030, 50),
    (130, 70, 97),
    (16, 512, 1024),
    (48, 2100, 1030),
]


@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_products_agree_with_float64(m, k, n, transpose_a, transpose_b):
    function = product(m, k, n, transpose_a, transpose_b)
    rng = np.random.default_rng(m + k + n)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    want = (a.T if transpose_a else a).astype("f8") @ (b.T if transpose_b else b).astype("f8")
    got = compile(function, options=OPTIONS)(a, b)
    np.testing.assert_allclose(got, want, atol=2e-6 * np.sqrt(k) * 4, rtol=1e-5)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("transpose_b", [False, True])
def test_products_in_batches_at_every_width(level, transpose_b):
    function = product(19, 45, 33, False, transpose_b, batch=(2, 3))
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    want = a.astype("f8") @ (b.swapaxes(-1, -2) if transpose_b else b).astype("f8")
    np.testing.assert_allclose(compile(function, level, OPTIONS)(a, b), want, atol=3e-5)


def test_float64_products():
    a, b = param("a", (21, 40), "f64"), param("b", (31, 40), "f64")
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((21, 40)), rng.standard_normal((31, 40))
    made = compile(Function("f", (a, b), (ops.matmul(a, b, transpose_b=True),)), options=OPTIONS)
    np.testing.assert_allclose(made(x, y), x @ y.T, rtol=1e-13)


def test_an_epilogue_sees_sums_that_waited():
    """The sum over k is blocked here, and the bias must be added once."""
    x, w, b = param("x", (32, 2100)), param("w", (2100, 1030)), param("b", (1030,))
    rng = np.random.default_rng(1)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in (x, w, b)]
    got = compile(Function("f", (x, w, b), (ops.relu(ops.add(ops.matmul(x, w), b)),)), options=OPTIONS)(*arrays)
    want = np.maximum(arrays[0].astype("f8") @ arrays[1] + arrays[2], 0)
    np.testing.assert_allclose(got, want, atol=5e-4)


@pytest.mark.parametrize("target", [AVX512, AVX2, SSE2])
@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_tiles_fit_the_registers(target, m, k, n):
    plan = plan_contraction(target, contraction_of(product(m, k, n)))
    assert plan.rows * plan.vectors + plan.vectors <= target.vector_registers
    assert plan.lanes <= target.lanes(np.dtype(np.float32))
    assert plan.rows <= m


def test_what_is_packed():
    assert not plan_contraction(AVX512, contraction_of(product(64, 784, 128))).pack_right
    assert plan_contraction(AVX512, contraction_of(product(64, 128, 128, transpose_b=True))).pack_right
    large = plan_contraction(AVX512, contraction_of(product(128, 4096, 4096)))
    assert large.pack_right
    assert large.pack_left
    assert large.block < 4096


def test_a_product_of_other_than_two_loads_is_no_contraction():
    x, w = param("x", (8, 16)), param("w", (16, 32))
    function = Function("f", (x, w), (ops.sum(ops.multiply(x, x), axis=1),))
    (group,) = fuse(function).groups
    context = Context(target_for("host"), {}, names={})
    out = output_vars(group.shape)
    slots = lower_function(function, host()).slots
    context.homes.update(zip(function.params, slots, strict=False))
    description = group_puller(context, group).describe(group.root, tuple(as_index(v) for v in out))
    assert match_contraction(description, out) is None
