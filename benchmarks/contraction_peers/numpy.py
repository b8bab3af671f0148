"""NumPy: products of matrices by its BLAS, written to an array that stays. It has no convolutions."""

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
    """What runs the contraction once, and what gives its result; None for a convolution."""
    if not case.kind.startswith("matmul"):
        return None
    made = np.empty(case.result, np.float32)
    run = partial(np.matmul, left.T if case.kind == "matmul_ta" else left, right, out=made)
    return run, lambda: made
