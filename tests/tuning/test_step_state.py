"""What a step uses before a kernel: the last use of every buffer, as far back as the caches reach."""

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.compiler import host
from adjoint.ir import Function, param
from adjoint.ir.printer import value_names
from adjoint.lower.contractions.schedules import contraction_kernels
from adjoint.lower.program import contractions_of
from adjoint.pipeline import lower_function
from adjoint.tuning.step_state import StepMemory, candidate_programs, uses_before


def three_products():
    """Products with w0, w1 and w2, one after the other."""
    value = x = param("x", (64, 96))
    weights = [param(f"w{n}", (96, 96)) for n in range(3)]
    for w in weights:
        value = ops.relu(value @ w)
    return Function("f", (x, *weights), (value,))


@pytest.fixture
def step():
    """The program of three products, and the context, group and plan of the second."""
    function = three_products()
    context, planned = contractions_of(function, host(), value_names(function))
    (_, (group, made), _) = planned.items()
    return lower_function(function, host()), context, group, made.plan


def test_uses_are_ordered_by_their_last_time_and_the_step_repeats(step):
    program, context, group, _ = step
    uses = uses_before(program, context.names[group.root], host())
    weights = [use.buffer.name for use in uses if use.buffer.name in ("w0", "w1", "w2")]
    assert weights == ["w1", "w2", "w0"]
    written = {use.buffer.name for use in uses if use.written} - {"scratch"}
    assert not written & {"x", "w0", "w1", "w2"}
    assert "result0" in written


def test_uses_end_where_the_caches_are_full(step, monkeypatch):
    program, context, group, _ = step
    monkeypatch.setattr(costs, "replayed_bytes", lambda _: 40_000)
    uses = uses_before(program, context.names[group.root], host())
    assert sum(use.nbytes for use in uses) == 40_000
    assert "w2" not in {use.buffer.name for use in uses}


def test_a_candidate_has_its_operands_where_the_step_has_them(step):
    program, context, group, plan = step
    value = context.names[group.root]
    (candidate,) = candidate_programs(program, value, context, [contraction_kernels(context, group, plan)])
    places = {buffer.name: offset for buffer, offset in program.offsets.items()}
    shared = [buffer for buffer in candidate.offsets if buffer.name in places]
    assert shared
    assert all(candidate.offsets[buffer] == places[buffer.name] for buffer in shared)
    memory = StepMemory(program, uses_before(program, value, host()), [candidate])
    before = memory.arena.copy()
    memory.restore()
    assert np.array_equal(memory.arena, before)
