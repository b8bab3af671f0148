"""``torch.backends.mps``: there is no such device."""

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import mps

__all__ = ["is_available", "is_built"]

is_available = is_built = mps.is_available

__getattr__ = uncovered(__name__, {}, "adjoint, which has no such settings; leave it out")
