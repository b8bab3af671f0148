"""``torch.backends.cuda``: flags without an effect."""

from types import SimpleNamespace

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.accelerators import cuda

__all__ = ["is_built", "matmul"]

is_built = cuda.is_built

#: Can be set, as in ``torch.backends.cuda.matmul.allow_tf32 = True``.
matmul = SimpleNamespace(allow_tf32=False)

__getattr__ = uncovered(__name__, {}, "adjoint, which has no such settings; leave it out")
