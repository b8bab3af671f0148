"""Losses of small networks that PyTorch trains, in float64 from the same float32 numbers."""

import torch
from formulas import NETWORKS, network_batches, network_start
from torch.nn import functional

Params = dict[str, torch.Tensor]


def lenet_shapes(batch_size: int) -> dict[str, tuple[int, ...]]:
    """Every parameter, in the order of the model."""
    del batch_size
    convolutions = {"c0": (6, 1, 5, 5), "cb0": (6,), "c1": (16, 6, 5, 5), "cb1": (16,)}
    return convolutions | {
        "w0": (400, 120), "b0": (120,), "w1": (120, 84), "b1": (84,), "w2": (84, 10), "b2": (10,),
    }  # fmt: skip


def lenet(p: Params, states: Params, x: torch.Tensor) -> torch.Tensor:
    del states
    for i in range(2):
        x = functional.max_pool2d(torch.relu(functional.conv2d(x, p[f"c{i}"], p[f"cb{i}"])), 2)
    x = x.flatten(1)
    for i in range(3):
        x = x @ p[f"w{i}"] + p[f"b{i}"]
        x = torch.relu(x) if i < 2 else x
    return x


def resnet20_shapes(batch_size: int, size: int) -> dict[str, tuple[int, ...]]:
    """Every parameter, in the order of the model."""
    del batch_size, size
    shapes: dict[str, tuple[int, ...]] = {}

    def convolution(name: str, fan_in: int, channels: int, window: int) -> None:
        shapes[name] = (channels, fan_in, window, window)
        shapes[f"{name}_g"] = shapes[f"{name}_b"] = (channels,)

    convolution("stem", 3, 16, 3)
    fan_in = 16
    for stage, channels in enumerate((16, 32, 64)):
        for block in range(3):
            convolution(f"s{stage}b{block}_c1", fan_in, channels, 3)
            convolution(f"s{stage}b{block}_c2", channels, channels, 3)
            if fan_in != channels:
                convolution(f"s{stage}b{block}_cs", fan_in, channels, 1)
            fan_in = channels
    return shapes | {"w": (64, 10), "b": (10,)}


def resnet20(p: Params, states: Params, x: torch.Tensor) -> torch.Tensor:
    def convolution(x: torch.Tensor, name: str, stride: int) -> torch.Tensor:
        w = p[name]
        for state, start in (("mean", 0.0), ("var", 1.0)):
            states.setdefault(f"{name}_{state}", torch.full(w.shape[:1], start, dtype=w.dtype))
        x = functional.conv2d(x, w, stride=stride, padding=w.shape[2] // 2)
        own = states[f"{name}_mean"], states[f"{name}_var"]
        return functional.batch_norm(x, *own, p[f"{name}_g"], p[f"{name}_b"], training=True)

    x = torch.relu(convolution(x, "stem", 1))
    for stage in range(3):
        for block in range(3):
            name, stride = f"s{stage}b{block}", 2 if stage and not block else 1
            y = torch.relu(convolution(x, f"{name}_c1", stride))
            y = convolution(y, f"{name}_c2", 1)
            if f"{name}_cs" in p:
                x = convolution(x, f"{name}_cs", stride)
            x = torch.relu(x + y)
    return x.mean((2, 3)) @ p["w"] + p["b"]


def gpt_shapes(
    layers: int, heads: int, width: int, length: int, batch_size: int, vocabulary: int
) -> dict[str, tuple[int, ...]]:
    """Every parameter, in the order of the model."""
    del heads, batch_size
    shapes: dict[str, tuple[int, ...]] = {"wte": (vocabulary, width), "wpe": (length, width), "lnf": (width,)}
    for i in range(layers):
        shapes |= {
            f"l{i}_ln1": (width,), f"l{i}_qkv": (width, 3 * width), f"l{i}_proj": (width, width),
            f"l{i}_ln2": (width,), f"l{i}_fc": (width, 4 * width), f"l{i}_out": (4 * width, width),
        }  # fmt: skip
    return shapes


def gpt(p: Params, states: Params, ids: torch.Tensor) -> torch.Tensor:
    del states
    settings = NETWORKS["gpt"][0]
    heads, (batch, length) = settings["heads"], ids.shape

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return functional.layer_norm(x, x.shape[-1:], p[name])

    x = functional.embedding(ids, p["wte"]) + p["wpe"]
    for i in range(settings["layers"]):
        joined = (norm(x, f"l{i}_ln1") @ p[f"l{i}_qkv"]).view(batch, length, 3, heads, -1)
        q, k, v = joined.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + seen.transpose(1, 2).flatten(2) @ p[f"l{i}_proj"]
        x = x + functional.gelu(norm(x, f"l{i}_ln2") @ p[f"l{i}_fc"]) @ p[f"l{i}_out"]
    return (norm(x, "lnf") @ p["wte"].T).flatten(0, 1)


MODELS = {"lenet": (lenet_shapes, lenet), "resnet20": (resnet20_shapes, resnet20), "gpt": (gpt_shapes, gpt)}


def curve(name: str) -> dict:
    """Losses of every step, and what the states are after the last."""
    settings, optimizer_name, hyper, steps = NETWORKS[name]
    shapes, forward = MODELS[name]
    params = {n: torch.tensor(a, dtype=torch.float64) for n, a in network_start(shapes(**settings)).items()}
    for p in params.values():
        p.requires_grad_()
    optimizer = getattr(torch.optim, optimizer_name)(list(params.values()), **hyper)
    states: Params = {}
    losses = []
    for x, y in network_batches(name, steps):
        images = torch.tensor(x) if name == "gpt" else torch.tensor(x, dtype=torch.float64)
        loss = functional.cross_entropy(forward(params, states, images), torch.tensor(y))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    last = {n: s.numpy().round(6).tolist() for n, s in states.items() if n.startswith(("stem", "s2b2"))}
    return {
        "model": name,
        "shapes": {n: list(p.shape) for n, p in params.items()},
        "losses": losses,
        "states": last,
    }


def curves() -> list[dict]:
    """All of them."""
    return [curve(name) for name in MODELS]
