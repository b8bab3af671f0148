"""Axis 0 of tensors without axes: as in PyTorch, functions along an axis treat them as vectors of one element."""

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any, ParamSpec, TypeVar

from adjoint.ir import Value
from adjoint.tensor.shapes import reshape
from adjoint.tensor.trace import Recorded

__all__ = ["accepts_scalars", "as_vector"]

_P = ParamSpec("_P")
_R = TypeVar("_R")


def as_vector(x: Any) -> Any:
    """A tensor without axes as a vector; anything else as it is."""
    return reshape(x, (1,)) if getattr(x, "shape", None) == () and isinstance(x, Value | Recorded) else x


def accepts_scalars(*others: str) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Let a function along an axis take a tensor without axes as its first argument; its results then have none too.

    Parameters
    ----------
    *others : str
        Further parameters that are tensors with as many axes as the first one.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        parameters = signature(function)
        axes = [name for name in ("dim", "axis") if name in parameters.parameters]

        @wraps(function)
        def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
            x: Any = args[0] if args else None
            if x is None or x.shape:
                return function(*args, **keywords)
            given = parameters.bind(*args, **keywords)
            if axes and all(given.arguments.get(name) is None for name in axes):
                return function(*args, **keywords)
            for name in (next(iter(given.arguments)), *others):
                if name in given.arguments:
                    given.arguments[name] = as_vector(given.arguments[name])
            made: Any = function(*given.args, **given.kwargs)
            found: Any = tuple([reshape(part, ()) for part in made]) if isinstance(made, tuple) else reshape(made, ())
            return found  # type: ignore[no-any-return]

        return called

    return decorate
