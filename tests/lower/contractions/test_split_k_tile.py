"""The search for the register tile of split-K, against one that computes the cost of every tile."""

from dataclasses import replace
from math import ceil, prod

import numpy as np
import pytest

from adjoint import costs
from adjoint.ir import Function, apply, param
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Load
from adjoint.lower.contractions import split_k_tile
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.channel_lanes_plan import plan_channel_lanes
from adjoint.lower.contractions.split_k_tile import TileReads, best_tile, evicted_lines
from adjoint.lower.program import contractions_of
from adjoint.ops.convolution import Conv2dWeightGradient
from adjoint.pipeline import after_graph_passes, value_names
from tests.lower.contractions.test_contractions import AVX512


def exhaustive(target, vectors, most, rows, reads, whole):
    """The same choice among all tiles."""
    found = []
    for count in range(1, min(vectors, most) + 1):
        room = (target.vector_registers - 1) // count - 1
        for tile in split_k_tile._tiles([row.extent for row in rows], room, whole):
            read = split_k_tile._vectors(rows, tile) * count
            sums = prod(tile) * count
            if read > count and sums + read + 1 > target.tile_registers:
                continue
            cycles = split_k_tile._sweep_cycles(target, count, rows, tile) * (vectors // count)
            if vectors % count:
                cycles += split_k_tile._sweep_cycles(target, vectors % count, rows, tile)
            found.append((cycles, -split_k_tile._step_cycles(target, sums, read), -count, tile))
    found.sort()
    if reads is not None:
        likely = [f for f in found if f[0] <= found[0][0] * costs.LIKELY_TILE][: costs.LIKELY_TILES]
        found = sorted(
            (cycles + reads.cycles(rows, tile, -count) * ceil(vectors / -count), step, count, tile)
            for cycles, step, count, tile in likely
        )
    best = [f for f in found if f[0] <= found[0][0] * costs.EQUALLY_FAST]
    if len(best) > 1 and reads is not None:
        best.sort(key=lambda f: reads.lines(f[3]) / prod(f[3]))
    cycles, _, count, tile = best[0]
    return cycles / ceil(vectors / -count), -count, tile


@pytest.mark.parametrize("number", range(60))
def test_the_search_finds_the_tile_that_all_costs_choose(number, monkeypatch):
    rng = np.random.default_rng(number)
    target = replace(
        costs.MODEL,
        vector_registers=int(rng.choice([16, 32])),
        fma_units=int(rng.integers(1, 3)),
        load_units=int(rng.integers(1, 3)),
    )
    rows = tuple(Var(f"r{n}", int(rng.integers(1, 65))) for n in range(rng.integers(1, 4)))
    steps = sorted(int(2 ** rng.uniform(2, 16)) for _ in rows)
    window = tuple((int(2 ** rng.uniform(2, 14)), int(rng.integers(1, 9))) for _ in range(rng.integers(0, 3)))
    blocks = tuple(int(rng.integers(1, 200)) for _ in range(costs.MAX_PANEL_VECTORS))
    reads = TileReads(target, tuple(steps), window, blocks) if rng.integers(4) else None
    borders = [Border(rows[-1], Var("k", 3), -1, 1, 1, rows[-1].extent)] if rng.integers(2) else []
    shifted = tuple(bool(rng.integers(3) == 0) for _ in rows) if rng.integers(2) else ()
    vectors, whole = int(rng.integers(1, 9)), bool(rng.integers(2))
    found = best_tile(target, vectors, rows, reads, whole, borders, shifted)
    monkeypatch.setattr(split_k_tile, "_best_tile", lambda t, v, most, *others: exhaustive(t, v, most, *others))
    expected = best_tile(target, vectors, rows, reads, whole, borders, shifted)
    assert found[1:] == expected[1:]
    assert found[0] == pytest.approx(expected[0], rel=1e-12)


def test_rows_at_the_same_place_of_a_cache_evict_each_other():
    """Planes of 64x64 floats start in the same set of the first-level cache, of 12 ways; padded ones do not."""
    row = Var("i", 64)
    even, odd = (Load(Buffer("x", np.dtype("f4"), 64 * n, "external"), as_index(row) * n) for n in (64 * 64, 68 * 68))
    assert AVX512.l1.ways == 12
    assert evicted_lines(AVX512, even, (row,), (17,)) == 17
    assert evicted_lines(AVX512, even, (row,), (16,)) == 0
    assert evicted_lines(AVX512, odd, (row,), (17,)) == 0


def test_every_step_reads_lines_again_that_evict_each_other():
    """Two tiles of 17 rows, of planes as far apart as lines that meet in a cache, or a little farther."""
    rows = [split_k_tile._Rows(34, ())]
    even, odd = (TileReads(AVX512, (apart,), ((4, 16),), (1,)) for apart in (4096, 4160))
    again = 2 * 17 * AVX512.line_bytes / AVX512.l2_bytes_per_cycle
    assert even.cycles(rows, (17,), 1) == again
    assert odd.cycles(rows, (17,), 1) <= again / 16
    assert even.cycles(rows, (16,), 1) <= again / 16


@pytest.mark.parametrize(("size", "padded"), [(64, True), (63, False)])
def test_an_image_whose_planes_evict_each_other_is_read_with_its_padding(size, padded):
    x, ct = param("x", (1, 68, size, size)), param("ct", (1, 13, size, size))
    operator = Conv2dWeightGradient((1, 1), (2, 2), (1, 1), 1, (5, 5))
    function = after_graph_passes(Function("f", (x, ct), (apply(operator, x, ct),)))
    context, found = contractions_of(function, AVX512, value_names(function))
    (made,) = found.values()
    plan = plan_channel_lanes(context, made.contraction)
    assert plan is not None
    assert plan.tile == (17, 1, 1)
    assert (plan.contraction.right.buffer is not context.buffers[x]) == padded
