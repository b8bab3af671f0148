"""Networks for images."""

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.model_zoo.entry import BATCHES, Compiled, Network, Training, supervised

__all__ = ["NETWORKS"]


def _images(rng: np.random.Generator, shape: tuple[int, ...], classes: int = 10) -> list[tuple[np.ndarray, ...]]:
    """Batches of noise with a pattern of the image's class, and the classes."""
    patterns = rng.standard_normal((classes, *shape[1:])) / 4
    labels = rng.integers(0, classes, (BATCHES, shape[0]))
    return [((rng.standard_normal(shape) / 2 + patterns[y]).astype(np.float32), y) for y in labels]


def _sgd(lr: float) -> Callable[[Any, Any], Any]:
    """SGD with momentum, with a learning rate at which rounding errors of deep networks grow slowly."""
    return lambda example, parameters: example.torch.optim.SGD(parameters, lr=lr, momentum=0.9)


def _cross_entropy(example: Any, logits: Any, labels: Any) -> Any:
    return example.F.cross_entropy(logits, labels)


def _binary(example: Any, logits: Any, masks: Any) -> Any:
    return example.F.binary_cross_entropy_with_logits(logits, masks)


def _discs(rng: np.random.Generator, count: int, size: int) -> list[tuple[np.ndarray, ...]]:
    """Batches of noisy images with a disc, and masks of it."""
    y, x = np.mgrid[:size, :size] / size

    def batch() -> tuple[np.ndarray, ...]:
        centre, radius = rng.uniform(0.2, 0.8, (2, count, 1, 1)), rng.uniform(0.1, 0.25, (count, 1, 1))
        masks = ((x - centre[0]) ** 2 + (y - centre[1]) ** 2 < radius**2).astype(np.float32)[:, None]
        return masks + rng.standard_normal(masks.shape).astype(np.float32) / 2, masks

    return [batch() for _ in range(BATCHES)]


def _dcgan(example: Any, compiled: Compiled) -> Training:
    torch, models = example.torch, {"netD": example.Discriminator(), "netG": example.Generator()}
    for model in models.values():
        model.apply(example.weights_init)
    updates = [torch.optim.Adam(model.parameters(), lr=2e-5, betas=(0.5, 0.999)) for model in models.values()]
    networks = [compiled(model) for model in models.values()]
    criterion = example.nn.BCELoss()

    def step(real: Any, noise: Any) -> Any:
        err_d, err_g, _, _ = example.train_step(*networks, *updates, criterion, real, noise)
        return (err_d + err_g).detach()

    return models, step


def _real_and_noise(rng: np.random.Generator) -> list[tuple[np.ndarray, ...]]:
    noise = rng.standard_normal((BATCHES, 64, 100, 1, 1)).astype(np.float32)
    return [(np.tanh(x), z) for (x, _), z in zip(_images(rng, (64, 1, 32, 32)), noise, strict=True)]


NETWORKS = (
    Network(
        "lenet",
        "lenet",
        supervised(lambda m: m.LeNet(), _sgd(0.01), _cross_entropy),
        lambda rng: _images(rng, (64, 1, 28, 28)),
    ),
    Network(
        "resnet20",
        "resnet",
        supervised(lambda m: m.ResNet(channels=3), _sgd(0.0005), _cross_entropy),
        lambda rng: _images(rng, (64, 3, 32, 32)),
    ),
    Network(
        "resnet18",
        "resnet18",
        supervised(lambda m: m.ResNet18(classes=10), _sgd(0.0001), _cross_entropy),
        lambda rng: _images(rng, (8, 3, 224, 224)),
    ),
    Network(
        "mobilenetv2",
        "mobilenetv2",
        supervised(lambda m: m.MobileNetV2(), _sgd(0.000002), _cross_entropy),
        lambda rng: _images(rng, (32, 3, 32, 32)),
    ),
    Network("unet", "unet", supervised(lambda m: m.UNet(), _sgd(0.05), _binary), lambda rng: _discs(rng, 8, 64)),
    Network(
        "vit",
        "vit",
        supervised(lambda m: m.ViT(channels=3, size=32), _sgd(0.01), _cross_entropy),
        lambda rng: _images(rng, (16, 3, 32, 32)),
    ),
    Network("dcgan", "dcgan", _dcgan, _real_and_noise),
)
