"""Sequences of different lengths, as ``torch.nn.utils.rnn``."""

from adjoint.compat.uncovered import uncovered
from adjoint.missing import INSTEAD
from adjoint.nn.utils import rnn as native
from adjoint.nn.utils.rnn import *  # noqa: F403

__all__ = [*native.__all__]

__getattr__ = uncovered(__name__, INSTEAD.get("adjoint.nn.utils.rnn", {}), "adjoint.nn.utils.rnn")
