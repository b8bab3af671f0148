"""Measured limits of this machine: multiply-adds per second, and bytes per second from each level of memory."""

import hashlib
import json
import warnings
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from adjoint.codegen.targets import host_target
from adjoint.errors import CacheError, InvalidValueError
from adjoint.kernel.target import Target
from adjoint.paths import cache_dir, write_whole
from adjoint.profiling.probes import multiply_adds, triad
from adjoint.runtime.cache import CacheWarning

__all__ = ["Level", "Peaks", "machine_peaks", "measure_peaks"]

#: Seconds per measurement, long enough to reach the machine's peak; all of them take half a second.
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
        Billions of bytes per second that a triad reached.
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
    """

    cpu: str
    vector_bits: int
    threads: int
    gflops: float
    levels: tuple[Level, ...]

    def level(self, nbytes: int) -> Level:
        """The fastest level that can hold that many bytes."""
        return next(level for level in self.levels if level.nbytes is None or nbytes <= level.nbytes)

    def nanoseconds(self, flops: float, nbytes: int) -> float:
        """The minimum time for some operations on some bytes: the roofline, as a time.

        The bytes come from the fastest level that can hold them all; operations and transfers overlap.
        """
        return max(flops / self.gflops, nbytes / self.level(nbytes).gbytes)

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
        return cls(str(data["cpu"]), int(data["vector_bits"]), int(data["threads"]), rates[0], levels)

    def best_of(self, other: "Peaks") -> "Peaks":
        """The higher of each number, because a machine that was slowed down is not slower in principle."""
        levels = tuple(
            a if a.gbytes >= b.gbytes else b for a, b in zip(self.levels, other.levels, strict=True)
        )  # fmt: skip
        return Peaks(self.cpu, self.vector_bits, self.threads, max(self.gflops, other.gflops), levels)


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
    levels = []
    caches = host_target().caches
    for cache in caches:
        # Half of a cache, so that other data does not evict the arrays.
        share = threads if cache.shared else 1
        rate = triad(cache.nbytes // (2 * share), target).best(seconds, threads) / 1e9
        levels.append(Level(f"L{cache.level}", cache.nbytes * threads // share, rate))
    total = min(max(4 * caches[-1].nbytes, _LEAST), _MOST)
    levels.append(Level("memory", None, triad(total // threads, target).best(seconds, threads) / 1e9))
    return Peaks(target.cpu, 8 * target.vector_bytes, threads, gflops, tuple(levels))


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
    path = (directory or cache_dir() / "peaks") / f"{_key(target, threads)}.json"
    known = _read(path)
    if known is not None and not again:
        return known
    peaks = measure_peaks(target, threads)
    if known is not None and len(known.levels) == len(peaks.levels):
        peaks = peaks.best_of(known)
    try:
        write_whole(path, json.dumps(peaks.as_dict(), indent=2).encode())
    except CacheError as error:
        warnings.warn(f"the machine's peaks are not kept: {error.message}", CacheWarning, stacklevel=2)
    return peaks


def _read(path: Path) -> Peaks | None:
    """The limits stored in a file, or None if there are none or they are invalid."""
    try:
        return Peaks.from_dict(json.loads(path.read_bytes()))
    except (OSError, KeyError, TypeError, ValueError):
        return None


def _key(target: Target, threads: int) -> str:
    """A name for the numbers: a digest of the target and the number of threads."""
    whole = f"2|{target.key}|{threads}"
    return hashlib.sha256(whole.encode()).hexdigest()[:32]
