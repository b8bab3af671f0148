"""Every error that adjoint raises, in one tree.

::

    AdjointError
    ├── TypeRuleError       shapes or dtypes that an operator or function refuses   (also a TypeError)
    ├── InvalidValueError   an argument outside what is allowed                     (also a ValueError)
    ├── NameLookupError     a function, parameter, operator or option with no such name (also a KeyError)
    ├── ParseError          text that is not graph IR, with line and column          (also a ValueError)
    ├── VerifyError         a graph or kernel that breaks a rule of its IR
    ├── DifferentiationError  operators without a gradient on the path that needs one
    ├── CompileError        a program that the compiler cannot lower for the target
    │   └── InternalError   a valid graph of which adjoint cannot make code: its own bug
    ├── ReentryError        an entry point called from inside its own call          (also a RuntimeError)
    ├── DataError           a dataset that is missing, truncated or out of range     (also a ValueError)
    └── CacheError          a cache directory that cannot be used                    (also an OSError)

A message is one sentence: the rule, what was given, the fix. The line of the user's own code that led to the
error is appended to it, because inside a stack of compiler frames that line is hard to find.
"""

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = [
    "AdjointError",
    "CacheError",
    "CompileError",
    "DataError",
    "DifferentiationError",
    "InternalError",
    "InvalidValueError",
    "NameLookupError",
    "ParseError",
    "ReentryError",
    "TypeRuleError",
    "VerifyError",
    "own_bugs_reported",
]

#: Lines from which on a graph is written to a file instead of a terminal.
_LONG_GRAPH = 100

_PACKAGE = str(Path(__file__).parent)
_LIBRARY = str(Path(os.__file__).parent)


def _user_line() -> str | None:
    """``file:line`` of the innermost stack frame outside adjoint and the standard library's machinery."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        library = filename.startswith(_LIBRARY) and "site-packages" not in filename
        if not library and not filename.startswith((_PACKAGE, "<")):
            return f"{filename}:{frame.f_lineno}"
        frame = frame.f_back  # type: ignore[assignment]
    return None


class AdjointError(Exception):
    """Base of everything that adjoint raises.

    Attributes
    ----------
    message : str
        The sentence, without the place.
    where : str or None
        ``file:line`` of the user's code, or None where there is none on the stack.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        self.where = _user_line()
        super().__init__(message if self.where is None else f"{message} [at {self.where}]")

    def __str__(self) -> str:
        return str(self.args[0])


class TypeRuleError(AdjointError, TypeError):
    """Shapes or dtypes that an operator or function refuses."""


class InvalidValueError(AdjointError, ValueError):
    """An argument outside what is allowed."""


class NameLookupError(AdjointError, KeyError):
    """A function, parameter, operator or option with no such name."""


class ParseError(AdjointError, ValueError):
    """Text that is not graph IR.

    Attributes
    ----------
    line, column : int
        Where it went wrong, counted from 1; 0 where the text has no place for it.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class VerifyError(AdjointError):
    """A graph or kernel that breaks a rule of its IR."""


class DifferentiationError(AdjointError):
    """Operators without a gradient on the path that needs one."""


class CompileError(AdjointError):
    """A program that the compiler cannot lower for the target."""


class InternalError(CompileError):
    """A valid graph of which adjoint cannot make code: a bug in adjoint, to be reported.

    Attributes
    ----------
    graph : str
        The graph's text. It is a note of the error too, so that tracebacks show it; where it is long, the note names a
        file that holds it.
    """

    def __init__(self, message: str, graph: str) -> None:
        super().__init__(message)
        self.graph = graph
        self.add_note(graph if graph.count("\n") < _LONG_GRAPH else _kept(graph))


def _kept(graph: str) -> str:
    """Write a graph to a file of its own, and say where it is; the graph itself where that fails."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="adjoint-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(graph)
    except OSError:
        return graph
    return f"the graph, {graph.count(chr(10)) + 1} lines, is in {file.name}"


class ReentryError(AdjointError, RuntimeError):
    """An entry point that is called from inside its own call."""


class DataError(AdjointError, ValueError):
    """A dataset that is missing, truncated or out of range."""


class CacheError(AdjointError, OSError):
    """A cache directory that cannot be used."""


@contextmanager
def own_bugs_reported(name: str, graph: Callable[[], str]) -> Iterator[None]:
    """Raise what goes wrong with a valid graph as an `InternalError` that shows it.

    What is refused on purpose stays as it is, and so does what is wrong with the machine: memory and files.

    Parameters
    ----------
    name : str
        The function that is compiled.
    graph : callable
        Its text, asked for only where something goes wrong.
    """
    try:
        yield
    except (CompileError, InvalidValueError, MemoryError, OSError):
        raise
    except Exception as error:
        cause = error.message if isinstance(error, AdjointError) else f"{type(error).__name__}: {error}"
        raise InternalError(
            f"@{name} is a valid graph, but compiling it failed, which is a bug in adjoint ({cause}); please report it "
            "together with the graph below",
            graph(),
        ) from error
