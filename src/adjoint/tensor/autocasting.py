"""What `adjoint.autocast` changes: the dtypes in which functions of tensors compute.

Functions are marked where they are defined. `low_precision` is for products, which compute in the dtype of the context;
`full_precision` for losses, which compute in f32; `own_precision` for normalization, which computes in f32 and returns
the dtype of its input. All other functions keep the dtypes of their operands and their rules of promotion, as PyTorch's
do on CPUs. The conversions are operations of the recorded program, so gradients have the dtypes of the operands.
"""

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np

from adjoint import ops
from adjoint.ir import DTYPES
from adjoint.tensor.record import operation, record
from adjoint.tensor.structure import Operation
from adjoint.tensor.trace import Recorded

__all__ = ["contexts", "full_precision", "in_f32", "low_precision", "lowered", "mode", "own_precision"]

_P = ParamSpec("_P")
_R = TypeVar("_R")

_F32 = DTYPES["f32"]
#: The dtypes that are converted; f64 never is.
_FLOATS = frozenset((_F32, DTYPES["f16"], DTYPES["bf16"]))

_cast = operation(ops.cast)


class _Mode(threading.local):
    """The dtype of the innermost context of a thread; None outside of one, and where it is not enabled."""

    dtype: np.dtype | None = None


mode = _Mode()


class _Contexts:
    """How many contexts are open in all threads: where there are none, no thread's `mode` has to be looked at."""

    __slots__ = ("_lock", "open")

    def __init__(self) -> None:
        self.open = 0
        self._lock = threading.Lock()

    def count(self, change: int) -> None:
        """Add to the number of open contexts."""
        with self._lock:
            self.open += change


contexts = _Contexts()


def low_precision(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function made by `operation` that computes in the dtype of the context."""
    return _computing(function, None)


def full_precision(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A function made by `operation` that computes in f32 within a context."""
    return _computing(function, _F32)


def _computing(function: Callable[_P, _R], fixed: np.dtype | None) -> Callable[_P, _R]:
    """A recorded function whose operands are converted within a context, to its dtype or a fixed one."""
    entry: Operation = function.entry  # type: ignore[attr-defined]

    @wraps(function)
    def called(*args: _P.args, **keywords: _P.kwargs) -> _R:
        current = mode.dtype if contexts.open else None
        if current is None:
            # As the function does, in one call less.
            found: _R = function(*args, **keywords) if "out" in keywords else record(entry, args, keywords)
            return found
        dtype = current if fixed is None else fixed
        own: Any = {name: arg if name == "out" else _converted(arg, dtype) for name, arg in keywords.items()}
        return function(*(_converted(arg, dtype) for arg in args), **own)

    return called


def own_precision(function: Callable[..., _R]) -> Callable[..., _R]:
    """A function of a tensor and of weights that computes in f32 within a context, and returns the tensor's dtype."""

    @wraps(function)
    def called(input: Any, *args: Any, **keywords: Any) -> Any:
        if not contexts.open or mode.dtype is None or not isinstance(input, Recorded):
            return function(input, *args, **keywords)
        if input._spec.type.dtype == _F32:
            return function(input, *args, **keywords)
        return _converted(function(_converted(input, _F32), *args, **keywords), input._spec.type.dtype)

    return called


def lowered(*args: Any) -> tuple[Any, ...] | None:
    """The arguments in the dtype of the context; None outside of one."""
    current = mode.dtype if contexts.open else None
    return None if current is None else tuple(_converted(arg, current) for arg in args)


def in_f32(args: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments of a function that computes in f32 within a context."""
    return tuple(_converted(arg, _F32) for arg in args)


def _converted(arg: Any, dtype: np.dtype) -> Any:
    """An argument with its tensors, also those in sequences, in a dtype."""
    if isinstance(arg, Recorded):
        own = arg._spec.type.dtype
        return _cast(arg, dtype) if own != dtype and own in _FLOATS else arg  # type: ignore[arg-type]
    if isinstance(arg, list | tuple):
        return type(arg)(_converted(each, dtype) for each in arg)
    return arg
