"""`mindspore.common.api`: functions that are compiled as a whole."""

from collections.abc import Callable
from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.func.jit import jit as compiled
from adjoint.tensor.generator import manual_seed

__all__ = ["jit", "ms_function", "set_seed"]


def jit(fn: Callable[..., Any] | None = None, **_options: Any) -> Any:
    """`adjoint.jit`, as ``@jit`` or ``@jit(...)``; options, which choose a compiler of MindSpore, have no effect."""
    return compiled if fn is None else compiled(fn)


ms_function = jit


def set_seed(seed: int) -> None:
    """Seed adjoint's generator, and NumPy's global one, as MindSpore does."""
    manual_seed(seed)
    np.random.seed(seed)


__getattr__ = uncovered(__name__, {}, "adjoint.jit")
