"""The exception hierarchy of adjoint.

::

    AdjointError
    ├── TypeRuleError       shapes or dtypes rejected by an operator or function     (also a TypeError)
    ├── InvalidValueError   an argument outside its allowed range                   (also a ValueError)
    │   ├── IndexRangeError     an axis or position that does not exist             (also an IndexError)
    │   └── NotFiniteError      NaN or infinity in what is computed                 (also a FloatingPointError)
    ├── NameLookupError     a function, parameter, operator or option with no such name (also a KeyError)
    ├── MissingAttributeError an attribute that an object does not have             (also an AttributeError)
    ├── ParseError          text that is not graph IR, with line and column          (also a ValueError)
    ├── VerifyError         a graph or kernel that breaks a rule of its IR
    ├── DifferentiationError  operators without a gradient on a path that needs one
    ├── VectorizationError  operators without a rule that depend on a mapped parameter
    ├── CompileError        a program that the compiler cannot lower for the target
    │   └── InternalError   a valid graph that adjoint fails to compile: a bug in adjoint
    ├── ReentryError        an entry point called from inside its own call          (also a RuntimeError)
    ├── WorkerError         a worker that died, hung, or raised what cannot be sent (also a RuntimeError)
    ├── DataError           a dataset that is missing, truncated or out of range     (also a ValueError)
    ├── CacheError          a cache directory that cannot be used                    (also an OSError)
    └── CheckpointError     a file of weights or of a trainer that cannot be read or written (also an OSError)
        └── MissingFileError    one that does not exist                             (also a FileNotFoundError)

    AdjointWarning          a valid program that is probably a mistake           (a UserWarning)

A message is one sentence: the rule, what was given, the fix. The line of user code that caused the error is
appended, because it is hard to find in a stack of compiler frames. It is the innermost line on the stack outside
adjoint, unless a transformation is working on a value (`located`): then it is the line that created that value.
"""

import inspect
import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any

__all__ = [
    "AdjointError",
    "AdjointWarning",
    "CacheError",
    "CheckpointError",
    "CompileError",
    "DataError",
    "DifferentiationError",
    "IndexRangeError",
    "InternalError",
    "InvalidValueError",
    "MissingAttributeError",
    "MissingFileError",
    "NameLookupError",
    "NotFiniteError",
    "ParseError",
    "ReentryError",
    "TypeRuleError",
    "VectorizationError",
    "VerifyError",
    "WorkerError",
    "described",
    "is_machinery",
    "listed",
    "located",
    "own_bugs_reported",
    "plural",
    "require_call",
    "short_line",
    "user_line",
    "value_line",
    "warn",
]

#: Number of lines from which a graph is written to a file instead of a terminal.
_LONG_GRAPH = 100

#: Directories of adjoint and of the standard library, without symbolic links: a frame may name a file by another path.
_PACKAGE = os.path.join(os.path.realpath(Path(__file__).parent), "")
_LIBRARY = os.path.join(os.path.realpath(Path(os.__file__).parent), "")

#: Parts of adjoint that write graphs as a user does: lines in them count as lines of a model, a loss, an optimizer.
_GRAPH_CODE = tuple(os.path.join(_PACKAGE, name) for name in ("models.py", f"losses{os.sep}", f"optim{os.sep}"))

#: The line that values and errors get while a value is transformed; None outside of that.
_LOCATED: ContextVar[str | None] = ContextVar("adjoint_line", default=None)


@cache
def is_machinery(filename: str) -> bool:
    """Whether a file belongs to adjoint or the standard library, or is no file."""
    found = os.path.realpath(filename)
    library = found.startswith(_LIBRARY) and "site-packages" not in found
    return library or found.startswith(_PACKAGE) or filename.startswith("<")


@cache
def _writes_graphs(filename: str) -> bool:
    return not is_machinery(filename) or os.path.realpath(filename).startswith(_GRAPH_CODE)


def user_line() -> str | None:
    """``file:line`` of the innermost stack frame outside adjoint and the standard library's machinery."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if not is_machinery(frame.f_code.co_filename):
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return None


def is_user_line(line: str) -> bool:
    """Whether ``file:line`` is outside adjoint and the standard library's machinery."""
    return not is_machinery(line.rpartition(":")[0])


def value_line() -> str:
    """``file:line`` of the code that is creating a value, "" if it is unknown.

    Within `located`, it is that line. Otherwise it is the innermost line on the stack of user code, or of adjoint's own
    models, losses and optimizers, which write graphs as users do.
    """
    line = _LOCATED.get()
    if line is not None:
        return line
    frame: FrameType | None = sys._getframe(2)  # that of what called `apply` or `param`
    while frame is not None:
        filename = frame.f_code.co_filename
        if _writes_graphs(filename):
            return f"{filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def short_line(line: str) -> str:
    """A line without the folder of its file, ``file.py:12``, on one line of text."""
    return line.replace("\\", "/").rpartition("/")[2].replace("\n", " ")


class located:  # noqa: N801
    """A context in which values that are created, and errors that are raised, get a given line.

    Transformations of graphs use it around the work on one value: what they derive from the value then has its line,
    and an error is reported where the user wrote the value, not where the transformation was started. It applies to the
    current thread only.

    Parameters
    ----------
    line : str
        ``file:line``; with "", the line of values is unknown, and errors get that of the innermost user code.
    """

    __slots__ = ("_line", "_token")
    _token: Token[str | None]

    def __init__(self, line: str) -> None:
        self._line = line

    def __enter__(self) -> None:
        self._token = _LOCATED.set(self._line)

    def __exit__(self, *_error: object) -> None:
        _LOCATED.reset(self._token)


class AdjointError(Exception):
    """Base class of all exceptions raised by adjoint.

    Attributes
    ----------
    message : str
        The sentence, without the location.
    where : str or None
        ``file:line`` of the user's code, or None if it is unknown.
    """

    def __init__(self, message: str) -> None:
        self.message = message
        self.where = _LOCATED.get() or user_line()
        super().__init__(message if self.where is None else f"{message} [at {self.where}]")

    def __str__(self) -> str:
        return str(self.args[0])

    def begin_with(self, caller: str, called: str) -> None:
        """Replace the function that the message begins with by the one that the user called."""
        if self.message.startswith((f"{called}:", f"{called} ")):
            message = caller + self.message.removeprefix(called)
            self.args = (message + str(self.args[0]).removeprefix(self.message),)
            self.message = message

    def __reduce__(self) -> tuple[Any, ...]:
        # Not by calling the class, which would append the line of the process that unpickles.
        return _restored, (type(self), self.args, self.__dict__)


def _restored(cls: type[AdjointError], args: tuple[Any, ...], state: dict[str, Any]) -> AdjointError:
    """A pickled error, with its message and attributes as they were."""
    error = cls.__new__(cls, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class TypeRuleError(AdjointError, TypeError):
    """Shapes or dtypes rejected by an operator or function."""


class InvalidValueError(AdjointError, ValueError):
    """An argument outside its allowed range."""


class IndexRangeError(InvalidValueError, IndexError):
    """An axis, or a position along an axis, that does not exist."""


class NotFiniteError(InvalidValueError, FloatingPointError):
    """NaN or infinity in what is computed."""


class NameLookupError(AdjointError, KeyError):
    """A function, parameter, operator or option with no such name."""


class MissingAttributeError(AdjointError, AttributeError):
    """An attribute that an object does not have, where the message can say what to use instead."""


class ParseError(AdjointError, ValueError):
    """Text that is not graph IR.

    Attributes
    ----------
    line, column : int
        Location of the error, counted from 1; 0 if it has no location in the text.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class VerifyError(AdjointError):
    """A graph or kernel that breaks a rule of its IR."""


class DifferentiationError(AdjointError):
    """Operators without a gradient on a path that needs one."""


class VectorizationError(AdjointError):
    """Operators without a rule that depend on a mapped parameter."""


class CompileError(AdjointError):
    """A program that the compiler cannot lower for the target."""


class InternalError(CompileError):
    """A valid graph that adjoint fails to compile: a bug in adjoint, to be reported.

    Attributes
    ----------
    graph : str
        The graph's text. It is also added as a note, so that tracebacks show it; a long graph is written to a temporary
        file, which the note names.
    """

    def __init__(self, message: str, graph: str) -> None:
        super().__init__(message)
        self.graph = graph
        self.add_note(graph if graph.count("\n") < _LONG_GRAPH else _kept(graph))


def _kept(graph: str) -> str:
    """Write a graph to a temporary file and return a note with its path; the graph itself if that fails."""
    try:
        with tempfile.NamedTemporaryFile("w", prefix="adjoint-", suffix=".txt", delete=False, encoding="utf-8") as file:
            file.write(graph)
    except OSError:
        return graph
    return f"the graph, {graph.count(chr(10)) + 1} lines, is in {file.name}"


class ReentryError(AdjointError, RuntimeError):
    """An entry point called from inside its own call."""


class WorkerError(AdjointError, RuntimeError):
    """A worker that prepares data and died, hung, or raised an exception that cannot be sent."""


class DataError(AdjointError, ValueError):
    """A dataset that is missing, truncated or out of range."""


class CacheError(AdjointError, OSError):
    """A cache directory that cannot be used."""


class CheckpointError(AdjointError, OSError):
    """A file of weights or of a trainer that cannot be read or written."""


class MissingFileError(CheckpointError, FileNotFoundError):
    """A file of weights or of a trainer that does not exist."""


class AdjointWarning(UserWarning):
    """A valid program that is probably a mistake, such as a parameter that cannot be trained.

    ``warnings.filterwarnings("ignore", category=AdjointWarning)`` silences all of them.
    """


def warn(message: str, line: str = "") -> None:
    """Warn the user, at the innermost line on the stack outside adjoint.

    Parameters
    ----------
    message : str
        One sentence, as of an error.
    line : str, default ""
        ``file:line`` of the value that the warning is about, which is appended; "" if it is unknown.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and is_machinery(frame.f_code.co_filename):
        frame = frame.f_back
    text = f"{message} [at {line}]" if line else message
    if frame is None:  # no code of the user is on the stack, as in a command of adjoint
        warnings.warn_explicit(text, AdjointWarning, "adjoint", 1)
        return
    # With the registry of the caller's module, as `warnings.warn` would use it, a repeated call warns once.
    registry = frame.f_globals.setdefault("__warningregistry__", {})
    module = frame.f_globals.get("__name__", "")
    warnings.warn_explicit(text, AdjointWarning, frame.f_code.co_filename, frame.f_lineno, module, registry)


def plural(count: int, noun: str) -> str:
    """A number and a noun with a regular plural: ``1 argument``, ``2 arguments``."""
    return f"{count} {noun}{'' if count == 1 else 's'}"


def listed(items: Sequence[object], most: int = 4) -> str:
    """Items separated by commas; of a long list the first ones and how many there are more."""
    shown = list(map(str, items[:most]))
    return ", ".join(shown + [f"{len(items) - most} more"] * (len(items) > most))


def described(given: object) -> str:
    """What a user's function returned, in words: None with the usual cause, numbers, otherwise the type."""
    if given is None:
        return "None (is a return missing?)"
    if isinstance(given, bool | int | float | str):
        return f"the {type(given).__name__} {given!r}"
    if isinstance(given, tuple):
        return f"a tuple of {len(given)}"
    return f"an object of type {type(given).__name__}"


def kind_of(given: object) -> str:
    """The kind of an object that was passed in place of another: ``a Function``, ``the class Adam``, ``None``."""
    if given is None:
        return "None"
    if isinstance(given, type):
        return f"the class {given.__name__}"
    name = type(given).__name__
    return f"{'an' if name[0] in 'AEIOaeio' else 'a'} {name}"


def require_call(name: str, function: Callable[..., object], args: Sequence[object], what: str) -> None:
    """Raise unless a user's function can be called with these arguments.

    Parameters
    ----------
    name : str
        Name of the function.
    function : callable
        The function.
    args : sequence
        Positional arguments.
    what : str
        What the arguments are, for the message.

    Raises
    ------
    TypeRuleError
        If its signature does not fit.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # some built-in functions have none
        return
    try:
        signature.bind(*args)
    except TypeError:
        raise TypeRuleError(
            f"{name} is called with {plural(len(args), 'argument')}, {what}, but its signature is {signature}; correct "
            "the signature"
        ) from None


@contextmanager
def own_bugs_reported(name: str, graph: Callable[[], str]) -> Iterator[None]:
    """Convert unexpected exceptions for a valid graph into an `InternalError` that includes its text.

    Deliberate errors and failures of the machine (memory and files) are passed through unchanged.

    Parameters
    ----------
    name : str
        Name of the function being compiled.
    graph : callable
        Returns its text; called only in case of an error.
    """
    try:
        yield
    except (CompileError, InvalidValueError, MemoryError, OSError):
        raise
    except Exception as error:
        cause, where = f"{type(error).__name__}: {error}", ""
        if isinstance(error, AdjointError):
            cause, where = error.message, error.where or ""
        with located(where):
            raise InternalError(
                f"@{name} is a valid graph, but compiling it failed, which is a bug in adjoint ({cause}); please "
                "report it together with the graph below",
                graph(),
            ) from error
