"""Every network that benchmarks train leaves the same bits on any number of threads."""

import pytest

from adjoint import Trainer
from adjoint.compiler import CompileOptions, compile
from tests.runtime.networks import NETWORKS, module_of, trained


@pytest.mark.parametrize("name", NETWORKS)
def test_the_number_of_threads_changes_no_bit(name):
    module, options = module_of(name), CompileOptions()
    trainers = {threads: Trainer(module, threads=threads, options=options, seed=5) for threads in (1, 2, 3, 7)}
    step = compile(module, options=options, entries=("step",))["step"]
    parallel = [kernel for kernel in step.kernels if kernel.parallel and kernel.units > 1]
    # Four rows of two numbers are not worth sharing: this one only tests that it says so.
    assert (len(parallel) > 8) == (name != "linreg")
    expected = trained(trainers[1], 4)
    for threads in (2, 3, 7):
        assert trained(trainers[threads], 4) == expected, f"{threads} threads"
