"""Helpers."""

import random
from typing import Any

import numpy as np

import adjoint
from adjoint.compat.uncovered import uncovered

__all__ = ["set_random_seed", "to_categorical"]
__getattr__ = uncovered(__name__, {}, "adjoint")


def set_random_seed(seed: int) -> None:
    """Seed Python, NumPy and adjoint."""
    random.seed(seed)
    np.random.seed(seed)
    adjoint.manual_seed(seed)


def to_categorical(x: Any, num_classes: int | None = None) -> np.ndarray:
    """One-hot rows of class indices, as float64."""
    ids = np.asarray(x, np.int64)
    ids = ids[..., 0] if ids.ndim > 1 and ids.shape[-1] == 1 else ids
    return np.eye(int(ids.max()) + 1 if num_classes is None else num_classes)[ids]
