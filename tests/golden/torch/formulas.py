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


#: Models of networks: settings of `adjoint.models`, optimizer and its settings, steps.
NETWORKS = {
    "lenet": ({"batch_size": 4}, "SGD", {"lr": 0.01, "momentum": 0.9}, 6),
    "resnet20": ({"batch_size": 4, "size": 16}, "SGD", {"lr": 0.01, "momentum": 0.9, "weight_decay": 1e-4}, 5),
    "gpt": (
        {"layers": 2, "heads": 2, "width": 16, "length": 8, "batch_size": 3, "vocabulary": 11},
        "AdamW",
        {"lr": 0.01, "betas": (0.9, 0.99), "weight_decay": 0.1},
        6,
    ),
}


def network_start(shapes: dict[str, tuple[int, ...]]) -> dict[str, np.ndarray]:
    """Scales near 1, shifts near 0, and weights that keep the size of what they are given."""
    rng = np.random.default_rng(23)
    params = {}
    for name, shape in shapes.items():
        drawn = rng.standard_normal(shape)
        if len(shape) == 1:
            scale = name.endswith(("_g", "_ln1", "_ln2", "lnf"))
            params[name] = (scale + 0.1 * drawn).astype(np.float32)
        else:
            fan_in = np.prod(shape[1:]) if len(shape) == 4 else shape[0]
            params[name] = (drawn * np.sqrt(2 / fan_in)).astype(np.float32)
    return params


def network_batches(name: str, count: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Images of noise and a pattern of their class, or texts in which each token follows from the one before."""
    settings, rng = NETWORKS[name][0], np.random.default_rng(24)
    batch = settings["batch_size"]
    if name == "gpt":
        vocabulary, length = settings["vocabulary"], settings["length"]
        for _ in range(count):
            text = (rng.integers(0, vocabulary, (batch, 1)) + 3 * np.arange(length + 1)) % vocabulary
            yield text[:, :-1].copy(), text[:, 1:].reshape(-1).copy()
        return
    shape = (1, 32, 32) if name == "lenet" else (3, settings["size"], settings["size"])
    pattern = rng.standard_normal((10, *shape))
    for _ in range(count):
        y = rng.integers(0, 10, batch)
        yield (0.5 * rng.standard_normal((batch, *shape)) + 0.25 * pattern[y]).astype(np.float32), y
