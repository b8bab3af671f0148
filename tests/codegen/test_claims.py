"""Claimed units: of which kernels, and what is emitted. tests/runtime/test_jitter.py runs them."""

import pytest

from adjoint import Function, costs, param
from adjoint.codegen.module import emit_modules
from adjoint.compiler import host
from adjoint.ops.control_flow import scan
from adjoint.pipeline import finish_program, lower_function
from tests.runtime.networks import module_of


def program_of(function):
    return finish_program(lower_function(function, host()))


@pytest.fixture
def any_length(monkeypatch):
    """Threads claim the units of short kernels, too."""
    monkeypatch.setattr(costs, "CLAIMED_NANOSECONDS", 0)


def test_short_kernels_have_fixed_shares():
    program = program_of(module_of("mlp")["step"])
    assert not program.claimed
    assert "atomicrmw" not in "".join(list(emit_modules(program, host()))[1:])  # the first is the barrier


@pytest.mark.usefixtures("any_length")
def test_claims_are_cleared_before_the_barrier():
    program = program_of(module_of("mlp")["step"])
    shared = {k for k, kernel in enumerate(program.kernels) if kernel.parallel and kernel.until is None}
    assert program.claimed == {k for k in shared if k >= min(program.barriers)} != set()
    text = "".join(list(emit_modules(program, host()))[1:])
    for k in program.claimed:
        barrier = max(b for b in program.barriers if b <= k)
        assert (
            text.index(f"ptr %mine{k} monotonic")
            < text.index(f"meet{barrier}:")
            < text.index(f"@claim(ptr %counters{k},")
        )


@pytest.mark.usefixtures("any_length")
def test_each_thread_has_claims_of_its_own():
    program = program_of(module_of("mlp")["step"])
    offsets = program.claim_offsets
    assert set(offsets) == program.claimed
    assert len(set(offsets.values())) == len(offsets)
    assert max(offsets.values()) + 4 <= program.scratch_bytes
    scratch = max(sum(b.nbytes for b in kernel.scratch) for kernel in program.kernels)
    assert min(offsets.values()) >= scratch


@pytest.mark.usefixtures("any_length")
def test_loops_have_fixed_shares():
    x, w = param("x", (64, 64)), param("w", (64, 64))
    carried, _ = scan(lambda carry, _: ((carry[0] @ w,), ()), (x @ w,), (), length=5)
    program = program_of(Function("f", (x, w), (carried[0] @ w,)))
    inside = {p for region in program.regions for p in range(region.start, region.stop)}
    assert any(program.kernels[p].parallel for p in inside)
    assert not program.claimed & inside
