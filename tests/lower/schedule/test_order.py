"""Order of kernels, in-place updates, barriers."""

import numpy as np
import pytest

import adjoint
from adjoint import ops
from adjoint.compiler import compile
from adjoint.ir import Function, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Const, Kernel, Load, Store
from adjoint.lower.schedule.order import barriers, circular_updates, order_kernels, read_elsewhere

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


def test_updates_behind_a_circle_stay_in_place():
    """Smaller ones, one that nothing else reads and one that is read before: giving them up would not help."""
    p, made, out = buffer("p", "external"), buffer("made"), buffer("out")
    alone, behind, other = buffer("alone", "external", 1), buffer("behind", "external", 2), buffer("other")
    kernels = [
        kernel("update", [p, alone], [p, made, alone]),
        kernel("read", [p, made, behind], [out]),
        kernel("later", [out, behind], [behind]),
        kernel("read_too", [out, behind], [other]),
    ]
    updated = frozenset((p, alone, behind))
    assert circular_updates(kernels, updated) == {p}
    order = names(order_kernels(kernels, updated - {p}))
    assert order.index("read_too") < order.index("later")


def test_an_update_that_reads_elsewhere_is_given_up():
    p, q = buffer("p", "external"), buffer("q", "external")
    u, lane = Var("u", 16), as_index(Var("l", 16))

    def moved(at):
        return Kernel("move", u, (Store(((p, as_index(u), Load(p, at)), (q, lane, Load(q, lane)))),), parallel=True)

    assert not read_elsewhere([moved(as_index(u))], frozenset([p, q]))
    assert read_elsewhere([moved(as_index(u) * -1 + 15)], frozenset([p, q])) == {p}
    assert not read_elsewhere([moved(as_index(u) * -1 + 15)], frozenset([q])), "p has two buffers, old and new"


W = np.random.default_rng(0).standard_normal((40, 96)).astype("f4")
X = np.random.default_rng(1).standard_normal((96, 96)).astype("f4")
ROWS = np.random.default_rng(2).integers(0, 40, 40)
SUMS = np.zeros_like(W)
np.add.at(SUMS, ROWS, 2 * W[::-1])

OTHER, CHOSEN = param("other", (96, 96)), param("chosen", (40,), "i64")

#: Updates whose new elements depend on old ones at other places: of graph values, and the result.
MOVING = {
    "reverse": (lambda w: ops.flip(w, 0) * 2.0, W[::-1] * 2),
    "transpose": (lambda w: ops.reshape(ops.transpose(w), (40, 96)) * 2.0, W.T.reshape(40, 96) * 2),
    "product": (lambda w: ops.matmul(w, OTHER), W @ X),
    "rows": (lambda w: ops.take(w, CHOSEN) * 2.0, W[ROWS] * 2),
    "sums of rows": (lambda w: ops.scatter_add(CHOSEN, ops.flip(w, 0) * 2.0, 40), SUMS),
    "a sum of rows": (
        lambda w: ops.reshape(ops.scatter_add(CHOSEN[:1] * 0, ops.reshape(w, (1, 3840)), 1), (40, 96)),
        W,
    ),
    "shift": (lambda w: w + ops.concat([w[:, 95:], w[:, :95]], axis=1), W + np.roll(W, 1, 1)),
    "distance to the mean": (lambda w: w - ops.mean(w, axis=1, keepdims=True), W - W.mean(1, keepdims=True)),
}


@pytest.mark.parametrize("name", MOVING)
def test_parameters_are_updated_from_their_old_elements(name):
    function, want = MOVING[name]
    w = param("w", W.shape)
    step = compile(Function("step", (w, OTHER, CHOSEN), (function(w),), {"donate": (("w", 0),)}))["step"]
    updated = adjoint.tensor(W).numpy().copy()
    step.bind({"w": updated})(X, ROWS)
    np.testing.assert_allclose(updated, want, rtol=1e-4, atol=1e-4)


def test_tensors_are_updated_from_their_old_elements():
    p = adjoint.tensor(W)
    p.copy_(p.flip(0) * 2)
    np.testing.assert_array_equal(p.numpy(), W[::-1] * 2)


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
