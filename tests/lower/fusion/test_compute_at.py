"""Producers computed at the units of their consumers: when, when not, and with the same results."""

import numpy as np
import pytest

from adjoint import costs, ops
from adjoint.codegen.targets import target_for
from adjoint.compiler import CompileOptions, compile
from adjoint.costs import MODEL
from adjoint.ir import DTYPES, Function, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, For, Kernel, Load, Prefetch, Store, When, walk
from adjoint.kernel.printer import print_kernel
from adjoint.kernel.verifier import verify_kernel
from adjoint.lower.analysis.footprint import with_tiles
from adjoint.lower.fusion.compute_at import compute_at
from adjoint.pipeline import lower_function
from tests.closeness import agrees_with_graph
from tests.hardware import levels

F32 = DTYPES["f32"]
SIZE = 512 * 1024
X, Z = (Buffer(name, F32, SIZE, "external") for name in "xz")
P = Buffer("p", F32, SIZE, "arena")
Y = Buffer("y", F32, 8, "external")


def copy(source=X, to=P, units=64):
    """Units copy parts of a tensor."""
    unit, lane = Var("u", units), Var("l", SIZE // units)
    at = as_index(unit) * (SIZE // units) + as_index(lane)
    return with_tiles(
        Kernel("copy", unit, (For(lane, (Store(((to, at, Load(source, at)),)),), "serial"),), parallel=True)
    )


def sums(source=P, units=8, to=Y, step=None, asks=()):
    """Units add up parts of a tensor."""
    unit, lane, one = Var("u", units), Var("l", SIZE // units), as_index(0)
    total = Buffer("s", F32, 1, "register")
    at = as_index(unit) * (step or SIZE // units) + as_index(lane)
    added = Apply("add", (Load(total, one), Load(source, at)), F32)
    loop = For(lane, (*(a(unit, lane) for a in asks), Store(((total, one, added),))), "serial")
    begin, end = Store(((total, one, Const(0.0, F32)),)), Store(((to, as_index(unit), Load(total, one)),))
    return with_tiles(Kernel("sums", unit, (begin, loop, end), parallel=True))


def body(kernel):
    return [line.strip() for line in print_kernel(kernel).splitlines()[3:]]


def test_conditions_limit_what_a_unit_accesses():
    """Two parts of two elements and a last one of one: five are a unit's own, not six."""
    unit, part, lane = Var("u", 4), Var("part", 3), Var("l", 2)
    to, start, zero = Buffer("to", F32, 20, "arena"), as_index(unit) * 5, Const(0.0, F32)
    two = For(lane, (Store(((to, start + as_index(part) * 2 + as_index(lane), zero),)),), "vector")
    last = Store(((to, start + 4, zero),))
    assert with_tiles(Kernel("k", unit, (For(part, (When(as_index(part), 0, 2, (two,), (last,)),)),))).tile(to) == 5
    assert with_tiles(Kernel("k", unit, (For(part, (two,)),))).tile(to) == 0


def test_a_condition_on_the_unit_does_not_hide_its_part():
    unit, lane = Var("u", 4), Var("l", 5)
    to, zero = Buffer("to", F32, 20, "arena"), Const(0.0, F32)
    store = For(lane, (Store(((to, as_index(unit) * 5 + as_index(lane), zero),)),))
    assert with_tiles(Kernel("k", unit, (When(as_index(unit), 0, 3, (store,), (store,)),))).tile(to) == 5


def test_a_producer_moves_into_the_units_of_its_consumer():
    (made,) = compute_at([copy(), sums()], MODEL)
    verify_kernel(made)
    assert made.reads == (X,)
    assert made.writes == (Y,)


def test_one_in_another_in_a_third():
    middle = Buffer("m", F32, SIZE, "arena")
    (made,) = compute_at([copy(to=middle), copy(middle, units=32), sums()], MODEL)
    verify_kernel(made)
    assert made.reads == (X,)


def test_kernels_in_between_stay_where_they_are():
    other = Buffer("other", F32, SIZE, "arena")
    names = [k.writes[0].name for k in compute_at([copy(), copy(Z, other), sums()], MODEL)]
    assert names == ["other", "y"]


APART = {
    "two readers": [copy(), sums(), copy(P, Z)],
    "a result": [copy(to=Z), sums(Z)],
    "units that share a part": [copy(), sums(step=1024)],
    "units of half a part": [copy(units=4), sums()],
    "a part larger than a cache": [copy(), sums(units=2)],
    "a source that is overwritten before": [copy(), copy(Z, X), sums()],
    "a source that the reader overwrites": [copy(), sums(to=X)],
}


@pytest.mark.parametrize("case", APART)
def test_what_keeps_them_apart(case):
    kernels = APART[case]
    assert compute_at(kernels, MODEL) == kernels


def test_small_tensors_stay_in_cache_by_themselves(monkeypatch):
    monkeypatch.setattr(costs, "l2_bytes", lambda _: 8 << 20)
    assert len(compute_at([copy(), sums()], MODEL)) == 2


def prefetch(kernels):
    (made,) = compute_at(kernels, MODEL)
    verify_kernel(made)
    return [(s.buffer, str(s.index)) for s in walk(made.body) if isinstance(s, Prefetch)]


def test_units_ask_for_what_the_next_part_is_made_of():
    after = [lambda unit, lane: Prefetch(P, (as_index(unit) + 1) * 65536 + as_index(lane), False)]
    assert prefetch([copy(), sums(asks=after)]) == [(X, "u*65536 + l + 65536")]


def test_units_do_not_ask_for_what_they_make():
    own = [lambda unit, lane: Prefetch(P, as_index(unit) * 65536 + as_index(lane), False)]
    assert prefetch([copy(), sums(asks=own)]) == []


@pytest.mark.parametrize("level", levels())
def test_a_padded_image_is_padded_by_who_reads_it(level, monkeypatch):
    """Bits are those of two kernels, for any number of threads."""
    x, w = param("x", (64, 16, 32, 32)), param("w", (32, 16, 3, 3))
    function = Function("f", (x, w), (ops.conv2d(x, w, stride=2, padding=1),))
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(p.shape).astype("f4") for p in function.params]
    made = [compile(function, level, CompileOptions(threads=n))(*arrays) for n in (1, 3)]
    agrees_with_graph(made[0], function, *arrays)
    monkeypatch.setattr(costs, "l2_bytes", lambda _: 1 << 40)
    made.append(compile(function, level, CompileOptions(cache=False))(*arrays))
    np.testing.assert_array_equal(made[0], made[1])
    np.testing.assert_array_equal(made[0], made[2])


def test_padding_leaves_the_kernels_of_a_convolution():
    x, w = param("x", (64, 16, 32, 32)), param("w", (32, 16, 3, 3))
    function = Function("f", (x, w), (ops.conv2d(x, w, stride=2, padding=1),))
    kernels = lower_function(function, target_for("avx512")).kernels
    assert not any("pad" in k.name for k in kernels)
    assert {b.name for b in kernels[-1].reads} >= {"x"}
