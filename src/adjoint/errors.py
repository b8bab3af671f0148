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
    ├── ReentryError        an entry point called from inside its own call          (also a RuntimeError)
    ├── DataError           a dataset that is missing, truncated or out of range     (also a ValueError)
    └── CacheError          a cache directory that cannot be used                    (also an OSError)

A message is one sentence: the rule, what was given, the fix. The line of the user's own code that led to the
error is appended to it, because inside a stack of compiler frames that line is hard to find.
"""

import sys
from pathlib import Path

__all__ = [
    "AdjointError",
    "CacheError",
    "CompileError",
    "DataError",
    "DifferentiationError",
    "InvalidValueError",
    "NameLookupError",
    "ParseError",
    "ReentryError",
    "TypeRuleError",
    "VerifyError",
]

_PACKAGE = str(Path(__file__).parent)


def _user_line() -> str | None:
    """``file:line`` of the innermost stack frame outside adjoint and the standard library's machinery."""
    frame = sys._getframe(1)
    while frame is not None:
        filename = frame.f_code.co_filename
        if not filename.startswith((_PACKAGE, "<")):
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


class ReentryError(AdjointError, RuntimeError):
    """An entry point that is called from inside its own call."""


class DataError(AdjointError, ValueError):
    """A dataset that is missing, truncated or out of range."""


class CacheError(AdjointError, OSError):
    """A cache directory that cannot be used."""
