"""``torch.compile`` with PyTorch's arguments."""

from collections.abc import Callable
from functools import partial
from typing import Any

from adjoint.func.jit import jit
from adjoint.modules import Module

__all__ = ["compile"]


def compile(
    model: Callable[..., Any] | None = None,
    *,
    fullgraph: bool = False,
    dynamic: bool | None = None,
    backend: Any = "inductor",
    mode: str | None = None,
    options: Any = None,
    disable: bool = False,
) -> Any:
    """A function as `adjoint.jit` compiles it; a module as it is, because what it records is compiled anyway.

    Parameters
    ----------
    model : callable, optional
        A function or module; without it, a decorator is returned.
    fullgraph, dynamic, backend, mode, options
        Accepted, without an effect.
    disable : bool, default False
        Return the function as it is.
    """
    if model is None:
        settings = {"fullgraph": fullgraph, "dynamic": dynamic, "backend": backend, "mode": mode}
        return partial(compile, options=options, disable=disable, **settings)
    return model if disable or isinstance(model, Module) else jit(model)
