"""The native loop: against the same step called batch by batch with rows that NumPy takes."""

import re

import numpy as np
import pytest

from adjoint import ops
from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, param
from adjoint.runtime.epoch import EpochLoop, epoch_text
from tests.runtime.test_executable import data, mlp_step

OPTIONS = CompileOptions(cache=False, threads=1)
ROWS, STEPS = 300, 12


@pytest.fixture(scope="module")
def step():
    return compile(mlp_step(), options=OPTIONS)["step"]


@pytest.fixture(scope="module")
def gather():
    table, labels, order = param("table", (ROWS, 96)), param("labels", (ROWS,), "i64"), param("order", (64,), "i64")
    return compile(
        Function("gather", (table, labels, order), (ops.take(table, order), ops.take(labels, order))), options=OPTIONS
    )["gather"]


def tables(seed=1):
    rng = np.random.default_rng(seed)
    order = rng.integers(0, ROWS, STEPS * 64)
    return rng.standard_normal((ROWS, 96)).astype("f4"), rng.integers(0, 10, ROWS), order


def looped(step, gather, threads=1, schedules=(), ends=(STEPS,), given=None):
    """Losses and parameters after the native loop, which is run up to each of `ends`."""
    x, y, order = given or tables()
    kept = data()[2]
    history = np.full(STEPS, np.nan, "f4")
    loop = EpochLoop(
        gather.bind({}, threads=threads), step.bind(kept, threads=threads), (x, y), order, history, dict(schedules)
    )
    for end in ends:
        loop.run(end)
        assert loop.done == end
    return history, kept


def called(step, schedules=(), count=STEPS):
    """The same by calls of the step."""
    x, y, order = tables()
    kept = data()[2]
    bound = step.bind(kept, threads=1)
    losses = []
    for number in range(count):
        for name, values in schedules:
            kept[name][...] = values[number]
        rows = order[number * 64 :][:64]
        losses.append(bound(x[rows], y[rows]))
    return np.array(losses, "f4"), kept


def assert_equal(got, expected):
    np.testing.assert_array_equal(got[0], expected[0])
    for name, array in expected[1].items():
        np.testing.assert_array_equal(got[1][name], array)


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_the_bits_are_those_of_the_steps_one_by_one(step, gather, threads):
    assert_equal(looped(step, gather, threads), called(step))


def test_the_loop_may_be_left_and_gone_on_with(step, gather):
    assert_equal(looped(step, gather, ends=(1, 1, 5, STEPS)), called(step))


def test_hyperparameters_are_written_before_each_step(step, gather):
    schedules = [("lr", np.linspace(0.05, 0, STEPS, dtype="f4"))]
    got = looped(step, gather, schedules=schedules)
    assert_equal(got, called(step, schedules))
    assert got[1]["lr"] == 0


def test_a_step_may_be_called_between_two_runs_of_the_loop(step, gather):
    """The loop and a call share the table of addresses; neither is misled by the other."""
    (x, y, order), kept = tables(), data()[2]
    kept["lr"][...] = 0  # so that the calls between change nothing
    history = np.zeros(STEPS, "f4")
    bound = step.bind(kept)
    loop = EpochLoop(gather.bind({}), bound, (x, y), order, history, {})
    for number in range(STEPS):
        loop.run(number + 1)
        other = order[-64:]
        assert bound(x[other], y[other]) == pytest.approx(bound(x[other][::-1], y[other][::-1]), rel=1e-5)
    np.testing.assert_array_equal(history, called(step, [("lr", np.zeros(STEPS))])[0])


@pytest.mark.parametrize("value", [10, -1])
def test_a_label_out_of_range_ends_the_loop_before_its_step(step, gather, value):
    x, y, order = tables()
    place = 7 * 64 + 20
    order[:] = np.random.default_rng(0).permutation(np.arange(len(order)) % (ROWS - 1))
    order[place] = ROWS - 1
    y[-1] = value
    kept = data()[2]
    history = np.full(STEPS, np.nan, "f4")
    rates = np.linspace(0.01, 0.02, STEPS, dtype="f4")
    loop = EpochLoop(gather.bind({}), step.bind(kept), (x, y), order, history, {"lr": rates})
    with pytest.raises(
        InvalidValueError, match=rf"y must be in \[0, 10\), got {value} in row 299; 7 steps were done before"
    ):
        loop.run(STEPS)
    assert loop.done == 7
    assert np.isfinite(history[:7]).all()
    assert np.isnan(history[7:]).all()
    assert kept["lr"] == rates[6]
    fine = y.copy()
    fine[-1] = 0
    _, expected = looped(step, gather, schedules=[("lr", rates)], ends=(7,), given=(x, fine, order))
    for name, array in expected.items():
        np.testing.assert_array_equal(kept[name], array)


def test_what_stays_is_checked_too():
    """A check of an argument that is no row has no row to name; one of a row of several elements names which."""
    ids, table = param("ids", (2, 3), "i64"), param("table", (4,), "i64")
    total = ops.sum(ops.cast(ops.add(ops.check_range(ids, 0, 5), ops.sum(ops.check_range(table, 0, 9))), "f4"))
    step = compile(Function("step", (ids, table), (total,)), options=OPTIONS)["step"]
    rows, order = param("rows", (6, 3), "i64"), param("order", (2,), "i64")
    gather = compile(Function("gather", (rows, order), (ops.take(rows, order),)), options=OPTIONS)["gather"]
    kept, given = {"table": np.arange(4)}, np.arange(18).reshape(6, 3) % 5
    order = np.array([0, 1, 2, 5])
    given[5, 1] = 6

    def run():
        EpochLoop(gather.bind({}), step.bind(kept), (given,), order, np.zeros(2, "f4"), {}).run(2)

    with pytest.raises(InvalidValueError, match=r"ids must be in \[0, 5\), got 6 in row 5 at \(1,\); 1 step was"):
        run()
    kept["table"][2] = 9
    with pytest.raises(InvalidValueError, match=r"table must be in \[0, 9\), got 9 at \(2,\); 0 steps"):
        run()


def test_nothing_of_python_is_called_in_the_loop():
    lines = epoch_text(host().triple).partition("@epoch(")[2].splitlines()
    called_ones = set(re.findall(r"call [\w ]+@([\w.]+)\(", "\n".join(lines)))
    assert called_ones == {
        "epoch_step", "barrier", "schedule", "settle", "fetch", "llvm.memcpy.p0.p0.i64", "llvm.prefetch.p0",
        "enter_float_mode",
    }  # fmt: skip
