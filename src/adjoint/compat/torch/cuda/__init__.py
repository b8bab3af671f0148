"""``torch.cuda``: there is no such device, so questions are answered, and commands do nothing."""

from adjoint.compat.torch.cuda import amp
from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import cuda as _absent

__all__ = [
    "amp",
    "current_device",
    "device_count",
    "empty_cache",
    "is_available",
    "is_bf16_supported",
    "is_initialized",
    "manual_seed",
    "manual_seed_all",
    "synchronize",
]

current_device = _absent.current_device
device_count = _absent.device_count
empty_cache = _absent.empty_cache
is_available = is_bf16_supported = is_initialized = _absent.is_available
manual_seed = manual_seed_all = _absent.manual_seed
synchronize = _absent.synchronize

__getattr__ = uncovered(__name__, {}, "adjoint, which computes on the CPU; call it only if torch.cuda.is_available()")
