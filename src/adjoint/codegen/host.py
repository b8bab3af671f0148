"""Facts about this machine that LLVM does not provide: its caches, memory and the name of its CPU."""

import ctypes
import os
import platform
import sys
from pathlib import Path

from adjoint.kernel.target import Cache

__all__ = ["host_caches", "host_memory", "host_model"]

#: Directory in which Linux describes the caches of a core.
_SYSFS = Path("/sys/devices/system/cpu/cpu0/cache")
#: File in which Linux describes the CPUs.
_CPUINFO = Path("/proc/cpuinfo")
#: macOS's names of cache sizes by level, those of performance cores first.
_SYSCTL = {
    1: ("hw.perflevel0.l1dcachesize", "hw.l1dcachesize"),
    2: ("hw.perflevel0.l2cachesize", "hw.l2cachesize"),
    3: ("hw.l3cachesize",),
}
#: Associativity assumed if the system does not report it.
_WAYS = 8


def host_caches(directory: Path = _SYSFS) -> tuple[Cache, ...]:
    """The data caches of a core of this machine, fastest first; empty if the system does not report them.

    Parameters
    ----------
    directory : Path
        Directory in which Linux describes the caches of a core.
    """
    found = _sysctl_caches() if sys.platform == "darwin" else _sysfs_caches(directory)
    return found if len(found) > 1 else ()


def host_memory() -> int | None:
    """Bytes of this machine's memory; None if the system does not report them."""
    known = getattr(os, "sysconf_names", {})
    if not {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= set(known):
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def host_model(path: Path = _CPUINFO) -> str:
    """The name that this machine's CPU gives itself; empty if the system does not report it.

    Parameters
    ----------
    path : Path
        File in which Linux describes the CPUs.
    """
    lines = path.read_text().splitlines() if path.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor()


def _sysfs_caches(directory: Path) -> tuple[Cache, ...]:
    found: dict[int, tuple[int, int, str]] = {}
    for index in sorted(directory.glob("index*")):
        try:
            names = ("level", "type", "size", "ways_of_associativity", "shared_cpu_list")
            level, kind, size, ways, cpus = ((index / name).read_text().strip() for name in names)
            if kind != "Instruction":
                found[int(level)] = (int(size.removesuffix("K")) << 10, int(ways) or _WAYS, cpus)
        except (OSError, ValueError):
            continue
    # Hardware threads of one core share its L1 cache too, so a cache counts as shared if more CPUs than those use it.
    own = found[min(found)][2] if found else ""
    return tuple(Cache(level, size, ways, cpus != own) for level, (size, ways, cpus) in sorted(found.items()))


def _sysctl_caches() -> tuple[Cache, ...]:
    caches = []
    for level, names in _SYSCTL.items():
        size = next((n for n in map(_sysctl, names) if n), 0)
        if size:
            caches.append(Cache(level, size, _WAYS, level > 1))
    return tuple(caches)


def _sysctl(name: str) -> int:
    """An integer from macOS's sysctl; 0 if there is none of that name."""
    value, size = ctypes.c_int64(0), ctypes.c_size_t(8)
    failed = ctypes.CDLL(None).sysctlbyname(name.encode(), ctypes.byref(value), ctypes.byref(size), None, 0)
    return 0 if failed else value.value
