"""Inputs too long to record: the recorder and the tests make them from the same formula."""

from collections.abc import Iterator
from itertools import pairwise

import numpy as np


def long_gradients(size: int) -> np.ndarray:
    """Float32 gradients of 1000 steps."""
    t, i = np.meshgrid(np.arange(1000), np.arange(size), indexing="ij")
    return (np.sin(0.37 * t * (1 + 0.1 * i)) + 0.3 * np.cos(0.011 * t) + 0.1).astype(np.float32)


SIZES, BATCH = (784, 128, 128, 10), 64


def mlp_start() -> dict[str, np.ndarray]:
    """He-normal weights and zero biases of the tutorial's MLP."""
    rng = np.random.default_rng(21)
    params = {}
    for i, (fan_in, fan_out) in enumerate(pairwise(SIZES)):
        params[f"w{i}"] = (rng.standard_normal((fan_in, fan_out)) * np.sqrt(2 / fan_in)).astype(np.float32)
        params[f"b{i}"] = np.zeros(fan_out, np.float32)
    return params


def mlp_batches(count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images of noise and a pattern of their class, with the class."""
    rng = np.random.default_rng(22)
    pattern = rng.standard_normal((10, 784))
    for _ in range(count):
        y = rng.integers(0, 10, BATCH)
        yield (0.25 * rng.standard_normal((BATCH, 784)) + 0.05 * pattern[y]).astype(np.float32), y
