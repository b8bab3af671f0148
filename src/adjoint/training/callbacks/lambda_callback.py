"""`LambdaCallback`: a callback made of functions."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, described, listed
from adjoint.training.callbacks.base import Callback

__all__ = ["LambdaCallback"]

#: The methods that a function can take the place of.
_EVENTS = tuple(name for name in vars(Callback) if name.startswith("on_"))


class LambdaCallback(Callback):
    """A callback made of functions: ``LambdaCallback(on_train_epoch_end=lambda run: print(run.metrics))``.

    Parameters
    ----------
    every, seconds : int and float, optional
        See `Callback`; one of them is required with `on_train_step_end`.
    **functions : callable
        Functions by the names of methods of `Callback`, with the arguments of these methods: the run, and for
        `on_exception` also the error.

    Raises
    ------
    NameLookupError
        If there is no such method.
    TypeRuleError
        If something is no function.
    InvalidValueError
        If `on_train_step_end` is given and neither `every` nor `seconds`.
    """

    def __init__(self, every: int | None = None, seconds: float | None = None, **functions: Callable[..., Any]) -> None:
        for name, function in functions.items():
            if name not in _EVENTS:
                raise NameLookupError(
                    f"LambdaCallback: functions must have names of methods of Callback, got {name}; pass one of "
                    f"{listed(_EVENTS, len(_EVENTS))}"
                )
            if not callable(function):
                raise TypeRuleError(
                    f"LambdaCallback takes functions, got {described(function)} as {name}; pass a function"
                )
            setattr(self, name, function)
        if "on_train_step_end" in functions and every is None and seconds is None:
            raise InvalidValueError(
                "LambdaCallback: on_train_step_end needs every=STEPS or seconds=SECONDS between its calls, "
                "got neither; pass every=1 to call it after every step"
            )
        self.every = every
        self.seconds = seconds
