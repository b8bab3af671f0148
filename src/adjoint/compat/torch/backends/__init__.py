"""``torch.backends``: settings of libraries that are not used here; they can be set, and have no effect."""

from adjoint.compat.torch.backends import cuda, cudnn, mkldnn, mps
from adjoint.compat.uncovered import uncovered

__all__ = ["cuda", "cudnn", "mkldnn", "mps"]

__getattr__ = uncovered(__name__, {}, "adjoint, which has no such settings; leave it out")
