"""Fusion of consecutive kernels over the same rows: which fuse, which may not, and with the same results."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile, host
from adjoint.ir import Function, param
from adjoint.pipeline import lower_function
from adjoint.transforms.differentiate import gradient
from tests.closeness import agrees_with_graph
from tests.hardware import levels
from tests.lower.contractions.test_contractions import OPTIONS


def kernels(function):
    return lower_function(function, host()).kernels


def test_softmax_is_one_kernel():
    x = param("x", (64, 100))
    (kernel,) = kernels(Function("f", (x,), (ops.softmax(x),)))
    assert kernel.unit.extent == 64
    assert [b.name for b in kernel.reads if b.space == "external"] == ["x"]


def test_layer_norm_is_one_kernel():
    x, g = param("x", (48, 128)), param("g", (128,))
    assert len(kernels(Function("f", (x, g), (ops.layer_norm(x, g),)))) == 1


def updated_gain(multiplied=False):
    """The gradient of a layer norm, and its gain after an update in place, which the function computes in between."""
    x, g, direction = param("x", (64, 100)), param("g", (100,)), param("direction", (64, 100))
    loss = ops.sum(ops.multiply(ops.layer_norm(x, g), direction))
    dg, dx = gradient(Function("loss", (x, g, direction), (loss,)), ("g", "x")).results[1:]
    new = ops.subtract(g, ops.multiply(dg, 0.1))
    dx = ops.multiply(dx, ops.broadcast_to(new, dx.shape)) if multiplied else dx
    return Function("f", (x, g, direction), (new, dx), {"donate": (("g", 0),)})


def test_a_kernel_moves_up_to_its_producer_past_an_update():
    """Row sums that the gradient of x needs, the gain's update, and the gradient, which joins the sums."""
    *_, rows, update = kernels(updated_gain())
    assert [b.size for b in rows.writes] == [64, 64 * 100]
    assert [b.name for b in update.writes] == ["g"]


def test_a_kernel_stays_behind_what_it_reads():
    """The gradient is multiplied by the new gain."""
    function = updated_gain(multiplied=True)
    made = kernels(function)
    (last,) = (n for n, kernel in enumerate(made) if any(b.size == 64 * 100 for b in kernel.writes))
    assert {*made[last - 1].writes} & {*made[last].reads}
    rng = np.random.default_rng(0)
    x, g, direction = (rng.standard_normal(p.shape).astype("f4") for p in function.params)
    kept = g.copy()
    dx = compile(function, options=OPTIONS)["f"].bind({"g": kept})(x, direction)
    agrees_with_graph((kept, dx), function, x, g, direction)


def test_whole_rows_are_handed_on_in_two_kernels():
    """Else the rows that the first kernel reads would be in memory together with those that the second one writes."""
    x = param("x", (64, 100))
    first = ops.sin(ops.softmax(x))
    made = kernels(Function("f", (x,), (ops.softmax(ops.multiply(first, first)), first)))
    assert len(made) == 2


def test_columns_of_what_rows_made_wait_for_all_rows():
    """The second sum runs down the columns of the softmax: every unit needs every row."""
    x = param("x", (128, 128))
    made = kernels(Function("f", (x,), (ops.sum(ops.softmax(x), axis=0),)))
    assert len(made) == 2


def test_a_row_that_is_read_turned_is_another_units():
    x = param("x", (128, 128))
    high = ops.max(x, axis=1)
    turned = ops.subtract(x, ops.broadcast_to(high, (128, 128)))
    assert len(kernels(Function("f", (x,), (turned,)))) == 2


def test_long_rows_stay_apart():
    x = param("x", (64, 5000))
    assert len(kernels(Function("f", (x,), (ops.softmax(x),)))) > 1


def test_a_parameter_that_is_updated_by_its_own_rows():
    """Each unit reads its row before it overwrites it."""
    w = param("w", (64, 100))
    function = Function("f", (w,), (ops.softmax(w),), {"donate": (("w", 0),)})
    array = np.random.default_rng(0).standard_normal((64, 100)).astype("f4")
    kept = array.copy()
    compile(function, options=OPTIONS)["f"].bind({"w": kept})()
    agrees_with_graph(kept, function, array)


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("shape", [(5, 7), (3, 4, 33), (64, 500), (2, 1)])
def test_rows_together_agree_with_the_reference(level, shape):
    x = param("x", shape)
    y = ops.layer_norm(ops.softmax(ops.multiply(x, 3.0)))
    function = gradient(Function("loss", (x,), (ops.sum(ops.multiply(y, ops.sin(x))),)), ("x",))
    array = np.random.default_rng(0).standard_normal(shape).astype("f4")
    agrees_with_graph(compile(function, level, OPTIONS)(array), function, array)
