"""Networks for images."""

from typing import Any

import numpy as np

from benchmarks.model_zoo.entry import BATCHES, Network, supervised

__all__ = ["NETWORKS"]


def _images(rng: np.random.Generator, shape: tuple[int, ...], classes: int = 10) -> list[tuple[np.ndarray, ...]]:
    """Batches of noise with a pattern of the image's class, and the classes."""
    patterns = rng.standard_normal((classes, *shape[1:])) / 4
    labels = rng.integers(0, classes, (BATCHES, shape[0]))
    return [((rng.standard_normal(shape) / 2 + patterns[y]).astype(np.float32), y) for y in labels]


def _sgd(example: Any, parameters: Any) -> Any:
    return example.torch.optim.SGD(parameters, lr=0.01, momentum=0.9)


def _cross_entropy(example: Any, logits: Any, labels: Any) -> Any:
    return example.F.cross_entropy(logits, labels)


NETWORKS = (
    Network(
        "lenet",
        "lenet",
        supervised(lambda m: m.LeNet(), _sgd, _cross_entropy),
        lambda rng: _images(rng, (64, 1, 28, 28)),
    ),
    Network(
        "resnet20",
        "resnet",
        supervised(lambda m: m.ResNet(channels=3), _sgd, _cross_entropy),
        lambda rng: _images(rng, (32, 3, 32, 32)),
    ),
)
