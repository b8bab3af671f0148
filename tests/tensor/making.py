"""Tensors for tests, the programs compiled meanwhile, and gradients by finite differences."""

import contextlib

import numpy as np

from adjoint.tensor.explain import log
from adjoint.tensor.tensor import from_array

__all__ = ["compilations", "leaf", "plain"]


def plain(data, dtype=np.float32):
    return from_array(np.array(data, dtype))


def leaf(data, dtype=np.float32):
    return from_array(np.array(data, dtype), requires_grad=True)


@contextlib.contextmanager
def compilations():
    """Within it, a function that returns how many programs have been compiled since."""
    before = log.count
    yield lambda: log.count - before
