"""adjoint, with the examples as they are."""

from collections.abc import Callable
from typing import Any

import adjoint

MODES = ("objects",)
INT = "int64"

#: Environment variables with the directories of compile caches.
CACHES = ("ADJOINT_CACHE",)


def build(w: Any, mode: str, threads: int) -> tuple[Callable[..., Any], Callable[[Any], float]]:  # noqa: ARG001
    """The step of a network, and a function that reads its loss."""
    adjoint.set_num_threads(threads)
    train = w.begin(adjoint, lambda function: function)
    return lambda *batch: train(*map(adjoint.from_numpy, batch)), float
