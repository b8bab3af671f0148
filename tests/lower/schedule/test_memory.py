"""Memory planning: live buffers do not overlap, and the plan is close to the lower bound."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Const, Kernel, Load, Store
from adjoint.lower.schedule.memory import ALIGNMENT, plan_arena

F32 = np.dtype(np.float32)


def kernel(position, reads, writes):
    """A kernel that touches buffers."""
    source = Load(reads[0], as_index(0)) if reads else Const(0.0, F32)
    targets = [(b, as_index(0), source) for b in writes]
    targets += [(writes[0], as_index(0), Load(b, as_index(0))) for b in reads[1:]]
    return Kernel(f"k{position}", Var("u", 1), (Store(tuple(targets)),))


@st.composite
def chains(draw):
    """Kernels that each write one buffer and read some earlier ones."""
    sizes = draw(st.lists(st.integers(1, 500), min_size=1, max_size=12))
    buffers = [Buffer(f"b{n}", F32, size, "arena") for n, size in enumerate(sizes)]
    kernels = []
    for n, buffer in enumerate(buffers):
        reads = draw(st.lists(st.sampled_from(buffers[:n]), max_size=3, unique=True)) if n else []
        kernels.append(kernel(n, reads, [buffer]))
    return kernels


def lifetimes(kernels):
    lives = {}
    for position, k in enumerate(kernels):
        for buffer in (*k.reads, *k.writes):
            first, _ = lives.get(buffer, (position, position))
            lives[buffer] = (first, position)
    return lives


@given(chains())
def test_live_buffers_do_not_overlap(kernels):
    offsets, total, bound = plan_arena(kernels)
    lives = lifetimes(kernels)
    assert set(offsets) == set(lives)
    for a, (a_first, a_last) in lives.items():
        assert offsets[a] % ALIGNMENT == 0
        assert offsets[a] + a.nbytes <= total
        for b, (b_first, b_last) in lives.items():
            if a is not b and a_first <= b_last and b_first <= a_last:
                assert offsets[a] + a.nbytes <= offsets[b] or offsets[b] + b.nbytes <= offsets[a]
    assert bound <= total


def test_a_chain_needs_two_buffers():
    buffers = [Buffer(f"b{n}", F32, 256, "arena") for n in range(10)]
    kernels = [kernel(n, buffers[n - 1 : n], [b]) for n, b in enumerate(buffers)]
    _, total, bound = plan_arena(kernels)
    assert total == bound == 2 * 1024


def test_only_arena_buffers_are_placed():
    outside = Buffer("x", F32, 4, "external")
    inside = Buffer("y", F32, 4, "arena")
    offsets, total, _ = plan_arena([kernel(0, [outside], [inside])])
    assert list(offsets) == [inside]
    assert total == ALIGNMENT
