"""Leaner orders of kernels: every kernel reads what it read before, and no more memory is live at the peak."""

import numpy as np
import pytest

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Kernel, Load, Store
from adjoint.lower.schedule.lifetimes import live_bytes, shorten_lifetimes

F32 = np.dtype("f4")


def kernel(name, reads, writes):
    """A kernel that reads and writes one element of each buffer."""
    at = as_index(0)
    stores = [((b, at, Load(reads[0], at)),) for b in writes]
    stores += [((writes[0], at, Load(b, at)),) for b in reads[1:]]
    return Kernel(name, Var("u", 1), tuple(Store(targets) for targets in stores))


def random_kernels(seed, count=14):
    """Kernels that read what earlier ones wrote, some of which update a parameter."""
    rng = np.random.default_rng(seed)
    made = [Buffer("x", F32, 4, "external"), Buffer("w", F32, 4, "external")]
    kernels = []
    for number in range(count):
        reads = [made[i] for i in rng.choice(len(made), min(len(made), int(rng.integers(1, 4))), replace=False)]
        if rng.random() < 0.2:
            writes = [made[1]]
        else:
            writes = [Buffer(f"b{number}", F32, int(rng.integers(1, 100)), "arena")]
            made += writes
        kernels.append(kernel(f"k{number}", reads, writes))
    return kernels


def contents(kernels):
    """What every kernel reads, as terms over what was there at the start."""
    held, seen = {}, {}
    for one in kernels:
        seen[one.name] = tuple((b, held.get(b, b.name)) for b in one.reads)
        held |= dict.fromkeys(one.writes, one.name)
    return seen, held


@pytest.mark.parametrize("seed", range(40))
def test_every_kernel_reads_what_it_read_before(seed):
    kernels = random_kernels(seed)
    found = shorten_lifetimes(kernels)
    assert contents(found) == contents(kernels)
    assert max(live_bytes(found)) <= max(live_bytes(kernels))


def test_some_orders_are_leaner():
    pairs = [(max(live_bytes(shorten_lifetimes(k))), max(live_bytes(k))) for k in map(random_kernels, range(40))]
    assert sum(found < before for found, before in pairs) > 10


def test_the_best_order_of_a_few_kernels_is_found():
    """Four branches that a last kernel joins: each is best computed just before it is reduced to a small value."""
    x = Buffer("x", F32, 4, "external")
    large = [Buffer(f"large{i}", F32, 1000, "arena") for i in range(4)]
    small = [Buffer(f"small{i}", F32, 1, "arena") for i in range(4)]
    result = Buffer("result0", F32, 1, "external")
    kernels = [kernel(f"l{i}", [x], [b]) for i, b in enumerate(large)]
    kernels += [kernel(f"s{i}", [a], [b]) for i, (a, b) in enumerate(zip(large, small, strict=True))]
    kernels.append(kernel("join", small, [result]))
    assert max(live_bytes(kernels)) == 4 * 4000 + 4
    assert max(live_bytes(shorten_lifetimes(kernels))) == 4000 + 4 * 4


def test_no_kernels_stay_none():
    assert shorten_lifetimes([]) == []
    assert live_bytes([]) == []
