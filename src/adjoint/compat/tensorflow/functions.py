"""``tf.function``: a Python function compiled as a whole."""

from collections.abc import Callable
from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.func.jit import jit

__all__ = ["function"]
__getattr__ = uncovered(__name__, {}, "adjoint.jit")


def function(func: Callable[..., Any] | None = None, **_: Any) -> Any:
    """Compile a function as a whole, by `adjoint.jit`; options such as ``jit_compile`` have no effect."""
    return function if func is None else jit(func)
