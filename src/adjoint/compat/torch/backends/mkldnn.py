"""``torch.backends.mkldnn``: flags without an effect."""

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import backends

__all__ = ["enabled", "is_available"]

enabled = False
is_available = backends.mkldnn.is_available

__getattr__ = uncovered(__name__, {}, "adjoint, which has no such settings; leave it out")
