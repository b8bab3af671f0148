"""PyTorch, with the examples whose imports are replaced: eager, and with torch.compile of the models and the update."""

from collections.abc import Callable
from typing import Any

import torch

MODES = ("eager", "compile")
INT = "int64"

#: Environment variables with the directories of compile caches, and the modes that use them.
CACHES = ("TORCHINDUCTOR_CACHE_DIR",)
CACHED_MODES = ("compile",)


def build(w: Any, mode: str, threads: int) -> tuple[Callable[..., Any], Callable[[Any], float]]:
    """The step of a network, and a function that reads its loss."""
    torch.set_num_threads(threads)
    train = w.begin(torch, torch.compile if mode == "compile" else lambda function: function)
    return lambda *batch: train(*map(torch.from_numpy, batch)), float
