"""``torch.accelerator``: there is none."""

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import accelerator as _absent

__all__ = ["current_accelerator", "device_count", "is_available", "synchronize"]

current_accelerator = _absent.current_accelerator
device_count = _absent.device_count
is_available = _absent.is_available
synchronize = _absent.synchronize

__getattr__ = uncovered(__name__, {}, "adjoint, which computes on the CPU; call it only if there is an accelerator")
