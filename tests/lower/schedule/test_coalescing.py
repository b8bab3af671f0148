"""Coalescing of small serial kernels: which, into which interval, and with the same results."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from adjoint import ops
from adjoint.compiler import compile, host
from adjoint.ir import DTYPES, Function, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.interpreter import run_kernel
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Store, walk
from adjoint.kernel.printer import print_kernel
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.passes import KERNEL_PASSES
from adjoint.lower.schedule.coalescing import coalesce_serial
from adjoint.lower.schedule.order import barriers
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph
from tests.hardware import levels
from tests.lower.contractions.test_contractions import OPTIONS
from tests.runtime.networks import NETWORKS, module_of, program_of

F32 = DTYPES["f32"]
A, B, C, D, E, F = (Buffer(name, F32, 8, "arena") for name in "abcdef")
P, Q = (Buffer(name, F32, 8, "external") for name in "pq")


def kernel(name, reads, writes, parallel=False, units=1, terms=1):
    """Each element of what it writes becomes one more than `terms` sums of the elements that it reads."""
    unit, lane = Var("u", units), Var("l", 8 // units)
    at = as_index(unit) * (8 // units) + as_index(lane)
    value = Const(1.0, F32)
    for buffer in reads * terms:
        value = Apply("add", (value, Load(buffer, at)), F32)
    store = Store(tuple((buffer, at, value) for buffer in writes))
    moved = 32 * (len(reads) + len(writes))
    return Kernel(name, unit, (For(lane, (store,), "vector"),), (f"%{name}",), 8 * len(reads), moved, parallel)


def names(kernels):
    return [k.name for k in kernels]


def test_two_kernels_are_one_after_the_other():
    (made,) = coalesce_serial([kernel("one", [P], [A]), kernel("two", [A], [B], units=4)], ())
    verify_kernel(made)
    assert print_kernel(made).splitlines() == [
        "kernel one_and_1: computes %one, %two",
        "  1 units, on one thread; 16 flops, 128 bytes",
        "  reads p f32[8], a f32[8] arena; writes a f32[8] arena, b f32[8] arena",
        "  for u in 0..1 units:",
        "    for l in 0..8 vector:",
        "      a[l] = add(1.0, p[l])",
        "    for u.1 in 0..4:",
        "      for l in 0..2 vector:",
        "        b[u.1*2 + l] = add(1.0, a[u.1*2 + l])",
    ]


def test_kernels_that_threads_share_need_not_be_in_between():
    kernels = kernel("one", [P], [A]), kernel("shared", [Q], [B], parallel=True), kernel("two", [A], [C])
    assert names(coalesce_serial(kernels, ())) == ["one_and_1", "shared"]


def test_one_that_the_next_interval_waits_for_stays_in_its_own():
    kernels = [
        kernel("one", [P], [A]),
        kernel("make", [Q], [B], parallel=True),
        kernel("use", [A, B], [C], parallel=True),
        kernel("two", [C], [D]),
    ]
    assert names(coalesce_serial(kernels, ())) == ["one", "make", "use", "two"]


def test_all_that_are_ready_where_the_first_can_wait_no_longer():
    """The third could wait for the fourth, but need not: the first two are waited for by `use`."""
    kernels = [
        kernel("first", [P], [A]),
        kernel("make", [Q], [B], parallel=True),
        kernel("second", [B], [C]),
        kernel("third", [P], [D]),
        kernel("use", [A, C], [E], parallel=True),
        kernel("fourth", [E], [F]),
    ]
    assert names(coalesce_serial(kernels, ())) == ["make", "first_and_2", "use", "fourth"]


def test_what_reads_old_contents_runs_before_they_are_overwritten():
    kernels = kernel("read", [P], [A]), kernel("write", [B], [P], parallel=True), kernel("late", [P], [C])
    assert names(coalesce_serial(kernels, ())) == ["read", "write", "late"]


def two_updates(*, activations):
    return [
        kernel("gradient", activations, [B]),
        kernel("update_p", [P, B], [P]),
        kernel("next", [B], [C], parallel=True),
        kernel("other", [C], [D]),
        kernel("update_q", [Q, C], [Q]),
    ]


def test_updates_are_apart_and_may_wait_for_the_end():
    made = coalesce_serial(two_updates(activations=[A, E]), {P, Q})
    assert names(made) == ["gradient", "next", "other", "updates"]
    assert made[-1].values == ("%update_p", "%update_q")


def test_operands_are_not_kept_where_that_takes_more_memory():
    """With `b` kept, the second interval would hold three buffers, and two are the most without."""
    kernels = two_updates(activations=[A])
    assert names(coalesce_serial(kernels, {P, Q})) == ["gradient", "update_p", "next", "other", "update_q"]


def test_work_adds_up():
    members = [kernel("one", [P, Q], [A]), kernel("two", [Q], [B], units=2), kernel("three", [A], [P])]
    (made,) = coalesce_serial(members, ())
    assert made.flops == sum(k.flops for k in members)
    assert made.bytes == 32 * 6  # the second input is read once
    assert not made.parallel


LARGE = Buffer("large", F32, 16 * 1024, "arena")


def copies_of_large(name, to):
    return replace(kernel(name, [LARGE], [to]), bytes=LARGE.nbytes)


@pytest.mark.parametrize(
    "kernels",
    [
        pytest.param([kernel("k0", [P], [A], parallel=True), kernel("k1", [P], [B], parallel=True)], id="shared"),
        pytest.param([kernel("k0", [P], [A], parallel=True), kernel("k1", [A], [B])], id="one of them shared"),
        pytest.param([copies_of_large("k0", A), copies_of_large("k1", B)], id="large"),
        pytest.param([kernel("k0", [P], [A], terms=20), kernel("k1", [P], [B], terms=20)], id="equal long code"),
        pytest.param([kernel("k0", [P], [A], terms=400), kernel("k1", [A], [B], terms=500)], id="full"),
        pytest.param([kernel("k0", [], [A])], id="alone"),
    ],
)
def test_what_stays_apart(kernels):
    assert coalesce_serial(kernels, ()) == kernels


def test_what_stays_apart_keeps_its_place_among_those_that_move():
    """The long one is there twice, so its code is not repeated; it needs the first, and the last needs it."""
    long = kernel("long", [A], [B], terms=20)
    again = kernel("again", [B], [C], terms=20)
    kernels = [kernel("first", [P], [A]), kernel("second", [Q], [D]), long, again, kernel("last", [C, D], [E])]
    assert names(coalesce_serial(kernels, ())) == ["first_and_1", "long", "again", "last"]


@st.composite
def programs(draw):
    """Kernels that read and write some buffers in any order, and those that count as updated in place."""
    buffers = [Buffer(f"b{n}", F32, 8, "arena") for n in range(6)]
    kernels = []
    for n in range(draw(st.integers(1, 12))):
        reads = draw(st.lists(st.sampled_from(buffers), max_size=3, unique=True))
        writes = draw(st.lists(st.sampled_from(buffers), min_size=1, max_size=2, unique=True))
        terms = draw(st.sampled_from([1, 1, 8]))  # of the longer ones, some equal each other
        units = draw(st.sampled_from([1, 2]))
        kernels.append(kernel(f"k{n}", reads, writes, draw(st.booleans()), units, terms))
    return kernels, buffers, draw(st.sets(st.sampled_from(buffers), max_size=2))


@given(programs())
def test_any_program_does_the_same_with_no_more_barriers(case):
    kernels, buffers, updated = case
    made = coalesce_serial(kernels, updated)
    assert Counter(v for k in made for v in k.values) == Counter(v for k in kernels for v in k.values)
    assert len(barriers(made, {})) <= len(barriers(kernels, {}))
    left = []
    for run in (kernels, made):
        memory = {b: np.arange(b.size, dtype="f4") * n for n, b in enumerate(buffers)}
        for one in run:
            verify_kernel(one)
            run_kernel(one, memory)
        left.append({b: array.tobytes() for b, array in memory.items()})
    assert left[0] == left[1]


@pytest.mark.parametrize("name", NETWORKS)
def test_steps_have_fewer_kernels_and_no_more_barriers(name, monkeypatch):
    made = program_of(name, host())
    monkeypatch.setitem(KERNEL_PASSES, "coalesce_serial", lambda kernels, _: list(kernels))
    before = lower_function(module_of(name)["step"], host())
    assert len(made.kernels) < len(before.kernels)
    # Those of dependences; memory that kernels reuse may add some to either.
    assert len(barriers(made.kernels, {})) <= len(barriers(before.kernels, {}))
    assert made.arena_bytes <= 1.1 * before.arena_bytes
    shared = [[k.name for k in p.kernels if k.parallel] for p in (made, before)]
    assert shared[0] == shared[1]
    for size in ("flops", "bytes"):
        assert sum(getattr(k, size) for k in made.kernels) <= sum(getattr(k, size) for k in before.kernels)


def test_scales_are_updated_together():
    """The gradients in front of them need the old ones, so the new ones lie apart until nobody reads these."""
    kernels = program_of("resnet8", host()).kernels
    updates = [k for k in kernels if k.name.startswith("updates")]
    scales = {b.name for k in kernels for b in k.reads if b.name.endswith("_g") and b.space == "external"}
    assert len(scales) == 9
    # A small update of something else may lie between two halves of them.
    assert len(updates) <= 2
    assert {f"%{name}_new" for name in scales} <= {value for kernel in updates for value in kernel.values}


@pytest.mark.parametrize("level", levels())
def test_coalesced_kernels_agree_with_the_reference(level):
    """Sums of rows, numbers that say where to read, and a loop of several units, one after the other."""
    x, table, at = param("x", (6, 20)), param("table", (5, 3)), param("at", (2,), "i64")
    total = ops.sum(x, axis=1)
    rows = ops.sum(ops.embedding(table, at), axis=0)
    results = (total, ops.multiply(x, ops.reshape(total, (6, 1))), rows, ops.max(x))
    function = Function("f", (x, table, at), results)
    (made,) = lower_function(function, host()).kernels
    assert any(isinstance(s, For) and s.kind == "serial" for s in walk(made.body))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((6, 20)).astype("f4"), rng.standard_normal((5, 3)).astype("f4"), np.array([4, 1])]
    agrees_with_graph(compile(function, level, OPTIONS)(*arrays), function, *arrays)
