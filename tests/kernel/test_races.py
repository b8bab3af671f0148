"""The check of barriers: it refuses each missing one, and asks for none that is not needed."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint.compiler import host
from adjoint.errors import VerifyError
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Const, Kernel, Load, Store
from adjoint.kernel.program import Program
from adjoint.kernel.races import verify_barriers
from tests.runtime.networks import NETWORKS, program_of

F32 = np.dtype(np.float32)
A, B, C = (Buffer(name, F32, 16, "arena") for name in "abc")
X = Buffer("x", F32, 16, "external")
APART = {A: 0, B: 64, C: 128}


def kernel(name, reads, writes, parallel=True):
    values = [Load(b, as_index(0)) for b in reads] or [Const(0.0, F32)]
    store = Store(tuple((buffer, as_index(0), value) for buffer in writes for value in values))
    return Kernel(name, Var("u", 4), (store,), parallel=parallel)


def program(*kernels, barriers=(), offsets=APART):
    return Program("step", (), (), (X,), kernels, frozenset(barriers), offsets, 192, 192, {})


@pytest.mark.parametrize("name", NETWORKS)
def test_every_barrier_of_a_network_is_needed_and_none_is_missing(name):
    lowered = program_of(name, host())
    verify_barriers(lowered)
    assert bool(lowered.barriers) == (name != "linreg")
    for barrier in lowered.barriers:
        with pytest.raises(VerifyError, match=r"step: kernels meet at a barrier .* do not; add a barrier before"):
            verify_barriers(replace(lowered, barriers=lowered.barriers - {barrier}))


@pytest.mark.parametrize(
    ("earlier", "later", "offsets"),
    [
        (kernel("k0", [], [A]), kernel("k1", [A], [B]), APART),  # read what is being written
        (kernel("k0", [A], [B]), kernel("k1", [], [A]), APART),  # write what is still read
        (kernel("k0", [], [A]), kernel("k1", [], [A]), APART),
        (kernel("k0", [X], [A]), kernel("k1", [B], [X]), APART),  # in place
        (kernel("k0", [], [A]), kernel("k1", [], [B]), {A: 0, B: 60}),  # other buffers, the last element's memory
        (kernel("k0", [], [A], parallel=False), kernel("k1", [A], [B]), APART),
        (kernel("k0", [], [A]), kernel("k1", [A], [B], parallel=False), APART),
    ],
)
def test_uses_of_the_same_memory_meet(earlier, later, offsets):
    between = kernel("other", [], [C])
    verify_barriers(program(earlier, later, barriers=[1], offsets=offsets))
    for kernels in ((earlier, later), (earlier, between, later)):
        where = {C: 128, **offsets}
        verify_barriers(program(*kernels, barriers=[len(kernels) - 1], offsets=where))
        with pytest.raises(VerifyError) as caught:
            verify_barriers(program(*kernels, offsets=where))
        assert caught.value.message.endswith(f"do not; add a barrier before kernel {len(kernels) - 1}")


def test_a_barrier_too_early_or_too_late_does_not_help():
    kernels = kernel("k0", [], [C]), kernel("k1", [], [A]), kernel("k2", [A], [B])
    verify_barriers(program(*kernels, barriers=[2]))
    for barrier in (0, 1, 3):
        with pytest.raises(VerifyError, match=r"but k1 \(a\) and k2 \(a\) do not; add a barrier before kernel 2"):
            verify_barriers(program(*kernels, barriers=[barrier]))


def test_reading_together_and_kernels_of_the_first_thread_need_no_barrier():
    verify_barriers(program(kernel("k0", [A], [B]), kernel("k1", [A], [C])))
    verify_barriers(program(kernel("k0", [], [A], parallel=False), kernel("k1", [A], [B], parallel=False)))
    verify_barriers(program(kernel("k0", [], [A]), kernel("k1", [], [B]), offsets={A: 0, B: 64}))
