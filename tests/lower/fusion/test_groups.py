"""Grouping: the kernels that small graphs become."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.codegen.targets import host_target
from adjoint.compiler import CompileOptions, compile
from adjoint.ir import Function, param
from adjoint.kernel.printer import print_kernels
from adjoint.lower.analysis.access import access_pattern
from adjoint.pipeline import lower_function
from adjoint.testing import interpret
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph


def program(params, *results, **attrs):
    return lower_function(Function("f", params, results, attrs), host_target())


def test_a_chain_of_elementwise_operators_is_one_kernel():
    x = param("x", (33, 7))
    y = ops.tanh(ops.add(ops.exp(ops.multiply(x, 2.0)), 1.0))
    assert len(program((x,), y).kernels) == 1


def test_bias_and_activation_end_the_product():
    x, w, b = param("x", (64, 784)), param("w", (784, 128)), param("b", (128,))
    made = program((x, w, b), ops.relu(ops.add(ops.matmul(x, w), b)))
    assert len(made.kernels) == 1
    assert made.arena_bytes == 0


@pytest.mark.parametrize("form", ["none", "tanh"])
def test_gelu_keeps_its_slope_alone_for_the_gradient(form):
    """The product before it leaves the result and the slope in memory, and nothing else of its size."""
    x, w, u = param("x", (64, 32)), param("w", (32, 128)), param("u", (128, 32))
    loss = ops.sum(ops.matmul(ops.gelu(ops.matmul(x, w), form), u))
    found = lower_function(gradient(Function("loss", (x, w, u), (loss,)), ("w", "u")), host_target())
    sizes = [sum(b.size == 64 * 128 for b in kernel.writes) for kernel in found.kernels]
    assert max(sizes) == 2
    assert sum(sizes) == 3  # and the gradient of the product's result


def test_an_update_ends_the_product_that_makes_its_gradient():
    x, g, w = param("x", (64, 32)), param("g", (64, 16)), param("w", (32, 16))
    gradient = ops.matmul(x, g, transpose_a=True)
    made = program((x, g, w), ops.subtract(w, ops.multiply(gradient, 0.1)), donate=(("w", 0),))
    assert len(made.kernels) == 1
    assert made.arena_bytes == 0
    assert made.results[0].slot == made.arguments[2].slot


def test_several_results_of_one_shape_share_a_kernel():
    g, m, v = (param(n, (100,)) for n in "gmv")
    new_m = ops.add(ops.multiply(m, 0.9), ops.multiply(g, 0.1))
    new_v = ops.add(ops.multiply(v, 0.99), ops.multiply(ops.square(g), 0.01))
    step = ops.divide(new_m, ops.add(ops.sqrt(new_v), 1e-8))
    made = program((g, m, v), new_m, new_v, step)
    assert len(made.kernels) == 1


def test_softmax_makes_a_pass_for_each_reduction_and_one_more():
    x = param("x", (8, 10))
    assert len(program((x,), ops.softmax(x)).kernels) <= 4


def test_views_cost_no_kernel():
    x, w = param("x", (4, 6, 5)), param("w", (30, 3))
    y = ops.matmul(ops.reshape(ops.permute(x, (1, 0, 2)), (4, 30)), w)
    kernels = program((x, w), y).kernels
    assert [k.values[-1] for k in kernels][-1] == kernels[-1].values[-1]
    assert len(kernels) <= 3


def test_long_chains_are_cut_into_bounded_kernels():
    x = param("x", (8,))
    y = x
    for _ in range(1000):
        y = ops.add(ops.sin(y), x)
    made = program((x,), y)
    assert 1000 // 96 <= len(made.kernels) <= 100
    assert max(len(k.values) for k in made.kernels) <= 100


def test_what_is_made_of_a_product_through_a_view_is_stored_for_others():
    """It is a step from a stored value of its kernel, and from the product, which is in no memory."""
    a, b, x = param("a", (6, 5)), param("b", (5, 7)), param("x", (2, 3, 7))
    e = ops.exp(x)
    scaled = ops.multiply(ops.reshape(ops.matmul(a, b), (2, 3, 7)), e)
    function = Function("f", (a, b, x), (e, ops.sum(scaled, axis=2)))
    arrays = [np.random.default_rng(n).standard_normal(p.shape).astype(np.float32) for n, p in enumerate((a, b, x))]
    found = compile(function, options=CompileOptions(threads=1, cache=False))(*arrays)
    for got, want in zip(found, interpret(function, *arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("make", "kind"),
    [
        (lambda x: ops.permute(x, (1, 0)), "view"),
        (lambda x: ops.reshape(x, (6, 4)), "view"),
        (ops.exp, "pointwise"),
        (lambda x: ops.sum(x, axis=0), "reduce"),
    ],
)
def test_access_patterns(make, kind):
    assert access_pattern(make(param("x", (4, 6)))).kind == kind


def test_swapping_two_parameters_in_place_is_right_all_the_same():
    p, q = param("p", (5,)), param("q", (5,))
    function = Function("swap", (p, q), (ops.add(q, 1.0), ops.add(p, 2.0)), {"donate": (("p", 0), ("q", 1))})
    made = lower_function(function, host_target())
    # One new value apart; then the other in its place, and a copy of the first.
    assert [k.values for k in made.kernels] == [("%1",), ("%3", "%1")]
    assert np.dtype(np.float32) == made.arguments[0].dtype


def test_a_key_is_made_once_for_all_elements_that_it_draws():
    key = param("key", (2,), "u32")
    made = program((key,), ops.random.bits(ops.random.fold_in(key, 3), 1000))
    assert [b.size for kernel in made.kernels for b in kernel.writes] == [2, 1000]


def test_a_mask_is_drawn_once_for_values_and_gradients():
    x, key = param("x", (64, 128)), param("key", (2,), "u32")
    loss = Function("loss", (x, key), (ops.sum(ops.exp(ops.dropout(x, key))),))
    made = lower_function(gradient(loss, ["x"]), host_target())
    assert sum("rotl" in print_kernels([kernel]) for kernel in made.kernels) == 1


def test_elements_that_are_read_repeatedly_are_counted():
    """By a product of axes that the coordinates leave out; what is chosen counts once."""
    key, table, ids = param("key", (5, 2), "u32"), param("t", (9, 4)), param("ids", (6,), "i32")
    assert access_pattern(ops.random.bits(key, (3, 7))).repeats == (21,)
    assert access_pattern(ops.take(table, ids)).repeats == (1, 4)
    assert access_pattern(ops.concat(table, table)).repeats == (1, 1)


def test_a_search_in_a_long_row_is_analysed_in_its_number_of_steps():
    """Each of its 40 steps uses the position before it twice: as text, the last one has 2**40 parts."""
    row, values = param("row", (1 << 40,)), param("values", (3,))
    assert access_pattern(ops.searchsorted(row, values)).kind == "pointwise"


def of_layer_norm():
    """The gradient of a layer norm and what is added to it, behind a product, as in a transformer block."""
    u, w, x, past = param("u", (64, 48)), param("w", (48, 100)), param("x", (64, 100)), param("past", (64, 100))
    gain, scale = param("gain", (100,)), param("scale", (64, 1))
    slope = ops.multiply(ops.matmul(u, w), gain)
    near = ops.add(past, ops.multiply(slope, scale))
    away = ops.multiply(ops.sum(slope, axis=1, keepdims=True), x)
    return Function("f", (u, w, x, past, gain, scale), (ops.subtract(near, away),))


def test_a_result_that_is_cheap_to_compute_from_another_one_is_not_stored():
    """The sum over a row needs ``slope``, and the kernel that adds everything up computes ``near`` from it."""
    product, rows = lower_function(of_layer_norm(), host_target()).kernels
    assert [b.size for b in product.writes] == [64 * 100]
    assert {"past", "scale"} <= {b.name for b in rows.reads} - {b.name for b in product.reads}


def test_results_that_are_computed_again_agree_with_the_reference():
    function = of_layer_norm()
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    agrees_with_graph(compile(function)(*arrays), function, *arrays)


def test_a_result_that_needs_two_other_tensors_is_stored():
    """Its readers would load three tensors in place of one."""
    u, w = param("u", (64, 48)), param("w", (48, 100))
    x, y, z = (param(name, (64, 100)) for name in "xyz")
    p = ops.matmul(u, w)
    both = ops.add(ops.multiply(p, x), y)
    highest = ops.max(p, axis=1, keepdims=True)
    again = ops.add(ops.max(ops.multiply(both, z), axis=1, keepdims=True), highest)
    product = program((u, w, x, y, z), again).kernels[0]
    assert [b.size for b in product.writes] == [64 * 100] * 2
