"""What training scripts import from ``torch.utils``, under the same names."""

from adjoint.utils import data

__all__ = ["data"]
