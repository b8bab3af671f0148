"""The arguments of compiled functions: static ones, their names and positions."""

from collections.abc import Callable, Sequence
from functools import wraps
from inspect import signature
from typing import Any

import numpy as np

from adjoint.errors import NameLookupError, TypeRuleError, kind_of
from adjoint.ir import TensorType
from adjoint.tensor.tensor import Tensor, from_array

__all__ = ["Static", "hashable", "plain_name", "positions_of", "unwrapping", "zeros"]


class Static:
    """A static argument."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Static) and type(self.value) is type(other.value) and bool(self.value == other.value)

    def __hash__(self) -> int:
        return hash(self.value)


def zeros(type_: TensorType) -> Tensor:
    """A tensor that stands for an argument that is given by its type."""
    return from_array(np.zeros(type_.shape, type_.dtype), copy=False)


def hashable(name: str, leaf: Any) -> Any:
    """The argument of a function; raises if it cannot be a key."""
    try:
        hash(leaf)
    except TypeError:
        raise TypeRuleError(
            f"jit: the arguments of {name} must be tensors, arrays or hashable objects, got {kind_of(leaf)}; convert "
            "it, or let the function use it as a global"
        ) from None
    return leaf


def unwrapping(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, called with static arguments as they were given."""

    @wraps(function, updated=())
    def call(*args: Any, **keywords: Any) -> Any:
        return function(
            *[arg.value if isinstance(arg, Static) else arg for arg in args],
            **{name: item.value if isinstance(item, Static) else item for name, item in keywords.items()},
        )

    return call


def positions_of(function: Callable[..., Any], names: Sequence[str]) -> tuple[int, ...]:
    """The positions of parameters."""
    known = list(signature(function).parameters)
    for name in names:
        if name not in known:
            raise NameLookupError(
                f"jit: dynamic names parameters of the function, got {name!r}; known parameters: {', '.join(known)}"
            )
    return tuple(known.index(name) for name in names)


def plain_name(name: str) -> str:
    """The name of a function as a name in a graph."""
    found = "".join(c if c.isalnum() or c == "_" else "_" for c in name).strip("_")
    return found if found and not found[0].isdigit() else "function"
