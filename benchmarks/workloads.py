"""What is trained: shapes, data, initial weights, networks, losses and optimizers.

A network is written once, over a namespace of operators that each peer supplies, so that all peers compute the same
function:

    linear(x, w, b)          w is [in, out] (a peer may keep it transposed), b may be None
    conv(x, w, b, stride, pad)   NCHW and OIHW, b may be None
    relu(x), gelu(x) (its erf form), add(a, b), reshape(x, shape), transpose(x, axes)
    maxpool2(x)              2x2 with stride 2
    batchnorm(x, name)       of the batch; parameters name.g and name.b, states name.mean and name.var
    avgpool(x)               over the pixels, [N, C, H, W] -> [N, C]
    flatten(x)               [N, C, H, W] -> [N, C*H*W]
    embed(table, ids)        rows of the table
    pos(table, ids)          the whole table, for every row of ids
    layernorm(x, g)          over the last axis, eps 1e-5, no bias
    attention(q, k, v)       [B, H, T, D], causal, scaled by 1/sqrt(D)
    split3(x)                three equal parts of the last axis
    head(x, table)           x @ table.T

A further workload is one more function in `WORKLOADS`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

__all__ = ["BATCHES", "WORKLOADS", "Workload", "load", "make", "save"]

#: Batches of a workload, taken in turn.
BATCHES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A model with its data, and how it is trained.

    Parameters
    ----------
    name : str
        A key of `WORKLOADS`.
    params, states : dict of str to numpy.ndarray
        Initial values in f32: parameters, and what a step updates without a gradient.
    batches : list of pairs of numpy.ndarray
        Inputs and targets, f32 or i32.
    forward : callable
        ``forward(ops, params, x)`` builds the network: logits or predictions.
    loss : str
        "ce_sum" or "ce_mean" for cross-entropy with class indices, "mse_sum" or "mse_mean" for squared error.
    opt : dict
        ``kind`` is "sgd", "adam" or "adamw"; ``lr``, and where they are used ``momentum``, ``wd``, ``betas``, ``eps``.
    flops : int
        Floating-point operations of a step, in matrix products and convolutions alone.
    """

    name: str
    params: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
    batches: list[tuple[np.ndarray, np.ndarray]]
    forward: Callable[[Any, Mapping[str, Any], Any], Any]
    loss: str
    opt: dict[str, Any]
    flops: int

    @property
    def linear(self) -> set[str]:
        """Names of the [in, out] matrices that ``linear`` takes."""
        return {name for name, array in self.params.items() if array.ndim == 2 and name not in ("wte", "wpe")}


def _layers(o: Any, p: Mapping[str, Any], x: Any) -> Any:
    """Linear layers ``w0, b0, w1, b1, ...`` with relu between them; a layer may have no bias."""
    count = sum(name.startswith("w") for name in p)
    for i in range(count):
        x = o.linear(x, p[f"w{i}"], p.get(f"b{i}"))
        x = o.relu(x) if i < count - 1 else x
    return x


def _linear_flops(batch: int, sizes: Sequence[int]) -> int:
    """Forward, and both gradients of every layer but the first, whose input needs none."""
    forward = [2 * batch * a * b for a, b in pairwise(sizes)]
    return 3 * sum(forward) - forward[0]


def _images(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """Noise over a pattern of the image's class, so that there is something to learn."""
    patterns = rng.standard_normal((classes, *shape[1:])) / 4
    labels = rng.integers(0, classes, (BATCHES, shape[0]))
    return [((rng.standard_normal(shape) / 2 + patterns[y]).astype(np.float32), y.astype(np.int32)) for y in labels]


def mlp() -> Workload:
    """The multilayer perceptron of TVM's training tutorial, with its loss and its optimizer."""
    rng, sizes, batch = np.random.default_rng(0), (784, 128, 128, 10), 64
    params = {}
    for i, (a, b) in enumerate(pairwise(sizes)):
        params[f"w{i}"] = (rng.standard_normal((a, b)) * np.sqrt(2 / a)).astype(np.float32)
        params[f"b{i}"] = np.zeros(b, np.float32)
    sgd = {"kind": "sgd", "lr": 0.01, "wd": 0.01}
    batches = _images(rng, (batch, sizes[0]), sizes[-1])
    return Workload("mlp", params, {}, batches, _layers, "ce_sum", sgd, _linear_flops(batch, sizes))


def linreg() -> Workload:
    """Four rows of y = 2 a + 3 b, which OneFlow's tutorial fits: a step that costs what a step costs at least."""
    x = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
    y = x @ np.array([[2], [3]], np.float32)
    params = {"w0": np.random.default_rng(0).standard_normal((2, 1)).astype(np.float32)}
    sgd = {"kind": "sgd", "lr": 0.01}
    return Workload("linreg", params, {}, [(x, y)] * BATCHES, _layers, "mse_sum", sgd, _linear_flops(4, (2, 1)))


#: Every workload by name.
WORKLOADS: dict[str, Callable[[], Workload]] = {"mlp": mlp, "linreg": linreg}


def make(name: str) -> Workload:
    """The workload of that name."""
    return WORKLOADS[name]()


def save(workload: Workload, path: Path) -> None:
    """Write its arrays: NumPy's random streams may differ between the versions that peers have."""
    arrays = {f"param/{name}": array for name, array in workload.params.items()}
    arrays |= {f"state/{name}": array for name, array in workload.states.items()}
    for i, (x, y) in enumerate(workload.batches):
        arrays |= {f"x/{i}": x, f"y/{i}": y}
    np.savez(path, allow_pickle=False, **arrays)


def load(name: str, path: Path) -> Workload:
    """The workload of that name, with the arrays that `save` wrote."""
    with np.load(path) as file:
        arrays = {key: file[key] for key in file.files}

    def group(prefix: str) -> dict[str, np.ndarray]:
        return {key.removeprefix(prefix): array for key, array in arrays.items() if key.startswith(prefix)}

    batches = list(zip(group("x/").values(), group("y/").values(), strict=True))
    return replace(make(name), params=group("param/"), states=group("state/"), batches=batches)
