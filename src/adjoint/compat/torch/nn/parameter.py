"""``torch.nn.parameter``."""

from adjoint.compat.uncovered import uncovered
from adjoint.tensor.tensor import Parameter

__all__ = ["Parameter"]

__getattr__ = uncovered(__name__, {"Buffer": "use register_buffer"}, "adjoint.nn")
