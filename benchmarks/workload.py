"""The definition of a workload, and parts that several networks share."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["BATCHES", "Workload", "images", "layers", "linear_flops"]

#: Number of batches of a workload, which a run uses cyclically.
BATCHES = 8


@dataclass(frozen=True, slots=True, eq=False)
class Workload:
    """A model with its data and training settings.

    Parameters
    ----------
    name : str
        A key of `WORKLOADS`.
    params, states : dict of str to numpy.ndarray
        Initial values in f32: of parameters, and of states that a step updates without a gradient.
    batches : list of pairs of numpy.ndarray
        Inputs and targets, f32 or i32.
    forward : callable
        ``forward(ops, params, x)`` builds the network: logits or predictions.
    loss : str
        "ce_sum" or "ce_mean" for cross-entropy with class indices, "mse_sum" or "mse_mean" for squared error.
    opt : dict
        ``kind`` is "sgd", "adam" or "adamw"; ``lr``; and, if used, ``momentum``, ``wd``, ``betas`` and ``eps``.
    flops : int
        Floating-point operations per step, in matrix products and convolutions only.
    tolerance : float, default 1e-4
        Maximum relative difference of the first losses of two peers.
    """

    name: str
    params: dict[str, np.ndarray]
    states: dict[str, np.ndarray]
    batches: list[tuple[np.ndarray, np.ndarray]]
    forward: Callable[[Any, Mapping[str, Any], Any], Any]
    loss: str
    opt: dict[str, Any]
    flops: int
    tolerance: float = 1e-4

    @property
    def linear(self) -> set[str]:
        """Names of the [in, out] matrices used by ``linear``."""
        return {name for name, array in self.params.items() if array.ndim == 2 and name not in ("wte", "wpe")}


def layers(o: Any, p: Mapping[str, Any], x: Any) -> Any:
    """Linear layers ``w0, b0, w1, b1, ...`` with relu between them; biases are optional."""
    count = sum(name.startswith("w") for name in p)
    for i in range(count):
        x = o.linear(x, p[f"w{i}"], p.get(f"b{i}"))
        x = o.relu(x) if i < count - 1 else x
    return x


def linear_flops(batch: int, sizes: Sequence[int]) -> int:
    """Floating-point operations of the forward pass and of both gradients of each layer; the first needs only one."""
    forward = [2 * batch * a * b for a, b in pairwise(sizes)]
    return 3 * sum(forward) - forward[0]


def images(rng: np.random.Generator, shape: tuple[int, ...], classes: int) -> list[tuple[np.ndarray, np.ndarray]]:
    """A pattern per class plus noise, so that there is something to learn."""
    patterns = rng.standard_normal((classes, *shape[1:])) / 4
    labels = rng.integers(0, classes, (BATCHES, shape[0]))
    return [((rng.standard_normal(shape) / 2 + patterns[y]).astype(np.float32), y.astype(np.int32)) for y in labels]
