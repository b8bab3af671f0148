"""Finding out that a traced function does something that a compiled call would not repeat."""

import builtins
import gc
import sys
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

from adjoint.errors import InvalidValueError, is_machinery, located
from adjoint.func.surroundings import Surroundings, random_states

__all__ = ["refuse_leaks", "refuse_side_effects", "without_print"]


@contextmanager
def without_print() -> Iterator[None]:
    """Refuse calls of `print` in this thread."""
    thread, original = threading.get_ident(), builtins.print

    def refused(*args: Any, **keywords: Any) -> None:
        if threading.get_ident() != thread:
            original(*args, **keywords)
            return
        raise InvalidValueError(
            "jit: a traced function must not call print, which would print only while it is traced; use "
            "adjoint.debug_print(format, *tensors), which prints in every call"
        )

    builtins.print = refused
    try:
        yield
    finally:
        builtins.print = original


def refuse_side_effects(name: str, around: Surroundings, numbers: tuple[Any, ...], again: Callable[[], object]) -> None:
    """Raise if a function has changed something or used global random numbers since it was called.

    Parameters
    ----------
    name : str
        Of the function.
    around : Surroundings
        What it reaches, as it was before the call. Changes are undone.
    numbers : tuple
        What `random_states` returned before the call.
    again : callable
        Calls the function once more, which is only done to find the line.
    """
    change = around.change()
    if change is not None:
        around.undo()
        with located(_line_of(lambda: around.change() is not None, again)):
            around.undo()
            raise InvalidValueError(
                f"jit: a traced function must not change Python objects, because only tracing would do it, got a "
                f"change of {change} in {name}; return the new value, or change a tensor in place"
            )
    source = used_numbers(around, numbers)
    if source is not None:
        before, now = random_states(), around.fresh()
        with located(_line_of(lambda: used_numbers(now, before) is not None, again)):
            raise InvalidValueError(
                f"jit: a traced function must not draw random numbers on the host, because every call would use the "
                f"same ones, got {source} in {name}; draw them with adjoint.rand and the like, or pass them as "
                "arguments"
            )


def used_numbers(around: Surroundings, before: tuple[Any, ...]) -> str | None:
    """The source of random numbers that has been used, in words."""
    sources = ("numbers of the module random", "numbers of numpy.random", "elements drawn on the host")
    for name, old, new in zip(sources, before, random_states(), strict=True):
        if old != new:
            return name
    generator = around.used_generator()
    return None if generator is None else f"numbers of the generator {generator}"


def _line_of(happened: Callable[[], bool], again: Callable[[], object]) -> str:
    """The line of the user after which something is true first, while a function is called; "" if unknown."""
    found: list[str] = []
    last = [""]

    def local(frame: FrameType, event: str, _arg: Any) -> Any:
        if not found and last[0] and happened():
            found.append(last[0])
        if event == "line":
            last[0] = f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return local

    def watch(frame: FrameType, _event: str, _arg: Any) -> Any:
        return None if is_machinery(frame.f_code.co_filename) else local

    before = sys.gettrace()
    sys.settrace(watch)
    try:
        with suppress(Exception):  # the first call had none
            again()
    finally:
        sys.settrace(before)
    return found[0] if found else ""


def refuse_leaks(name: str, made: Iterable[tuple[weakref.ref[Any], str, str]]) -> None:
    """Raise if a tensor that was made while a function was traced is still in use.

    Parameters
    ----------
    name : str
        Of the function.
    made : iterable of (weakref, str, str)
        The tensors, their types, and the lines that made them.
    """
    made = list(made)
    if not any(tensor() is not None for tensor, _, _ in made):
        return
    gc.collect()
    for tensor, type_, line in made:
        if tensor() is not None:
            with located(line):
                raise InvalidValueError(
                    f"jit: a tensor that is made while a function is traced must not be used outside of it, got one "
                    f"of type {type_} that {name} has stored; return it"
                )
