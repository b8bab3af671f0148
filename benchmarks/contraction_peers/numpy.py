"""NumPy: matrix products by its BLAS, written to a resident array. There are no convolutions and no attention."""

from collections.abc import Callable
from functools import partial

import numpy as np

from benchmarks.contraction_cases import Case

MODES = ("matmul",)


def prepare(
    case: Case,
    mode: str,  # noqa: ARG001
    threads: int,  # noqa: ARG001
    left: np.ndarray,
    right: np.ndarray,
) -> tuple[Callable[[], object], Callable[[], np.ndarray]] | None:
    """A function that runs the contraction once, and one that returns its result; None for anything else, or
    16 bits."""
    if case.dtype != "f32" or not case.kind.startswith("matmul"):
        return None
    made = np.empty(case.result, np.float32)
    a, b = (x.swapaxes(-1, -2) if turned else x for x, turned in zip((left, right), case.transposed, strict=True))
    run = partial(np.matmul, a, b, out=made)
    return run, lambda: made
