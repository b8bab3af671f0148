"""Names of other frameworks that are not covered: errors that say what to use instead."""

import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any, NoReturn

from adjoint.errors import MissingAttributeError

__all__ = ["uncovered"]

_PACKAGE = "adjoint.compat."


def uncovered(module: str, instead: Mapping[str, str], native: str) -> Callable[[str], NoReturn]:
    """The ``__getattr__`` of a module of `adjoint.compat`.

    Parameters
    ----------
    module : str
        Its ``__name__``.
    instead : mapping of str to str
        What to do in place of a name, as the end of a sentence: ``"use adjoint.nn.Linear"``, or the reason first:
        ``"because there are no complex numbers; use cos and sin"``.
    native : str
        Where in adjoint to look for names that are not in `instead`: ``"adjoint.nn"``.

    Returns
    -------
    callable
        It raises `MissingAttributeError`, which is an AttributeError.
    """
    theirs = module.removeprefix(_PACKAGE)

    def missing(name: str) -> NoReturn:
        if name.startswith("__"):  # which Python itself looks for
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        known: Any = getattr(sys.modules.get(module), "__all__", ())
        close = get_close_matches(name, known, 1)
        advice = instead.get(name) or (f"did you mean {close[0]}?" if close else f"look for it in {native}")
        joint = ", " if advice.startswith("because") else "; "
        raise MissingAttributeError(f"{theirs}.{name} is not covered{joint}{advice}")

    return missing
