"""The search for the register tile of split-K, against one that computes the cost of every tile."""

from dataclasses import replace
from math import ceil, prod

import numpy as np
import pytest

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.lower.contractions import split_k_tile
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.split_k_tile import TileReads, best_tile


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
