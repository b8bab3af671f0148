"""The workloads: shapes, data, initial weights, networks, losses and optimizers.

A network is written once, in terms of a namespace of operators that each peer supplies, so that all peers compute the
same function:

    linear(x, w, b)          w is [in, out] (a peer may keep it transposed), b may be None
    conv(x, w, b, stride, pad)   NCHW and OIHW, b may be None
    relu(x), gelu(x) (its erf form), add(a, b), reshape(x, shape), transpose(x, axes)
    maxpool2(x)              2x2 with stride 2
    batchnorm(x, name)       by batch statistics; parameters name.g and name.b, states name.mean and name.var
    avgpool(x)               over the pixels, [N, C, H, W] -> [N, C]
    flatten(x)               [N, C, H, W] -> [N, C*H*W]
    embed(table, ids)        rows of the table
    pos(table, ids)          the whole table, for every row of ids
    layernorm(x, g)          over the last axis, eps 1e-5, no bias
    attention(q, k, v)       [B, H, T, D], causal, scaled by 1/sqrt(D)
    split3(x)                three equal parts of the last axis
    head(x, table)           x @ table.T

and of random networks (`benchmarks.random_networks`), which fewer peers run:

    tokens(x)                [N, C, H, W] -> [N, H*W, C]
    full_attention(q, k, v)  as attention, not causal
    mean1(x)                 the mean over axis 1
    lstm(x, wi, wh, b)       [N, T, I] -> [N, T, H], with wi [I, 4H], wh [H, 4H] and gates i, f, g, o

To add a workload, add a function to `WORKLOADS`.
"""

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np

from benchmarks import networks
from benchmarks.workload import BATCHES, Workload, images, layers, linear_flops

__all__ = ["BATCHES", "WORKLOADS", "Workload", "filled", "load", "make", "save"]


def mlp() -> Workload:
    """The multilayer perceptron of TVM's training tutorial, with its loss and its optimizer."""
    rng, sizes, batch = np.random.default_rng(0), (784, 128, 128, 10), 64
    params = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        params[f"w{i}"] = (rng.standard_normal((a, b)) * np.sqrt(2 / a)).astype(np.float32)
        params[f"b{i}"] = np.zeros(b, np.float32)
    sgd = {"kind": "sgd", "lr": 0.01, "wd": 0.01}
    batches = images(rng, (batch, sizes[0]), sizes[-1])
    return Workload("mlp", params, {}, batches, layers, "ce_sum", sgd, linear_flops(batch, sizes))


def linreg() -> Workload:
    """Four rows of y = 2 a + 3 b, as fitted in OneFlow's tutorial: it measures the overhead of a step."""
    x = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
    y = x @ np.array([[2], [3]], np.float32)
    params = {"w0": np.random.default_rng(0).standard_normal((2, 1)).astype(np.float32)}
    sgd = {"kind": "sgd", "lr": 0.01}
    return Workload("linreg", params, {}, [(x, y)] * BATCHES, layers, "mse_sum", sgd, linear_flops(4, (2, 1)))


#: Every workload by name.
WORKLOADS: dict[str, Callable[[], Workload]] = {
    "mlp": mlp,
    "linreg": linreg,
    "lenet": networks.lenet,
    "resnet": networks.resnet,
    "gpt": networks.gpt,
    "bigmlp": networks.bigmlp,
}


def make(name: str) -> Workload:
    """The workload of that name."""
    return WORKLOADS[name]()


def save(workload: Workload, path: Path) -> None:
    """Write its arrays, because NumPy's random streams may differ between the peers' versions."""
    arrays = {f"param/{name}": array for name, array in workload.params.items()}
    arrays |= {f"state/{name}": array for name, array in workload.states.items()}
    for i, (x, y) in enumerate(workload.batches):
        arrays |= {f"x/{i}": x, f"y/{i}": y}
    np.savez(path, allow_pickle=False, **arrays)


def load(name: str, path: Path) -> Workload:
    """The workload of that name, with the arrays written by `save`."""
    return filled(make(name), path)


def filled(workload: Workload, path: Path) -> Workload:
    """A workload with the arrays written by `save`."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}

    def group(prefix: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

    batches = list(zip(group("x/").values(), group("y/").values(), strict=True))
    return replace(workload, params=group("param/"), states=group("state/"), batches=batches)
