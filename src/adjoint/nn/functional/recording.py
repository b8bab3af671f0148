"""How the functions of this package are recorded: one entry of the program per call."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeAlias, TypeVar

from adjoint.tensor.record import operation, record, record_in_place, record_unary
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["Array", "elementwise", "recorded"]

#: A Tensor or, while a graph is built, a graph Value.
Array: TypeAlias = Any

_P = ParamSpec("_P")
_R = TypeVar("_R")


def recorded(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function of graph values that also takes tensors; its numbers are settings, which are part of the program."""
    return operation(function, numbers=False)


def elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    """Like `recorded`, for a function of one tensor that may be computed in place, with the keyword ``inplace``."""
    entry = Operation(function, numbers=False)

    @wraps(function)
    def called(input: Array, *settings: Any, inplace: bool = False, **keywords: Any) -> Array:
        if inplace and isinstance(input, Recorded):
            return record_in_place(entry, input, *settings, **keywords)
        if settings or keywords or not isinstance(input, Recorded):
            return record(entry, (input, *settings), keywords)
        return record_unary(entry, input)

    called.entry = entry  # type: ignore[attr-defined]
    return called
