"""Inputs too long to record: the recorder and the tests make them from the same formula."""

import numpy as np


def long_gradients(size: int) -> np.ndarray:
    """Float32 gradients of 1000 steps."""
    t, i = np.meshgrid(np.arange(1000), np.arange(size), indexing="ij")
    return (np.sin(0.37 * t * (1 + 0.1 * i)) + 0.3 * np.cos(0.011 * t) + 0.1).astype(np.float32)
