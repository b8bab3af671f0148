"""The traffic model: blocks that conflict in a cache, and lines that tiles of a transposed operand share."""

from dataclasses import replace

import numpy as np
import pytest

from adjoint import costs
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Buffer, Load
from adjoint.kernel.target import Cache
from adjoint.lower.contractions.traffic import Block, Reads, Traffic, line_cycles, reads_of
from tests.lower.contractions.test_contractions import AVX512

L1 = Cache(1, 32 << 10, 8)


@pytest.mark.parametrize(
    ("rows", "pitch", "ways", "stays"),
    [
        (8, 4096, 8, True),
        (16, 4096, 8, False),
        (16, 4096, 16, True),
        (64, 4096 + 64, 8, True),
        (600, 4096 + 64, 8, False),
    ],
)
def test_rows_whose_pitch_reaches_few_sets_evict_each_other(rows, pitch, ways, stays):
    """Of a cache of 32 KiB with 8 ways, steps of 4 KiB meet in one set; with 16 ways, a way has 2 KiB."""
    assert Block(rows, 64, pitch).stays_in(Cache(1, 32 << 10, ways), 32 << 10) is stays


def test_a_line_costs_more_the_further_away_it_stays():
    sizes = (16 << 10, 256 << 10, 4 << 20, 64 << 20)
    cycles = [line_cycles(AVX512, Block(1, size, size)) for size in sizes]
    assert cycles[0] == 0
    assert cycles == sorted(set(cycles))


def test_tiles_of_a_transposed_operand_share_lines_while_they_stay():
    """Four rows are a quarter of a line, which three more tiles read."""
    near, far = (Reads(4, pitch, extent=4096, depth=512, itemsize=4, nbytes=8 << 20) for pitch in (4096 + 64, 1 << 16))
    assert near.lines(AVX512, 4, steps=128) == (0.25, 0.0)
    assert near.lines(AVX512, 4, steps=512) == (0.25, 0.0)
    assert near.lines(AVX512, 4, steps=4096) == (0.25, 1 - 4 / 64)
    assert far.lines(AVX512, 4, steps=4096) == (0.25 + 1 - 4 / 64, 0.0)


def test_packing_takes_away_what_a_transposed_operand_waits_for():
    transposed = Reads(across=4, along=8192, extent=2048, depth=1024, itemsize=4, nbytes=8 << 20)
    right = Reads(across=4, along=4096, extent=1024, depth=1024, itemsize=4, nbytes=4 << 20)
    waits = [sum(Traffic(AVX512, transposed, right, packed, True, 16, 4).step_cycles(8, 3, "columns"))
             for packed in (False, True)]  # fmt: skip
    assert waits[1] < waits[0] / 2


def test_rows_apart_are_exposed_more_than_runs_where_schedulers_are_small():
    mesh = replace(AVX512, scheduler_entries=48, l3_latency=70)
    assert [costs.exposed_transfers(AVX512, apart) for apart in (False, True)] == [costs.EXPOSED_TRANSFERS] * 2
    assert costs.exposed_transfers(AVX512) < costs.exposed_transfers(mesh) < costs.exposed_transfers(mesh, True)


def test_tiles_wait_for_rows_that_no_prefetcher_follows(monkeypatch):
    """On a CPU whose schedulers are full before a line arrives, where they read a matrix again from beyond L2."""
    mesh = replace(AVX512, scheduler_entries=48, l3_latency=70)
    left = Reads(across=4, along=8256, extent=2064, depth=1024, itemsize=4, nbytes=8 << 20)
    right = Reads(across=4, along=4160, extent=1040, depth=1024, itemsize=4, nbytes=4 << 20)

    monkeypatch.setattr(costs, "exposed_transfers", lambda *_: 0.0)
    monkeypatch.setattr(costs, "PAGE_CYCLES", 0.0)

    def stalls(target, left, right_packed=True, left_packed=False, rows=8, order="columns"):
        return Traffic(target, left, right, left_packed, right_packed, 16, 4).step_cycles(rows, 2, order)[2]

    # Of 48 entries, 18 are of one step, so that the loads of 2.7 steps are on their way; 70 - 48 / 2 cycles are left.
    assert stalls(mesh, left) == pytest.approx(8 * 4 / 64 * 46 / (48 / 18))
    assert stalls(AVX512, left) == stalls(mesh, left, left_packed=True) == 0
    assert stalls(mesh, left, order="rows") == 0  # the block of rows stays in L2, and the next one is prefetched
    assert stalls(mesh, replace(left, along=512)) == 0  # lines that are skipped are near
    assert stalls(mesh, replace(left, depth=8)) == 0  # streams on a few pages
    assert stalls(mesh, replace(left, across=4096, along=4)) == 0  # contiguous along k
    assert stalls(mesh, left, right_packed=False, rows=16) == pytest.approx(46 / (48 / 34))


def test_few_rows_wait_for_panels_once():
    """There are no prefetches for them, but the panel stays in L2 for all rows but the first."""
    mesh = replace(AVX512, scheduler_entries=48, l3_latency=70)
    right = Reads(across=4, along=1984, extent=496, depth=1024, itemsize=4, nbytes=2 << 20)

    def waits(rows):
        left = Reads(across=4096, along=4, extent=rows, depth=1024, itemsize=4, nbytes=4096 * rows)
        return Traffic(mesh, left, right, False, False, 16, 4).step_cycles(5, 2, "columns")[2]

    assert waits(5) > 2 * waits(20) > 0


def test_only_what_the_outer_loop_walks_is_prefetched_for_its_first_tile():
    """Of 16 images that stay in L2 one at a time, tiles of the first block of rows wait if that is the outer loop."""
    left = Reads(across=4, along=676, extent=169, depth=320, itemsize=4, nbytes=676 * 320)
    right = Reads(across=4, along=1156, extent=289, depth=320, itemsize=4, nbytes=16 * 1156 * 320)

    near = replace(right, nbytes=1156 * 320)
    mesh = replace(AVX512, scheduler_entries=48, l3_latency=70)

    def first(target, order):
        read = [Traffic(target, left, r, False, False, 16, 4).step_cycles(13, 1, order)[2] for r in (right, near)]
        return read[0] - read[1]

    # The lines of a row wait for 15 cycles, or for what 48 entries of 14 instructions a step do not hide of 70.
    assert first(AVX512, "rows") == pytest.approx(15 / 13)
    assert first(mesh, "rows") == pytest.approx(46 / (48 / 14) / 13)
    assert first(AVX512, "columns") == first(mesh, "columns") == 0


def test_pages_are_looked_up_meanwhile_only_where_schedulers_are_large():
    mesh = replace(AVX512, scheduler_entries=48, l3_latency=70)
    left = Reads(across=4, along=8256, extent=2064, depth=256, itemsize=4, nbytes=2 << 20)
    right = Reads(across=4, along=64, extent=16, depth=256, itemsize=4, nbytes=16 << 10)
    near, far = (
        Traffic(target, left, right, False, True, 16, 4).step_cycles(8, 1, "columns") for target in (AVX512, mesh)
    )
    assert near[0] == costs.PAGE_CYCLES
    assert far[0] == 0
    assert far[2] - near[2] > costs.PAGE_CYCLES


def test_prefetchers_fetch_what_lies_between_short_runs_that_are_close():
    """608 bytes of each row, not only the 128 of a panel; but not the rest of a row of several kilobytes."""
    close = Reads(across=4, along=608, extent=152, depth=2126, itemsize=4, nbytes=20 << 20)
    apart = replace(close, along=4864)
    run = 32 * 4 / costs.far_bytes_per_cycle(AVX512)
    assert close.first(AVX512, 32) == pytest.approx(608 / 128 * run)
    assert apart.first(AVX512, 32) == pytest.approx(costs.FAR_ROW_CYCLES + run)


def test_only_an_operand_with_one_summed_axis_is_a_matrix():
    m, k, t = Var("m", 8), Var("k", 16), Var("t", 3)
    buffer = Buffer("x", np.dtype(np.float32), 8 * 16 * 3, "external")
    load = Load(buffer, as_index(m) * 48 + as_index(k) * 3 + as_index(t))
    assert reads_of(load, m, (k,)) == Reads(192, 12, 8, 16, 4, buffer.nbytes)
    assert reads_of(load, None, (k,)) == Reads(0, 12, 1, 16, 4, buffer.nbytes)
    assert reads_of(load, m, (k, t)) is None


def test_rows_of_sequences_are_read_like_those_of_a_matrix():
    """Gradients of an LSTM's input weight sum over positions, by time in one operand and by sequence in the other."""
    width, batch, time = Var("m", 302), Var("b", 56), Var("t", 16)
    buffer = Buffer("x", np.dtype(np.float32), 302 * 56 * 16, "external")
    by_sequence = Load(buffer, as_index(batch) * 4832 + as_index(time) * 302 + as_index(width))
    by_time = Load(buffer, as_index(time) * 16912 + as_index(batch) * 302 + as_index(width))
    expected = Reads(4, 1208, 302, 896, 4, buffer.nbytes)
    assert reads_of(by_sequence, width, (batch, time)) == reads_of(by_time, width, (batch, time)) == expected


def test_rows_in_memory_are_read_at_its_bandwidth_only_where_they_stream():
    """Panels go down k: each step reaches another page, which nothing has prefetched."""
    far = Reads(across=4, along=12384, extent=3096, depth=4000, itemsize=4, nbytes=50 << 20)
    assert far.first(AVX512, 32) > 2 * far.first(AVX512, 32, "streams") > 0
    part = replace(far, depth=4)
    assert part.first(AVX512, 32) == far.first(AVX512, 32)  # a matrix of a batch that is as large
    assert replace(part, nbytes=200 << 10).first(AVX512, 32) == 0
