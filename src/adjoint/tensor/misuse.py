"""What is wrong with a call that fails inside of a function: an argument that is no tensor, or of another kind."""

from collections.abc import Mapping, Sequence
from inspect import Signature, signature
from typing import Any

import numpy as np

from adjoint.errors import TypeRuleError, kind_of
from adjoint.ir import Value
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["PYTHON_ERRORS", "explained"]

#: What Python and NumPy raise when an object of another kind is used, or one of another length.
PYTHON_ERRORS = (AttributeError, IndexError, KeyError, TypeError, ValueError)

#: Annotations of parameters that take tensors.
_TENSORS = (Value, Value | None, "Value", "Value | None")


def explained(operation: Operation, args: Sequence[Any], keywords: Mapping[str, Any], error: Exception) -> Exception:
    """The error that says what is wrong with the arguments of an operation, one sentence.

    Parameters
    ----------
    operation : Operation
        What failed.
    args, keywords : sequence, mapping
        Its arguments.
    error : Exception
        What it raised.

    Returns
    -------
    Exception
        A `TypeRuleError`; or `error` itself if the number or a name of arguments is wrong, which Python says.
    """
    name = operation.name.strip("_")
    try:
        bound = signature(operation.function).bind(*args, **keywords)
    except (TypeError, ValueError):
        return error
    wrong = _no_tensor(bound.signature, bound.arguments) or _used_as_tensor(bound.arguments, error)
    if wrong is not None:
        parameter, given = wrong
        return TypeRuleError(
            f"{name}: {parameter} must be a tensor, got {_described(given)}; convert it with adjoint.tensor"
        )
    listed = ", ".join(_described(given) for given in bound.arguments.values())
    return TypeRuleError(
        f"{name}: the arguments must be of the kinds and sizes that its documentation says, got {listed} "
        f"({type(error).__name__}: {str(error).rstrip('.')}); see help({_home(operation)}.{name})"
    )


def _home(operation: Operation) -> str:
    """The public module of a function."""
    module = getattr(operation.function, "__module__", "")
    return next((home for home in ("adjoint.nn.functional", "adjoint.linalg") if module.startswith(home)), "adjoint")


def _no_tensor(of: Signature, arguments: Mapping[str, Any]) -> tuple[str, Any] | None:
    """A parameter that must be a tensor, and what was given for it."""
    for name, given in arguments.items():
        annotation = of.parameters[name].annotation
        if not any(annotation == known for known in _TENSORS) or isinstance(given, Recorded | Value):
            continue
        if given is not None or annotation in (Value, "Value"):
            return name, given
    return None


def _used_as_tensor(arguments: Mapping[str, Any], error: Exception) -> tuple[str, Any] | None:
    """The argument of which an attribute was read that tensors have, and its name."""
    if not isinstance(error, AttributeError) or error.name not in ("dtype", "shape", "type"):
        return None
    found = error.obj
    # A tuple or list is a copy here.
    same = (n for n, given in arguments.items() if type(given) is type(found) and str(given) == str(found))
    return next(((name, arguments[name]) for name in same), None)


def _described(given: Any) -> str:
    """An argument, in a few words."""
    if isinstance(given, Recorded):
        return str(given._spec.type)
    if isinstance(given, Value):
        return str(given.type)
    if isinstance(given, np.ndarray):
        return f"an array of shape {given.shape}"
    if isinstance(given, bool | int | float | str | None):
        return repr(given)
    return kind_of(given)
