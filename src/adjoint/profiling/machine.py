"""Measured limits of this machine: multiply-adds per second, and bytes per second from each level of memory."""

import datetime
import hashlib
import json
import platform
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from adjoint.codegen.targets import host_target
from adjoint.errors import CacheError, InvalidValueError
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.paths import cache_dir, write_whole
from adjoint.profiling.probes import multiply_adds, reads, tile, triad
from adjoint.runtime.cache import CacheWarning

__all__ = ["Level", "Peaks", "keep_peaks", "machine_peaks", "measure_peaks", "stored_peaks"]

#: Seconds per measurement, long enough to reach the machine's peak; all of them take about two seconds.
_SECONDS = 0.05

#: Limits in bytes of the arrays for measuring memory, which otherwise have four times the size of the last cache.
_LEAST, _MOST = 32 << 20, 512 << 20


@dataclass(frozen=True, slots=True)
class Level:
    """A level of memory.

    Parameters
    ----------
    name : str
        ``L1``, ``L2``, ... or ``memory``.
    nbytes : int or None
        Its capacity, the caches of all threads together; None for memory.
    gbytes : float
        Billions of bytes per second: the most that reading or a triad reached.
    """

    name: str
    nbytes: int | None
    gbytes: float


@dataclass(frozen=True, slots=True)
class Peaks:
    """The limits of some cores of a machine: the roofline.

    Parameters
    ----------
    cpu : str
        LLVM's name of the CPU.
    vector_bits : int
        Width of a vector register.
    threads : int
        Number of threads that ran at once.
    gflops : float
        Billions of floating-point operations per second, counting f32 multiply-adds as two.
    levels : tuple of Level
        From the fastest to memory, which is always included.
    machine, date : str
        Name of the machine and date of the last measurement, as ``2026-11-22``; empty if unknown.
    tile_gflops : float
        As `gflops`, but of the innermost loop of a matrix product, whose operands are in the first-level cache; 0 if
        unknown.
    """

    cpu: str
    vector_bits: int
    threads: int
    gflops: float
    levels: tuple[Level, ...]
    machine: str = ""
    date: str = ""
    tile_gflops: float = 0.0

    def level(self, read: float, written: float = 0.0) -> Level:
        """The level of memory that takes longest for the given bytes; see `nanoseconds`."""
        return max(self._transfers(read, written), key=lambda transfer: transfer[1])[0]

    def nanoseconds(self, flops: float, read: float, written: float = 0.0) -> float:
        """The minimum time for some operations on some bytes: the roofline, as a time.

        Operations and the transfers from all levels overlap, so the longest of them counts. All bytes come through the
        first level. Of what is read, as much as the nearer levels hold can be there already when a kernel starts, and
        of what is written, as much can remain there when it ends. Only the rest has to come from a level behind them.
        """
        return max(flops / self.gflops, *(time for _, time in self._transfers(read, written)))

    def reaching(self, flops: float, read: float, written: float, nanoseconds: float) -> "Peaks":
        """These peaks, raised as far as needed to allow so much work in that time."""
        levels = tuple(
            replace(level, gbytes=max(level.gbytes, time * level.gbytes / nanoseconds))
            for level, time in self._transfers(read, written)
        )
        return replace(self, gflops=max(self.gflops, flops / nanoseconds), levels=levels)

    def _transfers(self, read: float, written: float) -> Iterator[tuple[Level, float]]:
        """Each level and the minimum time in nanoseconds for what has to come from it."""
        held = 0
        for level in self.levels:
            yield level, (max(read - held, 0.0) + max(written - held, 0.0)) / level.gbytes
            held = level.nbytes or 0

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Peaks":
        """The inverse of `as_dict`.

        Raises
        ------
        KeyError, TypeError, ValueError
            If the data is malformed.
        """
        levels = tuple(
            Level(str(one["name"]), None if one["nbytes"] is None else int(one["nbytes"]), float(one["gbytes"]))
            for one in data["levels"]
        )
        rates = [float(data["gflops"]), *(level.gbytes for level in levels)]
        if not all(0 < rate < float("inf") for rate in rates) or not levels or levels[-1].nbytes is not None:
            raise ValueError("rates are positive and the last level is memory")
        cpu, bits, threads = str(data["cpu"]), int(data["vector_bits"]), int(data["threads"])
        name, date, product = str(data.get("machine", "")), str(data.get("date", "")), float(data.get("tile_gflops", 0))
        return cls(cpu, bits, threads, rates[0], levels, name, date, product)

    def best_of(self, other: "Peaks") -> "Peaks":
        """The higher of each number, because a machine that was slowed down is not slower in principle."""
        levels = tuple(
            a if a.gbytes >= b.gbytes else b for a, b in zip(self.levels, other.levels, strict=True)
        )  # fmt: skip
        gflops, product = max(self.gflops, other.gflops), max(self.tile_gflops, other.tile_gflops)
        return replace(self, gflops=gflops, levels=levels, tile_gflops=product)


def measure_peaks(target: Target, threads: int = 1, seconds: float = _SECONDS) -> Peaks:
    """Measure the limits of this machine.

    Parameters
    ----------
    target : Target
        The compilation target: this machine, with the desired vector width.
    threads : int, default 1
        Number of threads that run at once and share resources, above all memory bandwidth.
    seconds : float, default 0.05
        Time per measurement, of which the best moment counts.
    """
    if threads < 1:
        raise InvalidValueError(f"measure_peaks: threads is at least 1, got {threads}")
    gflops = multiply_adds(target).best(seconds, threads) / 1e9
    caches = host_target().caches
    product = tile(caches[0].nbytes // 2, target).best(seconds, threads) / 1e9
    levels: list[Level] = []
    nearer = 0
    for cache in caches:
        share = threads if cache.shared else 1
        # Half of a cache, so that other data does not evict the arrays. A cache behind others is also measured with
        # little more than these hold: the last one is often shared with other programs, which leave only a part of it.
        sizes = {cache.nbytes // (2 * share), min(2 * nearer, cache.nbytes // (2 * share))} - {0}
        levels.append(Level(f"L{cache.level}", cache.nbytes * threads // share, _rate(sizes, target, threads, seconds)))
        nearer = cache.nbytes
    total = min(max(4 * caches[-1].nbytes, _LEAST), _MOST)
    levels.append(Level("memory", None, _rate({total // threads}, target, threads, seconds)))
    # What comes from a level passes through the nearer ones, which are at least as fast.
    for position in reversed(range(len(caches))):
        fastest = max(levels[position].gbytes, levels[position + 1].gbytes)
        levels[position] = replace(levels[position], gbytes=fastest)
    today = datetime.datetime.now(datetime.UTC).date().isoformat()
    bits = 8 * target.vector_bytes
    return Peaks(target.cpu, bits, threads, gflops, tuple(levels), platform.node(), today, product)


def _rate(sizes: Iterable[int], target: Target, threads: int, seconds: float) -> float:
    """The most billions of bytes per second of any access pattern, over arrays of any of the sizes in bytes."""
    probes = [make(size, target) for size in sizes for make in (triad, reads)]
    return max(probe.best(seconds, threads) for probe in probes) / 1e9


def machine_peaks(target: Target, threads: int = 1, again: bool = False, directory: Path | None = None) -> Peaks:
    """The limits of this machine, from the cache directory, or measured and stored there.

    Parameters
    ----------
    target : Target
        As in `measure_peaks`.
    threads : int, default 1
        As in `measure_peaks`.
    again : bool, default False
        Measure even if there are stored numbers, and keep the higher of each.
    directory : Path, optional
        Directory of the stored numbers; default: ``peaks`` in adjoint's cache directory.
    """
    known = stored_peaks(target, threads, directory)
    if known is not None and not again:
        return known
    return keep_peaks(target, measure_peaks(target, threads), directory)


def keep_peaks(target: Target, peaks: Peaks, directory: Path | None = None) -> Peaks:
    """Store limits, or of what is stored already the higher of each number; returns what is stored now.

    Parameters
    ----------
    target : Target
        As in `measure_peaks`.
    peaks : Peaks
        The limits.
    directory : Path, optional
        As in `machine_peaks`.
    """
    known = stored_peaks(target, peaks.threads, directory)
    if known is not None and [level.name for level in known.levels] == [level.name for level in peaks.levels]:
        peaks = peaks.best_of(known)
    try:
        write_whole(_path(target, peaks.threads, directory), json.dumps(peaks.as_dict(), indent=2).encode())
    except CacheError as error:
        warnings.warn(f"the machine's peaks are not kept: {error.message}", CacheWarning, stacklevel=3)
    return peaks


def stored_peaks(target: Target, threads: int = 1, directory: Path | None = None) -> Peaks | None:
    """The stored limits, or None if there are none or their file is invalid; parameters as for `machine_peaks`."""
    try:
        return Peaks.from_dict(json.loads(_path(target, threads, directory).read_bytes()))
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _path(target: Target, threads: int, directory: Path | None) -> Path:
    """The file of the numbers, named by a digest of the target and the number of threads."""
    whole = f"4|{target.key}|{threads}"
    digest = hashlib.sha256(whole.encode()).hexdigest()[:32]
    return (directory or cache_dir() / "peaks") / f"{digest}.json"
