"""Small settings of the examples for images, their weights and their batches: from NumPy alone, for any framework."""

from dataclasses import replace

import numpy as np

from benchmarks.model_zoo.vision import NETWORKS

__all__ = ["CASES", "first_losses"]

#: Settings of each network's example, and the shape of its images.
CASES = {
    "lenet": ({}, (4, 1, 28, 28)),
    "resnet18": ({"STAGES": ((4, 1), (8, 2)), "WIDTH": 4}, (4, 3, 32, 32)),
    "mobilenetv2": ({"STAGES": ((1, 4, 1, 1), (2, 4, 2, 2)), "STEM": 4, "LAST": 8}, (4, 3, 16, 16)),
    "unet": ({"WIDTH": 2}, (2, 1, 16, 16)),
    "vit": ({"LAYERS": 2, "HEADS": 2, "WIDTH": 8, "PATCH": 16}, (3, 3, 32, 32)),
    "dcgan": ({"NGF": 2, "NDF": 2, "NZ": 3}, (4, 1, 32, 32)),
}


def _fill(model, torch, rng):
    """Scales near 1, shifts near 0, and weights that keep the size of what they are given."""
    with torch.no_grad():
        for _, parameter in model.named_parameters():
            drawn = rng.standard_normal(tuple(parameter.shape))
            size = 0.1 if drawn.ndim == 1 else 1 / np.sqrt(np.prod(drawn.shape[1:]))
            parameter.mul_(0).add_(torch.tensor((drawn * size).astype(np.float32)))


def _batch(name, shape, rng):
    """A batch of noise with the targets of the network's loss."""
    images = rng.standard_normal(shape).astype(np.float32)
    if name == "unet":
        return images, (images > 0).astype(np.float32)
    if name == "dcgan":
        return np.tanh(images), rng.standard_normal((shape[0], 3, 1, 1)).astype(np.float32)
    return images, rng.integers(0, 10, shape[0])


def first_losses(name, torch):
    """Three losses of a network's example in the framework that has these names.

    PyTorch's are those of ``first_losses(name, torch)`` in its interpreter.
    """
    settings, shape = CASES[name]
    network = next(network for network in NETWORKS if network.name == name)
    models, step = replace(network, settings=settings).start(torch.__name__, lambda function: function)
    rng = np.random.default_rng(0)
    for model in models.values():
        _fill(model, torch, rng)
    return [float(step(*map(torch.tensor, _batch(name, shape, rng)))) for _ in range(3)]
