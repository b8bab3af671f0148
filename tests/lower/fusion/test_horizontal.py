"""Horizontal fusion of kernels with the same loops: which fuse, which may not, and with the same results."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import compile, host
from adjoint.ir import DTYPES, Function, param
from adjoint.kernel.index import Dynamic, Var, as_index
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Store
from adjoint.kernel.printer import print_kernel
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.fusion.horizontal import fuse_horizontally
from adjoint.pipeline import lower_function
from adjoint.testing.rounding import unit_roundoff
from tests.closeness import agrees_with_graph, within
from tests.hardware import levels
from tests.lower.contractions.test_contractions import AVX512, OPTIONS

F32 = DTYPES["f32"]
CT, X = Buffer("ct", F32, 16 * 512, "external"), Buffer("x", F32, 16 * 512, "external")
B, G = Buffer("b", F32, 16, "external"), Buffer("g", F32, 16, "external")


def column_sums(name, to, *factors, depth=512, units=16):
    """Sums of products down the columns of ``[depth, units]``."""
    unit, k = Var("u", units), Var("k", depth)
    acc = Buffer(f"acc_{name}", F32, 1, "register")
    product = None
    for factor in factors:
        load = Load(factor, as_index(k) * units + as_index(unit))
        product = load if product is None else Apply("mul", (product, load), F32)
    body = (
        Store(((acc, as_index(0), Const(0.0, F32)),)),
        For(k, (Store(((acc, as_index(0), Apply("add", (Load(acc, as_index(0)), product), F32)),)),)),
        Store(((to, as_index(unit), Load(acc, as_index(0))),)),
    )
    return Kernel(name, unit, body, (f"%{name}",), 1000, 2000, True)


def test_sums_of_one_tensor_share_the_loop_that_reads_it():
    (made,) = fuse_horizontally([column_sums("b", B, CT), column_sums("g", G, CT, X)], AVX512)
    text = print_kernel(made)
    assert text.count("for k in 0..512") == 1
    assert made.values == ("%b", "%g")
    assert made.flops == 2000
    assert made.bytes == 4000 - CT.nbytes


def test_what_it_computes_is_what_they_computed():
    rng = np.random.default_rng(0)
    memory = {b: rng.standard_normal(b.size).astype("f4") for b in (CT, X, B, G)}
    (made,) = fuse_horizontally([column_sums("b", B, CT), column_sums("g", G, CT, X)], AVX512)
    run_kernel(made, memory)
    ct, x = (memory[b].reshape(512, 16).astype("f8") for b in (CT, X))
    unit = unit_roundoff("f4") * np.sqrt(512)
    within(memory[B], ct.sum(0), unit * abs(ct).sum(0))
    within(memory[G], (ct * x).sum(0), unit * abs(ct * x).sum(0))


def test_rows_that_are_looked_up():
    ids = Buffer("ids", DTYPES["i64"], 16, "external")

    def gather(name, to):
        unit, column = Var("u", 16), Var("c", 512)
        row = Dynamic(Load(ids, (as_index(unit) + 0) % 16), 16)
        load = Load(X, as_index(row) * 512 + as_index(column))
        body = (For(column, (Store(((to, as_index(unit) * 512 + as_index(column), load),)),), "vector"),)
        return Kernel(name, unit, body, (f"%{name}",), 1000, 2000, True)

    first, second = Buffer("a", F32, 16 * 512, "external"), Buffer("c", F32, 16 * 512, "external")
    (made,) = fuse_horizontally([gather("a", first), gather("c", second)], AVX512)
    verify_kernel(made)
    rng = np.random.default_rng(0)
    rows, x = rng.integers(0, 16, 16), rng.standard_normal((16, 512)).astype("f4")
    memory = {X: x.ravel(), ids: rows, first: np.zeros(16 * 512, "f4"), second: np.zeros(16 * 512, "f4")}
    run_kernel(made, memory)
    np.testing.assert_array_equal(memory[first].reshape(16, 512), x[rows])
    np.testing.assert_array_equal(memory[second].reshape(16, 512), x[rows])


def test_three_in_a_row():
    other = Buffer("h", F32, 16, "external")
    assert (
        len(
            fuse_horizontally(
                [column_sums("b", B, CT), column_sums("g", G, CT, X), column_sums("h", other, X, X)], AVX512
            )
        )
        == 1
    )


SMALL, SMALLER = Buffer("small", F32, 64, "external"), Buffer("smaller", F32, 64, "external")


@pytest.mark.parametrize(
    ("first", "second"),
    [
        pytest.param(column_sums("b", B, CT), column_sums("g", G, X), id="nothing in common"),
        pytest.param(column_sums("b", B, CT), column_sums("g", G, CT, depth=256), id="other loops"),
        pytest.param(column_sums("b", B, CT), column_sums("g", G, CT, depth=1024, units=8), id="other units"),
        pytest.param(column_sums("b", X, CT), column_sums("g", G, CT, X), id="the second reads what the first writes"),
        pytest.param(column_sums("b", B, CT, X), column_sums("g", X, CT), id="the second writes what the first reads"),
        pytest.param(column_sums("b", B, CT), column_sums("g", B, CT), id="both write the same"),
        pytest.param(
            column_sums("b", B, SMALL, depth=4), column_sums("g", G, SMALL, SMALLER, depth=4), id="nothing large"
        ),
    ],
)
def test_what_stays_apart(first, second):
    assert fuse_horizontally([first, second], AVX512) == [first, second]


def test_products_keep_the_registers_to_themselves():
    """Two tiles would not fit them together."""
    x, a, b = param("x", (256, 64)), param("a", (64, 128)), param("b", (64, 128))
    made = lower_function(Function("f", (x, a, b), (ops.matmul(x, a), ops.matmul(x, b))), AVX512).kernels
    assert len(made) == 2


def test_gradients_of_a_batch_norm_are_one_pass_over_its_cotangent():
    x, ct = param("x", (8, 16, 24, 24)), param("ct", (8, 16, 24, 24))
    sums = ops.sum(ct, axis=(0, 2, 3)), ops.sum(ops.multiply(ct, x), axis=(0, 2, 3))
    assert len(lower_function(Function("f", (x, ct), sums), host()).kernels) == 1


@pytest.mark.parametrize("level", levels())
@pytest.mark.parametrize("axis", [0, 1, (0, 1)])
def test_several_sums_agree_with_the_reference(level, axis):
    x, y = param("x", (130, 90)), param("y", (130, 90))
    made = (ops.sum(x, axis=axis), ops.sum(ops.multiply(x, y), axis=axis), ops.max(ops.subtract(x, y), axis=axis))
    function = Function("f", (x, y), made)
    arrays = [np.random.default_rng(n).standard_normal((130, 90)).astype("f4") for n in range(2)]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)


def test_sums_of_gathered_rows_look_up_the_rows_of_the_fused_kernel():
    x, w, ids = param("x", (512, 64)), param("w", (10, 64)), param("ids", (512,), "i64")
    function = Function("f", (x, w, ids), (ops.sum(x, axis=1), ops.sum(x * ops.take(w, ids), axis=1)))
    assert len(lower_function(function, host()).kernels) == 1
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal((512, 64)).astype("f4"), rng.standard_normal((10, 64)).astype("f4")
    arrays = *arrays, rng.integers(0, 10, 512)
    agrees_with_graph(compile(function, host(), OPTIONS)(*arrays), function, *arrays)


def update(name, to, place, *factors):
    """The sum of elements at their places, stored elsewhere: ``to[place] = x[..] + ct[..]``."""
    unit, v, lane = Var("u", 16), Var("v", 32), Var("l", 16)
    here = as_index(unit) * 512 + as_index(v) * 16 + as_index(lane)
    total = Apply("add", tuple(Load(factor, here) for factor in factors), F32)
    body = (For(v, (For(lane, (Store(((to, place(here, unit, v, lane), total),)),), "vector"),)),)
    return Kernel(name, unit, body, (f"%{name}",), 1000, 2000, True)


def test_one_may_overwrite_what_the_other_has_read_at_the_same_place():
    """The parameter and the momentum of an update: the parameter reads the momentum of the step before."""
    w = Buffer("w", F32, 16 * 512, "external")
    kernels = [update("w", w, lambda here, *_: here, CT, X), update("m", X, lambda here, *_: here, CT, X)]
    (made,) = fuse_horizontally(kernels, AVX512)
    verify_kernel(made)
    rng = np.random.default_rng(0)
    ct, x = rng.standard_normal((2, 16 * 512)).astype("f4")
    memory = {CT: ct, X: x.copy(), w: np.zeros(16 * 512, "f4")}
    run_kernel(made, memory)
    np.testing.assert_array_equal(memory[w], x + ct)
    np.testing.assert_array_equal(memory[X], x + ct)


@pytest.mark.parametrize(
    "place",
    [
        lambda here, *_: as_index(16 * 512 - 1) - here,
        lambda _, unit, __, lane: as_index(unit) * 512 + as_index(lane),
        lambda here, *_: (here + 512) % (16 * 512),
    ],
    ids=["backwards", "again", "shifted"],
)
def test_other_iterations_may_not_read_what_is_overwritten(place):
    w = Buffer("w", F32, 16 * 512, "external")
    kernels = [update("w", w, lambda here, *_: here, CT, X), update("m", X, place, CT, CT)]
    assert len(fuse_horizontally(kernels, AVX512)) == 2


def test_positions_that_are_looked_up_may_not_be_overwritten():
    ids, to = Buffer("ids", DTYPES["i64"], 16 * 512, "external"), Buffer("a", F32, 16 * 512, "external")

    def kernel(name, target, value):
        unit, v = Var("u", 16), Var("v", 512)
        here = as_index(unit) * 512 + as_index(v)
        return Kernel(name, unit, (For(v, (Store(((target, here, value(here)),)),)),), (f"%{name}",), 1000, 2000, True)

    looks = kernel("a", to, lambda here: Load(X, as_index(Dynamic(Load(ids, (here + 1) % (16 * 512)), 16 * 512))))
    writes = kernel("ids", ids, lambda here: Apply("cast", (Load(X, here),), DTYPES["i64"]))
    assert len(fuse_horizontally([looks, writes], AVX512)) == 2


def test_the_momentum_of_a_table_is_updated_beside_the_table():
    """Its gradient is no product, into whose kernel the update would go."""
    table, momentum, ids, ct = (
        param("w", (64, 512)),
        param("m", (64, 512)),
        param("ids", (9,), "i64"),
        param("ct", (9, 512)),
    )
    new = ops.add(ops.multiply(momentum, 0.9), ops.scatter_add(ids, ct, 64))
    outputs = (ops.subtract(table, ops.multiply(new, 0.1)), new)
    function = Function("f", (table, momentum, ids, ct), outputs, {"donate": (("w", 0), ("m", 1))})
    kernels = lower_function(function, host()).kernels
    assert len(kernels) == 2, "the sum of rows and the update"
    rng = np.random.default_rng(0)
    w, m, rows = (rng.standard_normal(p.shape).astype("f4") for p in (table, momentum, ct))
    arrays = w, m, rng.integers(0, 64, 9), rows
    agrees_with_graph(compile(function, options=OPTIONS)(*(a.copy() for a in arrays)), function, *arrays)
