"""Built-in datasets: ``fashion_mnist.load_data()``."""

from typing import Any

import numpy as np

from adjoint import data
from adjoint.compat.uncovered import uncovered

__all__ = ["cifar10", "fashion_mnist", "mnist"]
__getattr__ = uncovered(__name__, {}, "adjoint.data")


class _Images:
    """A dataset of images, of bytes."""

    def __init__(self, name: str) -> None:
        self._name = name

    def load_data(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Images and labels for training, then for tests."""
        found: Any = getattr(data, self._name)()
        return (found.train_images, found.train_labels), (found.test_images, found.test_labels)


mnist, fashion_mnist, cifar10 = _Images("mnist"), _Images("fashion_mnist"), _Images("cifar10")
