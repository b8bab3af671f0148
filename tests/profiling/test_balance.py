"""The simulated schedule: how many threads would share a step."""

import ctypes
from dataclasses import replace

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.module import emit_modules
from adjoint.codegen.native import compile_native
from adjoint.compiler import host
from adjoint.errors import InvalidValueError
from adjoint.ir import Function, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Const, Kernel, Store
from adjoint.kernel.program import Program, share_of
from adjoint.pipeline import finish_program, lower_function
from adjoint.profiling.balance import balance_of, simulate_threads
from adjoint.runtime.library import Library
from tests.hardware import AVX512
from tests.runtime.networks import NETWORKS, module_of

#: Operations that are estimated to take a microsecond.
MICROSECOND = round(1e6 / costs.nanoseconds(1000.0, 0.0))


def kernel(name, units, microseconds, parallel=True):
    buffer, unit = Buffer(name, np.dtype(np.float32), max(units, 1), "external"), Var("u", units)
    store = Store(((buffer, as_index(unit), Const(0.0, buffer.dtype)),))
    return Kernel(name, unit, (store,), (name,), microseconds * MICROSECOND, 0, parallel)


def program(*kernels, barriers=()):
    return Program("step", (), (), (), kernels, frozenset(barriers), {}, 0, 0, {})


def test_shares_of_a_program_made_by_hand():
    """Six units on four threads: 1, 2, 1, 2; a serial kernel; then, behind a barrier, eight units."""
    made = balance_of(program(kernel("six", 6, 6), kernel("alone", 3, 1, False), kernel("even", 8, 8), barriers={2}), 4)
    six, alone, even = made.kernels
    assert (six.shares, six.busiest, six.balance) == ((1, 2, 1, 2), 2, 6 / 8)
    assert (alone.shares, alone.busiest, alone.balance) == ((3, 0, 0, 0), 3, 1 / 4)
    assert (even.shares, even.busiest, even.balance) == ((2, 2, 2, 2), 2, 1)
    assert made.work == pytest.approx(15_000)
    # The first thread has one unit of `six` and all of `alone`, as much as the second has of `six`.
    assert made.span == pytest.approx(2_000 + 2_000)
    assert made.efficiency == pytest.approx(15 / (4 * 4))


def test_a_barrier_makes_threads_wait():
    kernels = kernel("six", 6, 6), kernel("alone", 3, 1, False)
    assert balance_of(program(*kernels), 4).span == pytest.approx(2_000)
    assert balance_of(program(*kernels, barriers={1}), 4).span == pytest.approx(3_000)


def test_one_thread_is_always_efficient():
    made = balance_of(program(kernel("six", 6, 6), kernel("none", 0, 0), barriers={1}), 1)
    assert made.efficiency == 1
    assert [k.balance for k in made.kernels] == [1, 1]
    assert balance_of(program(), 8).efficiency == 1


@pytest.mark.parametrize("threads", [1, 2, 7, 64])
@pytest.mark.parametrize("units", [0, 1, 63, 64, 65, 1000])
def test_shares_are_contiguous_and_nearly_equal(units, threads):
    shares = [share_of(kernel("k", units, 1), thread, threads) for thread in range(threads)]
    assert [unit for share in shares for unit in share] == list(range(units))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_compiled_code_gives_threads_the_same_shares():
    """Each thread's part of a step, run by itself, writes the elements of its units."""
    x = param("x", (33 * 512,))
    lowered = finish_program(lower_function(Function("f", (x,), (ops.exp(x),)), host()))
    (only,) = lowered.kernels
    assert only.parallel
    assert not lowered.barriers
    library = Library(compile_native(emit_modules(lowered, host()), host()), (lowered.symbol,))
    kinds = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p)
    step = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(library[lowered.symbol])
    size = x.type.size // only.unit.extent
    for threads in (1, 2, 5, 64):
        for thread in range(threads):
            given, result = np.zeros(x.shape, np.float32), np.zeros(x.shape, np.float32)
            slots = np.array([given.ctypes.data, result.ctypes.data], np.uint64)
            assert step(slots.ctypes.data, 0, thread, threads, 0) == 0
            units = share_of(only, thread, threads)
            written = np.flatnonzero(result)
            np.testing.assert_array_equal(written, np.arange(units.start * size, units.stop * size))


@pytest.mark.parametrize("name", NETWORKS)
def test_large_kernels_occupy_all_threads(name):
    made = simulate_threads(module_of(name), 64, AVX512)
    assert 0 < made.efficiency <= 1
    # Those that take 64 threads longer than a barrier; for the others, idle threads matter less than the barrier.
    large = [k for k in made.kernels if k.nanoseconds > 64 * costs.SHARED_NANOSECONDS]
    assert {k.name: k.shares for k in large if k.balance < 0.75} == {}


def test_many_cores_have_smaller_shares_than_a_plan_for_two():
    module = module_of("mlp")
    two = balance_of(lower_function(module["step"], replace(host(), cores=2)), 64)
    assert simulate_threads(module, 64).efficiency > two.efficiency


def test_data_for_json_is_complete():
    made = balance_of(program(kernel("six", 6, 6)), 4).as_dict()
    assert made["efficiency"] == pytest.approx(6 / 8)
    assert made["kernels"][0]["shares"] == [1, 2, 1, 2]


def test_no_threads_are_refused():
    with pytest.raises(InvalidValueError, match="threads must be at least 1, got 0"):
        simulate_threads(module_of("linreg"), 0)
    with pytest.raises(InvalidValueError, match="threads must be at least 1, got -1"):
        balance_of(program(), -1)
