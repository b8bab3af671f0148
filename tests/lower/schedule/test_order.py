"""Order of kernels, in-place updates, barriers."""

import numpy as np

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Const, Kernel, Load, Store
from adjoint.lower.schedule.order import barriers, circular_updates, order_kernels

F32 = np.dtype(np.float32)


def buffer(name, space="arena", size=16):
    return Buffer(name, F32, size, space)


def kernel(name, reads, writes, parallel=True):
    values = [Load(b, as_index(0)) for b in reads] or [Const(0.0, F32)]
    targets = tuple((w, as_index(0), v) for w in writes for v in values)
    return Kernel(name, Var("u", 4), (Store(targets),), parallel=parallel)


def names(kernels):
    return [k.name for k in kernels]


def test_producers_come_first():
    a, b = buffer("a"), buffer("b")
    made = kernel("use", [a], [b]), kernel("make", [], [a])
    assert names(order_kernels(made, frozenset())) == ["make", "use"]


def test_readers_come_before_an_update_in_place():
    p, g = buffer("p", "external"), buffer("g")
    update, read = kernel("update", [p], [p]), kernel("read", [p], [g])
    assert names(order_kernels([update, read], frozenset([p]))) == ["read", "update"]
    assert not circular_updates([update, read], frozenset([p]))


def test_a_circle_gives_up_its_smallest_update():
    p, q = buffer("p", "external", 100), buffer("q", "external", 10)
    # Each new value needs the other's old one: swapping in place is impossible.
    kernels = [kernel("new_p", [q], [p]), kernel("new_q", [p], [q])]
    assert circular_updates(kernels, frozenset([p, q])) == {q}


def test_readers_of_old_contents_that_also_need_what_the_update_makes():
    """Giving up the update resolves the circle, although others still read the same buffer."""
    p, made, out = buffer("p", "external"), buffer("made"), buffer("out")
    kernels = [kernel("update", [p], [p, made]), kernel("read", [p, made], [out])]
    assert circular_updates(kernels, frozenset([p])) == {p}


def test_dependent_kernels_meet_and_independent_ones_do_not():
    a, b, c = buffer("a"), buffer("b"), buffer("c")
    kernels = [kernel("k0", [], [a]), kernel("k1", [], [b]), kernel("k2", [a, b], [c])]
    assert barriers(kernels, {a: 0, b: 64, c: 128}) == {2}


def test_kernels_of_one_thread_need_not_meet():
    a, b = buffer("a"), buffer("b")
    kernels = [kernel("k0", [], [a], parallel=False), kernel("k1", [a], [b], parallel=False)]
    assert barriers(kernels, {a: 0, b: 64}) == frozenset()


def test_a_serial_result_read_in_parallel_is_waited_for():
    a, b = buffer("a"), buffer("b")
    kernels = [kernel("k0", [], [a], parallel=False), kernel("k1", [a], [b])]
    assert barriers(kernels, {a: 0, b: 64}) == {1}


def test_one_thread_waits_for_parameters_that_several_update():
    p, a, b = buffer("p", "external"), buffer("a"), buffer("b")
    update, again = kernel("k0", [], [p]), kernel("k1", [], [p], parallel=False)
    read = kernel("k2", [p], [b], parallel=False)
    assert barriers([update, read], {b: 64}) == {1}
    # The last two run on the same thread, and the second has waited for the first.
    assert barriers([update, again, read], {b: 64}) == {1}
    assert barriers([kernel("k0", [p], [a]), kernel("k1", [p], [b], parallel=False), again], {a: 0, b: 64}) == {2}


def test_memory_that_is_used_again_is_waited_for():
    x, a, b, y = buffer("x", "external"), buffer("a"), buffer("b"), buffer("y", "external")
    kernels = [kernel("k0", [a], [x]), kernel("k1", [y], [b])]
    assert barriers(kernels, {a: 0, b: 64}) == frozenset()
    assert barriers(kernels, {a: 0, b: 32}) == {1}
