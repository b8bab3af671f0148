"""The machine's peaks: what the probes do, the roofline, and how figures are kept. No figure is asserted."""

import datetime
import json
import platform

import numpy as np
import pytest

from adjoint.codegen.targets import target_for
from adjoint.compiler import host
from adjoint.errors import InvalidValueError
from adjoint.kernel.verifier import verify_kernel
from adjoint.profiling import machine
from adjoint.profiling.machine import Level, Peaks, keep_peaks, machine_peaks, measure_peaks, stored_peaks
from adjoint.profiling.probes import best_nanoseconds, multiply_adds, reads, tile, triad
from adjoint.runtime.cache import CacheWarning
from adjoint.testing.rounding import unit_roundoff
from tests.closeness import within
from tests.profiling.steps import PEAKS


@pytest.mark.parametrize("x", [0.5, 0.25])
def test_the_arithmetic_probe_multiplies_and_adds_until_nothing_changes(x):
    probe = multiply_adds(host())
    given, made = (np.full(size, x, np.float32) for size in probe.sizes)
    best_nanoseconds(probe.library, [given, made], 0.0)
    np.testing.assert_allclose(made, x / (1 - x), rtol=1e-6)
    # Two operations for each element of each round.
    assert probe.amount % (2 * made.size) == 0


def test_the_stream_probe_is_a_triad():
    probe = triad(60_000, host())
    rng = np.random.default_rng(0)
    a, b, c = (rng.standard_normal(size).astype(np.float32) for size in probe.sizes)
    best_nanoseconds(probe.library, [a, b, c], 0.0)
    b, c = b.astype(np.float64), c.astype(np.float64)
    within(a, b + b[0] * c, 2 * unit_roundoff("f4") * (abs(b) + abs(b[0] * c)))
    assert 55_000 < sum(4 * size for size in probe.sizes) <= 60_000
    assert probe.amount % (4 * sum(probe.sizes)) == 0


def test_the_reading_probe_adds_up_all_that_it_reads():
    probe = reads(60_000, host())
    rng = np.random.default_rng(0)
    given, sums = (rng.standard_normal(size).astype(np.float32) for size in probe.sizes)
    best_nanoseconds(probe.library, [given, sums], 0.0)
    rounds = probe.amount / given.nbytes
    assert rounds == int(rounds)
    # Every sum starts from the first vector.
    lanes = host().lanes(np.dtype("f4"))
    wide = given.astype(np.float64)
    start = np.tile(wide[:lanes], sums.size // lanes)
    wanted, most = (f(wide).reshape(-1, sums.size).sum(axis=0) * rounds for f in (np.asarray, np.abs))
    count = rounds * given.size / sums.size
    within(sums, start + wanted, (count + 1) * unit_roundoff("f4") * (abs(start) + most))
    assert 55_000 < given.nbytes <= 60_000


def test_the_tile_probe_is_a_matrix_product():
    probe = tile(20_000, host())
    rng = np.random.default_rng(0)
    left, right, made = (rng.standard_normal(size).astype(np.float32) for size in probe.sizes)
    best_nanoseconds(probe.library, [left, right, made], 0.0)
    lanes, depth = host().lanes(np.dtype("f4")), right.size // (2 * host().lanes(np.dtype("f4")))
    x, y = left.reshape(depth, -1).T.astype(np.float64), right.reshape(depth, -1).astype(np.float64)
    rounds = probe.amount / (2 * x.shape[0] * y.size)
    assert rounds == int(rounds)
    start = np.tile(right[:lanes].astype(np.float64), 2)  # every sum starts from the first vector
    most = abs(start) + rounds * (abs(x) @ abs(y))
    within(made.reshape(x.shape[0], -1), start + rounds * (x @ y), rounds * depth * unit_roundoff("f4") * most)
    assert 19_000 < left.nbytes + right.nbytes <= 20_000


def test_a_measurement_has_every_level_and_ends_with_memory(monkeypatch):
    monkeypatch.setattr(machine, "_MOST", 1 << 20)  # no figure is asserted, and large arrays take seconds
    peaks = measure_peaks(host(), threads=2, seconds=0.001)
    names = [f"L{cache.level}" for cache in host().caches]
    assert [level.name for level in peaks.levels] == [*names, "memory"]
    assert peaks.levels[-1].nbytes is None
    assert all(rate > 0 for rate in (peaks.gflops, peaks.tile_gflops, *(level.gbytes for level in peaks.levels)))
    rates = [level.gbytes for level in peaks.levels]
    assert rates == sorted(rates, reverse=True)
    assert peaks.machine == platform.node()
    assert abs(datetime.date.fromisoformat(peaks.date) - datetime.date.today()) <= datetime.timedelta(days=1)
    assert (peaks.threads, peaks.cpu, peaks.vector_bits) == (2, host().cpu, 8 * host().vector_bytes)
    assert Peaks.from_dict(json.loads(json.dumps(peaks.as_dict()))) == peaks


def test_the_least_time_is_the_longer_of_arithmetic_and_transfer():
    assert PEAKS.nanoseconds(1000, 100) == 10.0  # 1000 operations at 100 a nanosecond
    assert PEAKS.nanoseconds(1000, 10_000) == 200.0  # 10 kB from the cache
    assert PEAKS.nanoseconds(1000, 10_001) == pytest.approx(200.02)  # one byte more comes from memory, meanwhile
    assert PEAKS.nanoseconds(1000, 30_000) == 2000.0  # all but 10 kB come from memory
    # 10 kB of what is written can stay in the cache too, and the other 20 kB and 5 kB cannot.
    assert PEAKS.nanoseconds(1000, 30_000, 15_000) == 2500.0
    assert [PEAKS.level(n).name for n in (10_000, 12_000, 13_000)] == ["L1", "L1", "memory"]


@pytest.mark.parametrize("work", [(4000, 100, 0, 20.0), (0, 10_000, 0, 100.0), (0, 30_000, 15_000, 500.0)])
def test_peaks_that_allow_a_time_are_no_higher_than_needed(work):
    *amounts, nanoseconds = work
    raised = PEAKS.reaching(*amounts, nanoseconds)
    assert PEAKS.nanoseconds(*amounts) > nanoseconds
    assert raised.nanoseconds(*amounts) == pytest.approx(nanoseconds)
    assert raised.best_of(PEAKS) == raised
    assert PEAKS.reaching(*amounts, 1e6) == PEAKS


@pytest.mark.parametrize("name", ["host", "avx512", "avx2", "sse2", "neon", "rvv"])
def test_probes_are_kernels_by_the_rules_at_every_vector_width(monkeypatch, name):
    made = []
    monkeypatch.setattr("adjoint.profiling.probes.compile_native", lambda *_: ())
    monkeypatch.setattr("adjoint.profiling.probes.Library", lambda *_: None)
    monkeypatch.setattr("adjoint.profiling.probes.emit_modules", lambda program, _: made.extend(program.kernels))
    multiply_adds(target_for(name))
    tile(20_000, target_for(name))
    triad(100_000, target_for(name))
    reads(100_000, target_for(name))
    assert len(made) == 4
    for kernel in made:
        verify_kernel(kernel)


@pytest.fixture
def measured(monkeypatch):
    """Measuring is counted, and gives what the test wants."""
    calls = []

    def measure(_, threads):
        calls.append(threads)
        return Peaks("made-up", 256, threads, 100.0 / len(calls), (Level("memory", None, 10.0 * len(calls)),))

    monkeypatch.setattr(machine, "measure_peaks", measure)
    return calls


def test_peaks_are_measured_once_for_each_number_of_threads(measured, tmp_path):
    first = machine_peaks(host(), directory=tmp_path)
    assert machine_peaks(host(), directory=tmp_path) == first
    machine_peaks(host(), threads=2, directory=tmp_path)
    assert measured == [1, 2]


@pytest.mark.usefixtures("measured")
def test_measuring_again_keeps_the_higher_of_each(tmp_path):
    machine_peaks(host(), directory=tmp_path)
    again = machine_peaks(host(), again=True, directory=tmp_path)
    assert (again.gflops, again.levels[0].gbytes) == (100.0, 20.0)
    assert machine_peaks(host(), directory=tmp_path) == again


@pytest.mark.parametrize(
    "content",
    [b"", b"{}", b"[1]", b"\xff", json.dumps({**PEAKS.as_dict(), "gflops": -1.0}).encode(),
     json.dumps({**PEAKS.as_dict(), "levels": []}).encode()],
)  # fmt: skip
def test_a_damaged_file_is_measured_anew(measured, tmp_path, content):
    machine_peaks(host(), directory=tmp_path)
    (path,) = tmp_path.iterdir()
    path.write_bytes(content)
    assert machine_peaks(host(), directory=tmp_path).gflops == 50.0
    assert measured == [1, 1]


@pytest.mark.usefixtures("measured")
def test_peaks_that_cannot_be_kept_are_used_all_the_same(tmp_path):
    (tmp_path / "file").write_bytes(b"")
    with pytest.warns(CacheWarning, match="peaks are not kept"):
        assert machine_peaks(host(), directory=tmp_path / "file").gflops == 100.0


def test_no_threads_are_refused():
    with pytest.raises(InvalidValueError, match="threads is at least 1, got 0"):
        measure_peaks(host(), threads=0)


def test_kept_peaks_never_fall_and_are_found_again(tmp_path):
    assert stored_peaks(host(), 1, tmp_path) is None
    assert keep_peaks(host(), PEAKS, tmp_path) == PEAKS
    raised = PEAKS.reaching(4000, 10_000, 0, 20.0)
    assert keep_peaks(host(), raised, tmp_path) == raised
    assert keep_peaks(host(), PEAKS, tmp_path).gflops == raised.gflops
    assert stored_peaks(host(), 1, tmp_path) == raised
    assert machine_peaks(host(), directory=tmp_path) == raised


def test_peaks_of_other_levels_replace_the_stored_ones(tmp_path):
    keep_peaks(host(), PEAKS, tmp_path)
    other = Peaks("made-up", 256, 1, 1.0, PEAKS.levels[1:])
    assert keep_peaks(host(), other, tmp_path) == other
