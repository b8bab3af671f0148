"""Random networks: perceptrons, CNNs, ResNets, GPTs, ViTs and LSTMs of widths, depths and batches nobody has chosen.

The name of a network has all its numbers, as in ``mlp batch=96 sizes=300,64,10 opt=adam``, so that `load` builds in
another interpreter what `make` has drawn here, and a line of a table can be measured again.
"""

from collections.abc import Callable, Mapping
from functools import partial
from itertools import pairwise
from math import sqrt
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks import workloads
from benchmarks.random_cases import size
from benchmarks.workload import BATCHES, Workload, images, layers, linear_flops

__all__ = ["KINDS", "WORKLOADS", "draw", "load", "make", "save"]

#: Names are not known beforehand.
WORKLOADS: tuple[str, ...] = ()

#: Operations of a step, at most, so that a network takes at most about a second a step.
MOST_FLOPS = 60 * 10**9

OPTIMIZERS: dict[str, dict[str, Any]] = {
    "sgd": {"kind": "sgd", "lr": 1e-3, "momentum": 0.9},
    "adam": {"kind": "adam", "lr": 1e-4, "betas": (0.9, 0.999), "eps": 1e-8},
    "adamw": {"kind": "adamw", "lr": 1e-4, "betas": (0.9, 0.99), "eps": 1e-8, "wd": 0.1},
}

Settings = Mapping[str, Any]
Parameters = dict[str, np.ndarray]

save = workloads.save


def _normal(rng: np.random.Generator, shape: tuple[int, ...], scale: float) -> np.ndarray:
    return (rng.standard_normal(shape) * scale).astype(np.float32)


# Perceptrons


def _draw_mlp(rng: np.random.Generator) -> dict[str, Any]:
    depth = int(rng.integers(1, 7))
    sizes = (size(rng, 8, 2048), *(size(rng, 8, 2048) for _ in range(depth)), int(rng.choice((1, 2, 10, 100))))
    return {"batch": size(rng, 1, 1024), "sizes": sizes}


def _mlp(s: Settings, rng: np.random.Generator) -> Workload:
    params: Parameters = {}
    for i, (a, b) in enumerate(pairwise(s["sizes"])):
        params |= {f"w{i}": _normal(rng, (a, b), sqrt(2 / a)), f"b{i}": np.zeros(b, np.float32)}
    shape = (s["batch"], s["sizes"][0])
    if s["sizes"][-1] > 2:
        batches, loss = images(rng, shape, s["sizes"][-1]), "ce_mean"
    else:
        targets = s["batch"], s["sizes"][-1]
        batches, loss = [(_normal(rng, shape, 1.0), _normal(rng, targets, 1.0)) for _ in range(BATCHES)], "mse_mean"
    return Workload("", params, {}, batches, layers, loss, {}, linear_flops(s["batch"], s["sizes"]))


# Convolutional networks


def _draw_cnn(rng: np.random.Generator) -> dict[str, Any]:
    channels = (int(rng.choice((1, 3))), *(size(rng, 4, 128) for _ in range(int(rng.integers(1, 4)))))
    image = int(rng.choice((16, 24, 28, 32, 40, 64)))
    return {"batch": size(rng, 1, 128), "channels": channels, "image": image, "window": int(rng.choice((3, 3, 5)))}


def _cnn(s: Settings, rng: np.random.Generator) -> Workload:
    params: Parameters = {}
    window, side, flops = s["window"], s["image"], 0
    for i, (a, b) in enumerate(pairwise(s["channels"])):
        params |= {f"c{i}": _normal(rng, (b, a, window, window), sqrt(2 / (a * window**2)))}
        params |= {f"cb{i}": np.zeros(b, np.float32)}
        flops += (2 if i == 0 else 3) * 2 * s["batch"] * a * b * (window * side) ** 2
        side //= 2
    inputs = s["channels"][-1] * side * side
    params |= {"w0": _normal(rng, (inputs, 10), sqrt(1 / inputs)), "b0": np.zeros(10, np.float32)}
    batches = images(rng, (s["batch"], s["channels"][0], s["image"], s["image"]), 10)
    forward = partial(_cnn_forward, len(s["channels"]) - 1, window // 2)
    return Workload("", params, {}, batches, forward, "ce_mean", {}, flops + 6 * s["batch"] * inputs * 10)


def _cnn_forward(count: int, padding: int, o: Any, p: Mapping[str, Any], x: Any) -> Any:
    for i in range(count):
        x = o.maxpool2(o.relu(o.conv(x, p[f"c{i}"], p[f"cb{i}"], 1, padding)))
    return o.linear(o.flatten(x), p["w0"], p["b0"])


def _draw_resnet(rng: np.random.Generator) -> dict[str, Any]:
    width = size(rng, 8, 64)
    stages = int(rng.integers(1, 4))
    return {
        "batch": size(rng, 2, 64),
        "widths": tuple(width * 2**i for i in range(stages)),
        "blocks": int(rng.integers(1, 4)),
        "image": int(rng.choice((16, 28, 32, 48))),
    }


def _resnet(s: Settings, rng: np.random.Generator) -> Workload:
    params: Parameters = {}
    states: Parameters = {}
    flops, side, channels = 0, s["image"], s["widths"][0]

    def unit(name: str, a: int, b: int, window: int) -> None:
        nonlocal flops
        params[name] = _normal(rng, (b, a, window, window), sqrt(2 / (a * window**2)))
        params[f"{name}.g"], params[f"{name}.b"] = np.ones(b, np.float32), np.zeros(b, np.float32)
        states[f"{name}.mean"], states[f"{name}.var"] = np.zeros(b, np.float32), np.ones(b, np.float32)
        flops += (2 if name == "stem" else 3) * 2 * s["batch"] * a * b * (window * side) ** 2

    unit("stem", 3, channels, 3)
    for stage, width in enumerate(s["widths"]):
        side = -(-side // 2) if stage else side
        for block in range(s["blocks"]):
            unit(f"s{stage}b{block}.c1", channels, width, 3)
            unit(f"s{stage}b{block}.c2", width, width, 3)
            if channels != width:
                unit(f"s{stage}b{block}.cs", channels, width, 1)
            channels = width
    params |= {"w": _normal(rng, (channels, 10), sqrt(1 / channels)), "b": np.zeros(10, np.float32)}
    batches = images(rng, (s["batch"], 3, s["image"], s["image"]), 10)
    forward = partial(_resnet_forward, len(s["widths"]), s["blocks"])
    return Workload("", params, states, batches, forward, "ce_mean", {}, flops, 5e-3)


def _resnet_forward(stages: int, blocks: int, o: Any, p: Mapping[str, Any], x: Any) -> Any:
    def unit(x: Any, name: str, stride: int, padding: int) -> Any:
        return o.batchnorm(o.conv(x, p[name], None, stride, padding), name)

    x = o.relu(unit(x, "stem", 1, 1))
    for stage in range(stages):
        for block in range(blocks):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            y = unit(o.relu(unit(x, f"{name}.c1", stride, 1)), f"{name}.c2", 1, 1)
            beside = unit(x, f"{name}.cs", stride, 0) if f"{name}.cs" in p else x
            x = o.relu(o.add(y, beside))
    return o.linear(o.avgpool(x), p["w"], p["b"])


# Transformers


def _draw_gpt(rng: np.random.Generator) -> dict[str, Any]:
    heads, head = int(rng.choice((1, 2, 3, 4, 6, 8))), int(rng.choice((16, 24, 32, 48, 64)))
    return {
        "batch": size(rng, 1, 32),
        "layers": int(rng.integers(1, 7)),
        "heads": heads,
        "width": heads * head,
        "tokens": size(rng, 16, 512),
        "vocabulary": size(rng, 32, 16384),
    }


def _block(params: Parameters, rng: np.random.Generator, name: str, width: int) -> None:
    params |= {
        f"{name}.ln1": np.ones(width, np.float32),
        f"{name}.qkv": _normal(rng, (width, 3 * width), 0.02),
        f"{name}.proj": _normal(rng, (width, width), 0.02),
        f"{name}.ln2": np.ones(width, np.float32),
        f"{name}.fc": _normal(rng, (width, 4 * width), 0.02),
        f"{name}.out": _normal(rng, (4 * width, width), 0.02),
    }


def _blocks(s: Settings, o: Any, p: Mapping[str, Any], x: Any, tokens: int, mix: Callable[..., Any]) -> Any:
    batch, heads, width = s["batch"], s["heads"], s["width"]
    shape = (batch, tokens, heads, width // heads)
    for i in range(s["layers"]):
        parts = o.split3(o.linear(o.layernorm(x, p[f"l{i}.ln1"]), p[f"l{i}.qkv"], None))
        q, k, v = (o.transpose(o.reshape(part, shape), (0, 2, 1, 3)) for part in parts)
        mixed = o.transpose(mix(q, k, v), (0, 2, 1, 3))
        x = o.add(x, o.linear(o.reshape(mixed, (batch, tokens, width)), p[f"l{i}.proj"], None))
        hidden = o.gelu(o.linear(o.layernorm(x, p[f"l{i}.ln2"]), p[f"l{i}.fc"], None))
        x = o.add(x, o.linear(hidden, p[f"l{i}.out"], None))
    return o.layernorm(x, p["lnf"])


def _transformer_flops(s: Settings, tokens: int) -> int:
    width = s["width"]
    return 6 * s["batch"] * tokens * s["layers"] * (12 * width * width + 2 * tokens * width)


def _gpt(s: Settings, rng: np.random.Generator) -> Workload:
    width, tokens, vocabulary = s["width"], s["tokens"], s["vocabulary"]
    params = {
        "wte": _normal(rng, (vocabulary, width), 0.02),
        "wpe": _normal(rng, (tokens, width), 0.02),
        "lnf": np.ones(width, np.float32),
    }
    for i in range(s["layers"]):
        _block(params, rng, f"l{i}", width)
    texts = [rng.integers(0, vocabulary, (s["batch"], tokens + 1)).astype(np.int32) for _ in range(BATCHES)]
    batches = [(text[:, :-1].copy(), text[:, 1:].reshape(-1)) for text in texts]
    flops = _transformer_flops(s, tokens) + 6 * s["batch"] * tokens * width * vocabulary
    return Workload("", params, {}, batches, partial(_gpt_forward, s), "ce_mean", {}, flops)


def _gpt_forward(s: Settings, o: Any, p: Mapping[str, Any], ids: Any) -> Any:
    x = o.add(o.embed(p["wte"], ids), o.pos(p["wpe"], ids))
    x = _blocks(s, o, p, x, s["tokens"], o.attention)
    return o.reshape(o.head(x, p["wte"]), (s["batch"] * s["tokens"], s["vocabulary"]))


def _draw_vit(rng: np.random.Generator) -> dict[str, Any]:
    heads, head = int(rng.choice((1, 2, 3, 4, 6))), int(rng.choice((16, 32, 64)))
    patch = int(rng.choice((4, 8)))
    return {
        "batch": size(rng, 1, 64),
        "layers": int(rng.integers(1, 7)),
        "heads": heads,
        "width": heads * head,
        "patch": patch,
        "image": patch * int(rng.integers(4, 13)),
    }


def _vit(s: Settings, rng: np.random.Generator) -> Workload:
    width, patch = s["width"], s["patch"]
    tokens, inputs = (s["image"] // patch) ** 2, 3 * patch * patch
    params = {
        "patches": _normal(rng, (width, 3, patch, patch), sqrt(1 / inputs)),
        "wpe": _normal(rng, (tokens, width), 0.02),
        "lnf": np.ones(width, np.float32),
        "w": _normal(rng, (width, 10), sqrt(1 / width)),
        "b": np.zeros(10, np.float32),
    }
    for i in range(s["layers"]):
        _block(params, rng, f"l{i}", width)
    batches = images(rng, (s["batch"], 3, s["image"], s["image"]), 10)
    flops = _transformer_flops(s, tokens) + 4 * s["batch"] * tokens * inputs * width
    return Workload("", params, {}, batches, partial(_vit_forward, s), "ce_mean", {}, flops)


def _vit_forward(s: Settings, o: Any, p: Mapping[str, Any], x: Any) -> Any:
    tokens = (s["image"] // s["patch"]) ** 2
    x = o.tokens(o.conv(x, p["patches"], None, s["patch"], 0))
    x = _blocks(s, o, p, o.add(x, p["wpe"]), tokens, o.full_attention)
    return o.linear(o.mean1(x), p["w"], p["b"])


# Recurrent networks


def _draw_lstm(rng: np.random.Generator) -> dict[str, Any]:
    return {
        "batch": size(rng, 1, 64),
        "tokens": size(rng, 8, 128),
        "width": size(rng, 16, 512),
        "hidden": size(rng, 16, 512),
        "vocabulary": size(rng, 32, 4096),
    }


def _lstm(s: Settings, rng: np.random.Generator) -> Workload:
    width, hidden, vocabulary, tokens = s["width"], s["hidden"], s["vocabulary"], s["tokens"]
    scale = 1 / sqrt(hidden)
    params = {
        "wte": _normal(rng, (vocabulary, width), 1.0),
        "wi": _normal(rng, (width, 4 * hidden), scale),
        "wh": _normal(rng, (hidden, 4 * hidden), scale),
        "bi": np.zeros(4 * hidden, np.float32),
        "w": _normal(rng, (hidden, vocabulary), scale),
        "b": np.zeros(vocabulary, np.float32),
    }
    texts = [rng.integers(0, vocabulary, (s["batch"], tokens + 1)).astype(np.int32) for _ in range(BATCHES)]
    batches = [(text[:, :-1].copy(), text[:, 1:].reshape(-1)) for text in texts]
    flops = 6 * s["batch"] * tokens * (4 * hidden * (width + hidden) + hidden * vocabulary)
    return Workload("", params, {}, batches, partial(_lstm_forward, s), "ce_mean", {}, flops)


def _lstm_forward(s: Settings, o: Any, p: Mapping[str, Any], ids: Any) -> Any:
    x = o.lstm(o.embed(p["wte"], ids), p["wi"], p["wh"], p["bi"])
    return o.linear(o.reshape(x, (s["batch"] * s["tokens"], s["hidden"])), p["w"], p["b"])


#: How the settings of each kind are drawn, and the network with them. Its name and optimizer are added.
KINDS: dict[str, tuple[Callable[..., dict[str, Any]], Callable[..., Workload]]] = {
    "mlp": (_draw_mlp, _mlp),
    "cnn": (_draw_cnn, _cnn),
    "resnet": (_draw_resnet, _resnet),
    "gpt": (_draw_gpt, _gpt),
    "vit": (_draw_vit, _vit),
    "lstm": (_draw_lstm, _lstm),
}


def draw(count: int, seed: int) -> list[str]:
    """Names of so many networks, the kinds in turn; the same for the same seed."""
    rng, found = np.random.default_rng(seed), list[str]()
    kinds = list(KINDS)
    while len(found) < count:
        kind = kinds[len(found) % len(kinds)]
        settings = KINDS[kind][0](rng) | {"opt": str(rng.choice(list(OPTIMIZERS)))}
        name = " ".join([kind, *(f"{key}={_text(value)}" for key, value in settings.items())])
        if name not in found and make(name).flops <= MOST_FLOPS:
            found.append(name)
    return found


def _text(value: Any) -> str:
    """A number or word, or numbers separated by commas, with one after a single number."""
    return ",".join(map(str, value)) + "," * (len(value) == 1) if isinstance(value, tuple) else str(value)


def make(name: str) -> Workload:
    """The network of that name."""
    kind, *words = name.split()
    settings: dict[str, Any] = {}
    for key, _, text in (word.partition("=") for word in words):
        numbers = [int(part) for part in text.split(",") if part.isdecimal()]
        settings[key] = text if key == "opt" else tuple(numbers) if "," in text else numbers[0]
    return _named(name, KINDS[kind][1](settings, np.random.default_rng(0)), OPTIMIZERS[settings["opt"]])


def _named(name: str, w: Workload, opt: dict[str, Any]) -> Workload:
    return Workload(name, w.params, w.states, w.batches, w.forward, w.loss, opt, w.flops, w.tolerance)


def load(name: str, path: Path) -> Workload:
    """The network of that name, with the arrays written by `save`."""
    return workloads.filled(make(name), path)
