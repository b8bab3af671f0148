"""``oneflow.cuda``: there is no such device."""

from adjoint.compat.torch.cuda import (
    current_device,
    device_count,
    empty_cache,
    is_available,
    manual_seed,
    manual_seed_all,
    synchronize,
)
from adjoint.compat.uncovered import uncovered

__all__ = [
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]

__getattr__ = uncovered(__name__, {}, "adjoint, which computes on the CPU; call it only if flow.cuda.is_available()")
