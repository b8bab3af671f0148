"""Reading the clock: what is counted for a kernel, and that threads wait for each other where they must."""

import numpy as np
import pytest

from adjoint.compiler import CompileOptions, compile, host
from adjoint.errors import InvalidValueError
from adjoint.pipeline import lower_function
from adjoint.profiling.inputs import random_arrays
from adjoint.runtime.report import Clocks


def made_clocks():
    """Four runs of three kernels on two threads. Reading takes 5; the second thread waits 40 before the last."""
    one = [[[0, 105], [110, 165], [170, 375]], [[0, 85], [90, 125], [165, 370]]]
    # Runs that start later, and one at which the machine slept.
    return Clocks(np.array([one, np.add(one, 1000), np.add(one, 2000), np.multiply(one, 50)]))


def test_reading_is_the_shortest_gap_and_counts_for_no_kernel():
    clocks = made_clocks()
    assert clocks.reading() == 5
    # Of two threads the slower: 105, 55, 205, each with one reading in it; the slept run is beyond the quartiles.
    assert clocks.typical().tolist() == [100.0, 50.0, 200.0]


def test_a_kernel_in_a_loop_starts_with_the_run():
    """Its entry is the sum of its times from the start of the run on; the gap before it is no reading."""
    clocks = Clocks(np.array([[[[0, 100], [0, 30], [155, 205]]]]))
    assert clocks.reading() == 125, "the only gap that is one"
    clocks = Clocks(np.array([[[[0, 100], [105, 205], [0, 30]]]]))
    assert clocks.reading() == 5
    assert clocks.typical().tolist() == [95.0, 95.0, 25.0]


def test_walls_and_waits_add_up():
    clocks = made_clocks()
    assert clocks.walls()[:3].tolist() == [375, 375, 375]
    # The first thread works 365 of 375 and reads twice between kernels; the second works 325.
    assert clocks.waits()[:3].tolist() == [(0 + 40) / 2] * 3


def test_a_program_without_kernels_takes_no_time():
    clocks = Clocks(np.zeros((3, 1, 0, 2), np.int64))
    assert clocks.typical().tolist() == []
    assert clocks.walls().tolist() == [0, 0, 0]


@pytest.mark.parametrize("threads", [1, 2, 3])
def test_every_thread_reads_the_clock_around_every_kernel_and_waits_at_barriers(module, threads):
    entry = compile(module, options=CompileOptions(threads=1), entries=("step",))["step"]
    arrays = random_arrays(module, entry)
    resident = {a.name: arrays.pop(a.name) for a in entry.arguments if a.donated}
    before = {name: array.copy() for name, array in resident.items()}
    clocks = entry.clocks(*arrays.values(), resident=resident, runs=4, threads=threads).nanoseconds
    assert clocks.shape == (4, threads, len(entry.kernels), 2)
    start, end = clocks[..., 0], clocks[..., 1]
    assert (start <= end).all()
    assert (end[:, :, :-1] <= start[:, :, 1:]).all()
    meeting = lower_function(module["step"], host()).barriers
    assert meeting
    for kernel in meeting:
        earlier = end[:, :, :kernel].max(axis=(1, 2))
        assert (start[:, :, kernel].min(axis=1) >= earlier).all()
    for name, array in before.items():
        np.testing.assert_array_equal(resident[name], array)


def test_senseless_numbers_are_refused(module):
    entry = compile(module, options=CompileOptions(threads=1), entries=("step",))["step"]
    for wrong, message in (({"runs": 0}, "runs must be at least 1"), ({"threads": 0}, "an integer from 1 to 1024")):
        with pytest.raises(InvalidValueError, match=message):
            entry.clocks(**wrong)
