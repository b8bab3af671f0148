"""Functions of the user: what they are called with, and errors that say where they failed."""

import inspect
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from adjoint.data.draw import Draw
from adjoint.errors import DataError, TypeRuleError, is_machinery, kind_of, located

__all__ = ["UserFunction", "failed", "name_of"]

#: The name of the argument for which a random generator is passed.
_RNG = "rng"


class UserFunction:
    """A function that an operation calls with values of columns, and with a random generator if it takes `rng`.

    Parameters
    ----------
    operation : str
        Name of the operation, for errors.
    function : callable
        The function.

    Attributes
    ----------
    takes_rng : bool
        Whether it has a parameter `rng`.
    """

    def __init__(self, operation: str, function: object) -> None:
        if not callable(function):
            raise TypeRuleError(f"{operation} takes a function, got {kind_of(function)}; pass something callable")
        self._operation = operation
        self._function: Callable[..., Any] = function
        self._parameters = _parameters(function)
        self.takes_rng = any(p.name == _RNG and p.kind is not p.POSITIONAL_ONLY for p in self._parameters)

    def takes(self, columns: int) -> int:
        """How many of that many columns it takes: its parameters without a default, or all for ``*args``."""
        kinds = [p for p in self._parameters if p.name != _RNG]
        if any(p.kind is p.VAR_POSITIONAL for p in kinds):
            return columns
        required = [p for p in kinds if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
        return max(1, min(len(required), columns))

    def __call__(self, values: Sequence[Any], rng: object, draw: Draw, index: int) -> Any:
        """Call it for one item, with `rng` if it takes one.

        Raises
        ------
        DataError
            If it raises an exception.
        """
        try:
            return self._function(*values, rng=rng) if self.takes_rng else self._function(*values)
        except Exception as error:
            what = f"{self._operation}: {name_of(self._function)}"
            raise failed(error, what, f"item {index} of epoch {draw.epoch}", "correct the function") from error


def failed(error: Exception, what: str, item: str, fix: str) -> DataError:
    """The error that says which function of the user failed, for which item and on which line."""
    said = str(getattr(error, "message", error)).strip().partition("\n")[0]
    with located(_line_of(error.__traceback__)):
        return DataError(f"{what} raised {type(error).__name__}{f' ({said})' if said else ''} for {item}; {fix}")


def name_of(function: object) -> str:
    """The name of a function, or the class of another callable object."""
    return str(getattr(function, "__name__", type(function).__name__))


def _line_of(trace: TracebackType | None) -> str:
    """``file:line`` of the innermost line of the user in a traceback, "" if there is none."""
    line = ""
    while trace is not None:
        filename = trace.tb_frame.f_code.co_filename
        if not is_machinery(filename):
            line = f"{filename}:{trace.tb_lineno}"
        trace = trace.tb_next
    return line


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # some built-in functions and ufuncs have no signature
        return []
