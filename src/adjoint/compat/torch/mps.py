"""``torch.mps``: there is no such device, so what asks about it is answered, and the rest does nothing."""

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import mps as _absent

__all__ = ["device_count", "empty_cache", "is_available", "manual_seed", "synchronize"]

device_count = _absent.device_count
empty_cache = _absent.empty_cache
is_available = _absent.is_available
manual_seed = _absent.manual_seed
synchronize = _absent.synchronize

__getattr__ = uncovered(__name__, {}, "adjoint, which computes on the CPU; call it only if torch.mps.is_available()")
