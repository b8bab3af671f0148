"""Loops and branches as regions of a program: results, threads, memory, what is printed."""

import re
from dataclasses import replace

import numpy as np
import pytest

from adjoint import CompileOptions, Function, IRModule, SetupTrainer, Trainer, compile, losses, ops, optim, param
from adjoint.compiler import host, program_text
from adjoint.errors import AdjointError, CompileError, VerifyError
from adjoint.kernel.printer import print_program
from adjoint.kernel.races import verify_barriers
from adjoint.lower.control import values_inside
from adjoint.pipeline import after_graph_passes, lower_function, print_passes
from adjoint.profiling.balance import balance_of

STEPS, ROWS, WIDTH = 5, 40, 50


def nest():
    """A loop that holds a loop with a number of iterations that depends on data, and a branch."""
    start, counts = param("start", (ROWS, WIDTH)), param("counts", (STEPS,), "i64")

    def step(carry, count):
        grown, steps = ops.while_loop(
            lambda state: state[1] < count,
            lambda state: (state[0] * 1.5 + 1.0, state[1] + 1),
            (carry * 0.5, ops.full(0, (), "i64")),
        )
        total = grown.sum()
        chosen = ops.cond(total < 3000.0, lambda x: (x * 2.0, total), lambda x: (x, total * 0.5), grown)
        return chosen[0], (chosen[1], steps)

    last, (totals, steps) = ops.scan(step, start, counts)
    return Function("nest", (start, counts), (last, totals, steps, last.sum()))


def nest_in_numpy(carry, counts):
    """The same in float64."""
    totals, carry = [], carry.astype(float)
    for count in counts:
        carry = carry * 0.5
        for _ in range(count):
            carry = carry * 1.5 + 1.0
        total = carry.sum()
        totals.append(total if total < 3000.0 else total * 0.5)
        carry = carry * 2.0 if total < 3000.0 else carry
    return carry, np.array(totals), counts, carry.sum()


@pytest.fixture(scope="module")
def arrays():
    return np.random.default_rng(3).normal(size=(ROWS, WIDTH)).astype("f"), np.array([0, 3, 1, 0, 2])


def test_nested_loops_and_branches_compute_what_python_does(arrays):
    found = compile(nest(), options=CompileOptions(threads=1))(*arrays)
    for got, want in zip(found, nest_in_numpy(*arrays), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-5)


def lstm(batch, width, steps):
    """A recurrent layer whose kernels are shared by threads."""
    weight, hidden = param("weight", (width, 4 * width)), param("hidden", (batch, width))
    rows = param("rows", (steps, batch, 4 * width))

    def step(carry, row):
        gates = row + carry[0] @ weight
        i, f, g, o = (gates[:, n * width : (n + 1) * width] for n in range(4))
        cell = ops.sigmoid(f) * carry[1] + ops.sigmoid(i) * ops.tanh(g)
        return (ops.sigmoid(o) * ops.tanh(cell), cell), cell

    (last, _), cells = ops.scan(step, (hidden, hidden), rows, reverse=True)
    return Function("lstm", (weight, hidden, rows), (last, cells))


def test_any_number_of_threads_gives_the_same_bits(arrays):
    rng = np.random.default_rng(0)
    function = lstm(32, 64, 4)
    given = [0.3 * rng.normal(size=p.shape).astype("f") for p in function.params]
    runs = [compile(function, options=CompileOptions(threads=n))(*given) for n in (1, 2, 3)]
    runs_of_nest = [compile(nest(), options=CompileOptions(threads=n))(*arrays) for n in (1, 3)]
    for first, *others in (runs, runs_of_nest):
        for other in others:
            assert all(np.array_equal(a, b) for a, b in zip(first, other, strict=True))
    weight, hidden, rows = (a.astype(float) for a in given)
    state, cells = (hidden, hidden), []
    for row in rows[::-1]:
        i, f, g, o = np.split(row + state[0] @ weight, 4, 1)
        i, f, o = (1 / (1 + np.exp(-x)) for x in (i, f, o))
        cell = f * state[1] + i * np.tanh(g)
        state = o * np.tanh(cell), cell
        cells.insert(0, cell)
    np.testing.assert_allclose(runs[0][0], state[0], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(runs[0][1], cells, rtol=1e-4, atol=1e-5)


def test_every_barrier_in_a_loop_is_needed():
    program = lower_function(lstm(32, 64, 4), replace(host(), cores=4))
    assert any(kernel.parallel for kernel in program.kernels)
    assert program.barriers
    for barrier in program.barriers:
        with pytest.raises(VerifyError, match="kernels meet at a barrier"):
            verify_barriers(replace(program, barriers=program.barriers - {barrier}))


def test_a_loop_that_one_thread_runs_has_no_barriers():
    program = lower_function(lstm(1, 4, 100), host())
    assert not program.barriers
    assert not program.waits


def test_the_program_has_as_many_kernels_for_any_number_of_iterations():
    short, long = (lower_function(lstm(8, 16, steps), host()) for steps in (3, 300))
    assert len(short.kernels) == len(long.kernels)
    assert long.arena_bytes == short.arena_bytes
    flops = [sum(k.flops for k in program.kernels) for program in (short, long)]
    assert flops[1] == 100 * flops[0], "the work of a kernel is that of all iterations"


def test_carries_change_places_and_the_last_is_the_result():
    carry, rows = param("carry", (3,)), param("rows", (2, 3))
    last, _ = ops.scan(lambda c, x: (c * x, None), carry, rows)
    text = print_program(lower_function(Function("products", (carry, rows), (last,)), host()))
    (loop,) = re.findall(r"^  loop .*(?:\n    .*)*", text, re.MULTILINE)
    assert loop == "\n".join(
        [
            "  loop scan_0: 2 iterations, from scan_0.multiply_0 to scan_0.multiply_0",
            "    carry0 f32[3] is in turn in carry0.carry f32[32] arena and carry f32[3] first",
            "    result0.1 f32[3] is in turn in carry0.carry f32[32] arena and result0 f32[3] last",
            "    x0 f32[3] is a row of rows f32[6]",
        ]
    )


def test_stages_say_what_is_repeated():
    program = lower_function(nest(), host())
    text = program_text(program, host(), "kernels")
    assert "# loop scan_0: 5 iterations\n" in text
    assert re.search(r"^# branch scan_0\.cond_\d+\.then: if \S+ is True$", text, re.MULTILINE)
    assert re.search(r"^# loop scan_0\.while_loop_\d+: while \S+ holds$", text, re.MULTILINE)
    after = dict(print_passes(nest(), host()))
    assert re.search(r"^# scan_0, 5 times:$", after["build_kernels"], re.MULTILINE)
    assert balance_of(program, 2).work > 0


def test_a_result_may_take_the_place_of_an_operand_that_every_iteration_reads():
    scale, start = param("scale", (40,)), param("start", (40,))
    last, _ = ops.scan(lambda c, _: (c * 0.5 + scale, None), start, length=3)
    function = Function("f", (scale, start), (last,), {"donate": (("scale", 0),)})
    given = np.arange(40, dtype="f"), np.ones(40, "f")
    want = np.copy(given[1])
    for _ in range(3):
        want = want * np.float32(0.5) + given[0]
    assert np.array_equal(compile(function, options=CompileOptions(threads=1))(*given), want)
    carried = Function("g", (scale, start), (last,), {"donate": (("start", 0),)})
    assert np.array_equal(compile(carried, options=CompileOptions(threads=1))(*given), want)


def test_a_budget_of_memory_leaves_loops_as_they_are(arrays):
    function = nest()
    needed = lower_function(function, host()).working_bytes(1)
    found = compile(function, options=CompileOptions(threads=1, memory_budget=needed))(*arrays)
    np.testing.assert_allclose(found[3], nest_in_numpy(*arrays)[3], rtol=1e-5)
    with pytest.raises(CompileError) as error:
        compile(function, options=CompileOptions(threads=1, memory_budget=100))
    assert error.value.message == (
        f"@nest needs {needed} bytes of working memory, and a program with loops or branches is not recomputed for a "
        "budget; got memory_budget=100; increase it, reduce the batch size, or use checkpoint in the body of a loop"
    )


def test_kernels_of_a_loop_are_timed_and_say_what_they_compute(arrays):
    function = nest()
    entry = compile(function, options=CompileOptions(threads=2))["nest"]
    known = values_inside(after_graph_passes(function))
    assert all(name in known for kernel in entry.kernels for name in kernel.values)
    operators = {operator for kernel in entry.kernels for operator in kernel.operators}
    assert {"sum", "less", "add", "multiply"} <= operators
    clocks = entry.clocks(*arrays, resident={}, runs=2, threads=2)
    lasting = clocks.nanoseconds[..., 1] - clocks.nanoseconds[..., 0]
    assert (lasting >= 0).all()
    assert lasting.max() < 1e9, "the times of all iterations"


def recurrent_trainer(rows, body):
    x, weight = param("x", (rows, 4, 3)), param("weight", (5, 2))
    start = ops.full(0.0, (rows, 2), "f32")
    last, _ = ops.scan(lambda h, row: (body(h, row, weight), None), start, ops.permute(x, (1, 0, 2)))
    model = IRModule((Function("backbone", (x, weight), (last,)),), {"param_num": 1, "state_num": 0})
    trainer = Trainer(SetupTrainer(losses.MSELoss(), optim.SGD(0.1))(model))
    trainer.init_parameters({"weight": 0.1 * np.arange(10.0, dtype="f").reshape(5, 2)})
    return trainer


def cell(h, row, weight):
    return ops.tanh(ops.concat(row, h, axis=1) @ weight)


def test_a_batch_of_fewer_rows_runs_through_a_scan_that_treats_rows_alike():
    """As with a step that is compiled for that many rows; the initial carry has no rows of the batch."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(3, 4, 3)).astype("f"), rng.normal(size=(3, 2)).astype("f")
    found = []
    for rows in (8, 3):
        trainer = recurrent_trainer(rows, cell)
        loss = [trainer.update(x, y) for _ in range(2)]
        found.append([*loss, trainer.export_params()["weight"], trainer.predict(x)])
    for few, exact in zip(*found, strict=True):
        np.testing.assert_allclose(few, exact, rtol=1e-5, atol=1e-6)


def test_batches_of_fewer_rows_are_refused_where_a_loop_combines_rows():
    bodies = [
        lambda h, row, weight: cell(h - h.mean(), row, weight),
        lambda h, row, weight: cell(ops.cond(h.sum() > 0.0, lambda h: h, lambda h: -h, h), row, weight),
    ]
    for body in bodies:
        trainer = recurrent_trainer(8, body)
        trainer.update(np.ones((8, 4, 3), "f"), np.ones((8, 2), "f"))
        with pytest.raises(AdjointError, match=r"a batch must have exactly 8 rows, because %\S+ = scan\(\.\.\.\)"):
            trainer.update(np.ones((3, 4, 3), "f"), np.ones((3, 2), "f"))
    x, weight = param("x", (8, 3)), param("weight", (3, 1))
    _, rows = ops.scan(lambda c, row: (c, ops.tanh(row)), weight.sum(), x)
    model = IRModule((Function("backbone", (x, weight), (rows @ weight,)),), {"param_num": 1, "state_num": 0})
    trainer = Trainer(SetupTrainer(losses.MSELoss(), optim.SGD(0.1))(model))
    trainer.init_parameters("zeros")
    with pytest.raises(AdjointError, match=r"a batch must have exactly 8 rows, because %\S+ = scan\(\.\.\.\)"):
        trainer.update(np.ones((3, 3), "f"), np.ones((3, 1), "f"))


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_an_operand_in_half_precision_is_converted_before_the_loop(dtype):
    """The loop takes floats of 32 bits; it must not read the memory of the 16-bit ones."""
    x = param("x", (5,), dtype)
    wide = ops.cast(x, "f32")
    _, rows = ops.scan(lambda carry, _: (carry + 1.0, wide), ops.full(0.0, (), "f32"), length=2)
    taken = ops.cond(ops.full(True, (), "bool"), lambda y: y, lambda y: y * 2.0, ops.reshape(wide, (1, 5)))
    array = np.array([1.5, -2.0, 0.25, 3.0, -0.5], x.dtype)
    found = compile(Function("f", (x,), (rows, taken)), options=CompileOptions(threads=1))(array)
    np.testing.assert_array_equal(found[0], np.stack([array, array]).astype("f4"))
    np.testing.assert_array_equal(found[1], array[None].astype("f4"))


def test_a_loop_reads_a_cheap_value_that_others_compute_again():
    """Two elementwise readers would rather compute the product again than load it; the loop needs it in memory."""
    x, y = param("x", ()), param("y", (7,))
    start = ops.multiply(x, 3.0)
    last, _ = ops.scan(lambda carry, _: (ops.add(carry, 1.0), None), start, None, 4)
    function = Function("f", (x, y), (ops.add(y, start), ops.subtract(y, start), last))
    added, subtracted, found = compile(function, options=CompileOptions(threads=1, cache=False))(2.0, np.ones(7, "f4"))
    np.testing.assert_array_equal(added, np.full(7, 7.0))
    np.testing.assert_array_equal(subtracted, np.full(7, -5.0))
    assert found == 10.0
