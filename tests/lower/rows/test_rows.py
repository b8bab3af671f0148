"""Row algorithms: what is sorted and solved at sizes beyond a vector or a block, with the same bits everywhere."""

import numpy as np
import pytest

from adjoint import SetupTrainer, Trainer, costs, losses, ops, optim
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile, host
from adjoint.ir import Function, param
from adjoint.pipeline import lower_function
from tests.codegen.emulator import run
from tests.hardware import missing

RNG = np.random.default_rng(0)
#: Every number of merge passes up to 4: with whole blocks, a rest, and a run that has no partner.
SIZES = [n * costs.SORT_BLOCK + more for n in (1, 2, 3, 4, 5, 9) for more in (0, 1, 7)]
ROWS = RNG.integers(-40, 40, (2, 75)).astype(np.float32)
MATRICES = RNG.standard_normal((2, 19, 19)).astype(np.float32)
LEVELS = [level for level in ("avx512", "avx2") if host().architecture == "x86_64" and not missing(level)] or ["host"]


def sorts(dtype):
    rows = [param(f"x{n}", (n,), dtype) for n in SIZES]
    return Function("sorts", tuple(rows), tuple(ops.argsort(x) for x in rows))


def algorithms():
    """One function with every algorithm."""
    x, a = param("x", ROWS.shape), param("a", MATRICES.shape)
    order = ops.argsort(x, descending=True)
    results = (
        order,
        ops.scatter(x, order[:, :9], x[:, 9:18], reduce="amax"),
        ops.scatter(x, order[:, 9:18], x[:, :9], reduce="add"),
        ops.cholesky(ops.matmul(a, a, transpose_b=True) + ops.eye(19)),
        ops.solve_triangular(a, a[:, :, :3], upper=True),
        ops.solve(a, a[:, :, :5]),
        *ops.slogdet(a),
    )
    return Function("algorithms", (x, a), results)


@pytest.mark.parametrize("dtype", ["f32", "i64"])
def test_rows_of_any_length_are_sorted_and_equal_elements_stay_in_order(dtype):
    """Keys that share a word with their position, and those that do not."""
    arrays = [RNG.integers(-9, 9, n).astype(np.float32 if dtype == "f32" else np.int64) for n in SIZES]
    found = compile(sorts(dtype), options=CompileOptions(threads=1, cache=False))(*arrays)
    for array, order in zip(arrays, found, strict=True):
        np.testing.assert_array_equal(order, np.argsort(array, kind="stable"), err_msg=f"{array.size} elements")


def test_the_bits_are_the_same_at_all_widths_on_any_number_of_threads():
    function = algorithms()
    want = None
    for level, threads in ((level, threads) for level in LEVELS for threads in (1, 3)):
        options = CompileOptions(threads=threads, cache=False)
        found = [np.asarray(one).tobytes() for one in compile(function, level, options)(ROWS, MATRICES)]
        want = want or found
        assert found == want, (level, threads)
    emulated = run(function, target_for("neon"), ROWS, MATRICES)
    assert [np.asarray(one).tobytes() for one in emulated] == want


def test_rows_are_units_that_threads_share_and_code_does_not_grow_with_their_length():
    x, y = param("x", (64, 3000)), param("y", (64, 70000))
    kernels = lower_function(Function("f", (x, y), (ops.argsort(x), ops.argsort(y))), host()).kernels
    assert [kernel.unit.extent for kernel in kernels] == [64, 64]
    assert all(kernel.parallel for kernel in kernels)
    first, second = (str(kernel.body) for kernel in kernels)
    assert len(second) < 1.2 * len(first)


def test_rows_of_absent_examples_are_left_out():
    """A batch of three of eight rows has the predictions and the update of a model for three rows."""
    x, y = RNG.standard_normal((8, 5)).astype(np.float32), RNG.standard_normal((8, 5)).astype(np.float32)
    trainers = [trainer_of(size) for size in (8, 3)]
    predictions = [trainer.predict(x[:3]) for trainer in trainers]
    np.testing.assert_array_equal(*predictions)
    for trainer in trainers:
        trainer.update(x[:3], y[:3])
    np.testing.assert_allclose(*(trainer.export_params()["w"] for trainer in trainers), rtol=1e-5, atol=1e-6)


def trainer_of(size):
    x, w = param("x", (size, 5)), param("w", (5, 5))
    ordered, places = ops.sort(ops.matmul(x, w))
    matrices = ops.broadcast_to(w, (size, 5, 5)) + 4.0 * ops.eye(5)
    result = ops.scatter(ordered, places, ops.solve(matrices, ordered), reduce="add")
    trainer = Trainer(SetupTrainer(losses.MSELoss(), optim.SGD(0.1))(Function("model", (x, w), (result,))))
    trainer.init_parameters({"w": np.eye(5, dtype=np.float32)})
    return trainer
