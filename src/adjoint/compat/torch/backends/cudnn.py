"""``torch.backends.cudnn``: flags without an effect."""

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import backends

__all__ = ["allow_tf32", "benchmark", "deterministic", "enabled", "is_available"]

allow_tf32 = benchmark = deterministic = enabled = False
is_available = backends.cudnn.is_available

__getattr__ = uncovered(__name__, {}, "adjoint, which has no such settings; leave it out")
