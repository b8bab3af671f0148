"""The larger workloads: LeNet-5, ResNet-20, a small GPT, and a perceptron that exceeds the caches."""

from collections.abc import Mapping
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.workload import BATCHES, Workload, images, layers, linear_flops

__all__ = ["bigmlp", "gpt", "lenet", "resnet"]

#: Channels and first stride of the stages of ResNet-20 (He et al., "Deep Residual Learning", 2016), three blocks each.
STAGES = ((16, 1), (32, 2), (64, 2))
BLOCKS = 3

#: Layers, heads, width, tokens, batch and vocabulary of the GPT: nanoGPT's small configuration for CPUs.
LAYERS, HEADS, WIDTH, TOKENS, BATCH, VOCABULARY = 4, 4, 128, 64, 12, 65

Parameters = dict[str, np.ndarray]


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


def _perceptron(rng: np.random.Generator, sizes: tuple[int, ...]) -> Parameters:
    params = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        params[f"w{i}"] = _normal(rng, (a, b), sqrt(2 / a))
        params[f"b{i}"] = np.zeros(b, np.float32)
    return params


def lenet() -> Workload:
    """LeNet-5 (LeCun et al., 1998) on 32x32 images, with max pooling and relu."""
    rng, batch = np.random.default_rng(0), 32
    params = {
        "c0": _normal(rng, (6, 1, 5, 5), sqrt(2 / 25)),
        "cb0": np.zeros(6, np.float32),
        "c1": _normal(rng, (16, 6, 5, 5), sqrt(2 / 150)),
        "cb1": np.zeros(16, np.float32),
        **_perceptron(rng, (400, 120, 84, 10)),
    }
    # The first convolution needs no gradient of the images; the first linear layer does need that of its input.
    convolutions = 2 * (2 * batch * 6 * 25 * 28 * 28) + 3 * (2 * batch * 16 * 150 * 10 * 10)
    linear = linear_flops(batch, (400, 120, 84, 10)) + 2 * batch * 400 * 120
    settings = {"kind": "sgd", "lr": 0.01, "momentum": 0.9}
    batches = images(rng, (batch, 1, 32, 32), 10)
    return Workload("lenet", params, {}, batches, _lenet, "ce_mean", settings, convolutions + linear)


def _lenet(o: Any, p: Mapping[str, Any], x: Any) -> Any:
    for i in range(2):
        x = o.maxpool2(o.relu(o.conv(x, p[f"c{i}"], p[f"cb{i}"], 1, 0)))
    return layers(o, {name: value for name, value in p.items() if not name.startswith("c")}, o.flatten(x))


def resnet() -> Workload:
    """ResNet-20 for 32x32 images, with 1x1 projections in blocks that change the shape."""
    rng, batch = np.random.default_rng(0), 64
    params: Parameters = {}
    states: Parameters = {}
    flops = 0

    def convolution(name: str, inputs: int, outputs: int, window: int, size: int) -> None:
        nonlocal flops
        params[name] = _normal(rng, (outputs, inputs, window, window), sqrt(2 / (inputs * window * window)))
        params[f"{name}.g"], params[f"{name}.b"] = np.ones(outputs, np.float32), np.zeros(outputs, np.float32)
        states[f"{name}.mean"], states[f"{name}.var"] = np.zeros(outputs, np.float32), np.ones(outputs, np.float32)
        passes = 2 if name == "stem" else 3
        flops += passes * 2 * batch * outputs * inputs * window * window * size * size

    convolution("stem", 3, 16, 3, 32)
    channels, size = 16, 32
    for stage, (width, stride) in enumerate(STAGES):
        size //= stride
        for block in range(BLOCKS):
            name = f"s{stage}b{block}"
            convolution(f"{name}.c1", channels, width, 3, size)
            convolution(f"{name}.c2", width, width, 3, size)
            if channels != width:
                convolution(f"{name}.cs", channels, width, 1, size)
            channels = width
    params["w"], params["b"] = _normal(rng, (64, 10), sqrt(1 / 64)), np.zeros(10, np.float32)
    # With a larger learning rate, rounding differences grow within twenty steps; PyTorch on one thread and on two
    # differs by 5e-4.
    settings = {"kind": "sgd", "lr": 0.01, "momentum": 0.9, "wd": 1e-4}
    batches = images(rng, (batch, 3, 32, 32), 10)
    return Workload("resnet", params, states, batches, _resnet, "ce_mean", settings, flops + 3 * 2 * batch * 640, 2e-3)


def _resnet(o: Any, p: Mapping[str, Any], x: Any) -> Any:
    def unit(x: Any, name: str, stride: int, padding: int) -> Any:
        return o.batchnorm(o.conv(x, p[name], None, stride, padding), name)

    x = o.relu(unit(x, "stem", 1, 1))
    for stage, (_, first) in enumerate(STAGES):
        for block in range(BLOCKS):
            name, stride = f"s{stage}b{block}", first if block == 0 else 1
            y = unit(o.relu(unit(x, f"{name}.c1", stride, 1)), f"{name}.c2", 1, 1)
            beside = unit(x, f"{name}.cs", stride, 0) if f"{name}.cs" in p else x
            x = o.relu(o.add(y, beside))
    return o.linear(o.avgpool(x), p["w"], p["b"])


def gpt() -> Workload:
    """A GPT of four layers with tied output weights and no biases, on an almost deterministic language."""
    rng = np.random.default_rng(0)
    params = {
        "wte": _normal(rng, (VOCABULARY, WIDTH), 0.02),
        "wpe": _normal(rng, (TOKENS, WIDTH), 0.02),
        "lnf": np.ones(WIDTH, np.float32),
    }
    last = 0.02 / sqrt(2 * LAYERS)
    for i in range(LAYERS):
        params |= {
            f"l{i}.ln1": np.ones(WIDTH, np.float32),
            f"l{i}.qkv": _normal(rng, (WIDTH, 3 * WIDTH), 0.02),
            f"l{i}.proj": _normal(rng, (WIDTH, WIDTH), last),
            f"l{i}.ln2": np.ones(WIDTH, np.float32),
            f"l{i}.fc": _normal(rng, (WIDTH, 4 * WIDTH), 0.02),
            f"l{i}.out": _normal(rng, (4 * WIDTH, WIDTH), last),
        }
    per_layer = 12 * WIDTH * WIDTH + 2 * TOKENS * WIDTH
    flops = 3 * 2 * BATCH * TOKENS * (LAYERS * per_layer + WIDTH * VOCABULARY)
    settings = {"kind": "adamw", "lr": 1e-3, "betas": (0.9, 0.99), "eps": 1e-8, "wd": 0.1}
    return Workload("gpt", params, {}, [_tokens(rng) for _ in range(BATCHES)], _gpt, "ce_mean", settings, flops)


def _tokens(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Sequences in which nine of ten tokens are determined by the previous one, and the next token of each."""
    text = rng.integers(0, VOCABULARY, (BATCH, TOKENS + 1))
    for t in range(1, TOKENS + 1):
        follows = (5 * text[:, t - 1] + 3) % VOCABULARY
        text[:, t] = np.where(rng.random(BATCH) < 0.1, text[:, t], follows)
    return text[:, :-1].astype(np.int32), text[:, 1:].reshape(-1).astype(np.int32)


def _gpt(o: Any, p: Mapping[str, Any], ids: Any) -> Any:
    heads = (BATCH, TOKENS, HEADS, WIDTH // HEADS)
    x = o.add(o.embed(p["wte"], ids), o.pos(p["wpe"], ids))
    for i in range(LAYERS):
        parts = o.split3(o.linear(o.layernorm(x, p[f"l{i}.ln1"]), p[f"l{i}.qkv"], None))
        q, k, v = (o.transpose(o.reshape(part, heads), (0, 2, 1, 3)) for part in parts)
        mixed = o.transpose(o.attention(q, k, v), (0, 2, 1, 3))
        x = o.add(x, o.linear(o.reshape(mixed, (BATCH, TOKENS, WIDTH)), p[f"l{i}.proj"], None))
        hidden = o.gelu(o.linear(o.layernorm(x, p[f"l{i}.ln2"]), p[f"l{i}.fc"], None))
        x = o.add(x, o.linear(hidden, p[f"l{i}.out"], None))
    return o.reshape(o.head(o.layernorm(x, p["lnf"]), p["wte"]), (BATCH * TOKENS, VOCABULARY))


def bigmlp() -> Workload:
    """A perceptron whose weights and optimizer state do not fit into any cache, trained with Adam."""
    rng, sizes, batch = np.random.default_rng(0), (1024, 4096, 4096, 1024), 128
    settings = {"kind": "adam", "lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8}
    params = _perceptron(rng, sizes)
    batches = [(_normal(rng, (batch, 1024), 1.0), _normal(rng, (batch, 1024), 1.0)) for _ in range(BATCHES)]
    return Workload("bigmlp", params, {}, batches, layers, "mse_mean", settings, linear_flops(batch, sizes))
