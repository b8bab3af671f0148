"""What PyTorch computes for the operators of networks: results, and gradients for a given cotangent, in float64."""

from collections.abc import Callable
from itertools import product

import numpy as np
import torch
from torch.nn import functional

RNG = np.random.default_rng(31)


def numbers(*shape: int) -> np.ndarray:
    """Of few digits, so that files stay small."""
    return RNG.standard_normal(shape).round(2)


def case(name: str, function: Callable, arrays: dict[str, np.ndarray], settings: dict, states: tuple = ()) -> dict:
    """One call: `arrays` are differentiated where they are floats and no states; states are updated in place."""
    tensors = {n: torch.tensor(a) for n, a in arrays.items()}
    wanted = [t for n, t in tensors.items() if t.is_floating_point() and n not in states]
    for tensor in wanted:
        tensor.requires_grad_()
    out = function(**tensors, **settings)
    ct = numbers(*out.shape)
    gradients = torch.autograd.grad(out, wanted, torch.tensor(ct))
    return {
        "name": name,
        "settings": {key: list(value) if isinstance(value, tuple) else value for key, value in settings.items()},
        "inputs": {n: a.tolist() for n, a in arrays.items()},
        "ct": ct.tolist(),
        "out": out.detach().numpy().round(10).tolist(),
        "gradients": [g.numpy().round(10).tolist() for g in gradients],
        "states": {n: tensors[n].numpy().round(10).tolist() for n in states},
    }


def convolutions() -> list[dict]:
    """Strides, padding, dilation and groups."""
    settings = [
        (1, 0, 1, 1),
        (1, 1, 1, 1),
        (2, 1, 1, 1),
        ((2, 1), (0, 2), 1, 1),
        (1, 2, 2, 1),
        (2, 3, 3, 1),
        (3, 1, 2, 1),
        (1, 1, 1, 2),
        ((2, 3), (1, 0), (1, 2), 4),
    ]
    found = []
    for number, (stride, padding, dilation, groups) in enumerate(settings):
        window = (3, 2) if number % 2 else (2, 3)
        arrays = {"x": numbers(1, 4, 5, 6), "w": numbers(4, 4 // groups, *window)}
        if number % 3 == 0:
            arrays["bias"] = numbers(4)
        keys = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        found.append(case("conv2d", _conv2d, arrays, keys))
    arrays = {"x": numbers(2, 3, 5, 4), "w": numbers(2, 3, 1, 1)}
    found.append(case("conv2d", _conv2d, arrays, {"stride": 2, "padding": 0, "dilation": 1, "groups": 1}))
    return found


def _conv2d(x: torch.Tensor, w: torch.Tensor, bias: torch.Tensor | None = None, **settings: object) -> torch.Tensor:
    return functional.conv2d(x, w, bias, **settings)


def pools() -> list[dict]:
    """Windows side by side, overlapping and padded, with ties for the greatest element."""
    found = []
    windows = [(2, None, 0), (2, 2, 1), (3, 2, 1), ((3, 2), (1, 2), (1, 0)), (2, 3, 0)]
    for window, stride, padding in windows:
        tied = np.asarray(RNG.integers(0, 3, (1, 2, 5, 6)), np.float64)
        keys = {"window": window, "stride": stride, "padding": padding}
        found.append(case("max_pool2d", _max_pool2d, {"x": tied}, keys))
        for include in (True, False):
            counted = {**keys, "count_include_pad": include}
            found.append(case("avg_pool2d", _avg_pool2d, {"x": numbers(1, 2, 5, 6)}, counted))
    return found


def _max_pool2d(x: torch.Tensor, window: object, stride: object, padding: object) -> torch.Tensor:
    return functional.max_pool2d(x, window, stride, padding)


def _avg_pool2d(
    x: torch.Tensor, window: object, stride: object, padding: object, count_include_pad: bool
) -> torch.Tensor:
    return functional.avg_pool2d(x, window, stride, padding, count_include_pad=count_include_pad)


def norms() -> list[dict]:
    """Batch normalisation in training and afterwards, with and without scale; layer normalisation."""
    found = []
    for shape, affine in product([(3, 2, 2, 3), (5, 3), (2, 3, 4)], (True, False)):
        channels = shape[1]
        arrays = {
            "x": (numbers(*shape) + 3).round(2),
            "running_mean": numbers(channels),
            "running_var": (np.abs(numbers(channels)) + 0.5).round(2),
        }
        if affine:
            arrays |= {"weight": numbers(channels), "bias": numbers(channels)}
        states = ("running_mean", "running_var")
        found.append(case("batch_norm", _batch_norm, arrays, {"training": True}, states))
        keys = {"training": True, "momentum": 0.3, "eps": 0.01}
        found.append(case("batch_norm", _batch_norm, arrays, keys, states))
        found.append(case("batch_norm", _batch_norm, arrays, {"training": False}, states))
        row = {"weight": numbers(shape[-1]), "bias": numbers(shape[-1])} if affine else {}
        found.append(case("layer_norm", _layer_norm, {"x": (numbers(*shape) + 3).round(2), **row}, {"eps": 1e-5}))
    return found


def _batch_norm(x: torch.Tensor, **given: object) -> torch.Tensor:
    return functional.batch_norm(x, **given)


def _layer_norm(
    x: torch.Tensor, eps: float, weight: torch.Tensor | None = None, bias: torch.Tensor | None = None
) -> torch.Tensor:
    return functional.layer_norm(x, x.shape[-1:], weight, bias, eps)


def transformers() -> list[dict]:
    """Attention, embeddings, gelu."""
    found = []
    shapes = [((2, 2, 4, 3), (2, 2, 4, 3), (2, 2, 4, 3)), ((5, 2), (3, 2), (3, 4)), ((2, 3, 2), (2, 5, 2), (2, 5, 3))]
    for shape, causal, scale in product(shapes, (False, True), (None, 0.3)):
        arrays = {name: numbers(*size) for name, size in zip("qkv", shape, strict=True)}
        keys = {"causal": causal, "scale": scale}
        found.append(case("scaled_dot_product_attention", _attention, arrays, keys))
    arrays = {"table": numbers(5, 3), "ids": np.array([[1, 4, 1], [0, 1, 4]])}
    found.append(case("embedding", lambda table, ids: functional.embedding(ids, table), arrays, {}))
    for approximate in ("none", "tanh"):
        found.append(case("gelu", _gelu, {"x": numbers(3, 4)}, {"approximate": approximate}))
    return found


def _gelu(x: torch.Tensor, approximate: str) -> torch.Tensor:
    return functional.gelu(x, approximate=approximate)


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, causal: bool, scale: float | None) -> torch.Tensor:
    return functional.scaled_dot_product_attention(q, k, v, is_causal=causal, scale=scale)


def operators() -> list[dict]:
    """All of them."""
    return [*convolutions(), *pools(), *norms(), *transformers()]
