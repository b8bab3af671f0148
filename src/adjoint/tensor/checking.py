"""Finding the operation that first makes a NaN: `debug_nan`."""

import threading
from collections.abc import Sequence
from contextlib import AbstractContextManager

import numpy as np

from adjoint.compiler import CompileOptions
from adjoint.compiler import compile as compile_function
from adjoint.errors import InvalidValueError, located
from adjoint.ir import Function, is_float, is_param, value_names
from adjoint.transforms.inline_calls import inline_calls

__all__ = ["debug_nan", "nan_mode", "refuse_nan"]


class _Mode(threading.local):
    """Whether programs of this thread are checked."""

    on = False


nan_mode = _Mode()


class debug_nan(AbstractContextManager[None]):  # noqa: N801
    """Check everything that is computed for NaN, from now on, or until the end of a ``with`` block.

    Before a program runs, a copy of it that keeps every value runs on the same tensors, which takes several times as
    long and far more memory. The error names the operation that made the first NaN, and the line that wrote it.

    Parameters
    ----------
    mode : bool, default True
        Whether to check.
    """

    def __init__(self, mode: bool = True) -> None:
        self._before = nan_mode.on
        nan_mode.on = bool(mode)

    def __exit__(self, *error: object) -> None:
        nan_mode.on = self._before


def refuse_nan(function: Function, arrays: Sequence[np.ndarray], options: CompileOptions | None = None) -> None:
    """Raise if a value of a function is NaN for these arguments.

    Parameters
    ----------
    function : Function
        The function.
    arrays : sequence of numpy.ndarray
        Its arguments, which are not changed.
    options : CompileOptions, optional
        As for `adjoint.compile`.

    Raises
    ------
    InvalidValueError
        Names the argument that has a NaN, or the first value that has one although its operands have none.
    """
    for p, array in zip(function.params, arrays, strict=True):
        if is_float(p.dtype) and np.isnan(array).any():
            raise InvalidValueError(
                f"debug_nan: the tensors that enter a program must not be NaN, got NaN in %{p.label}: {p.type}; look "
                "for it where the tensor was computed"
            )
    flat = inline_calls(function)
    values = [v for v in flat.values() if not is_param(v) and is_float(v.dtype)]
    if not values:
        return
    checked = Function(f"{function.name}_checked", flat.params, tuple(values))
    found = compile_function(checked, options=options)[checked.name](*arrays)
    results = dict(zip(values, found if isinstance(found, tuple) else (found,), strict=True))
    wrong = next((v for v, array in results.items() if np.isnan(array).any()), None)
    if wrong is None:
        return
    name = value_names(flat)[wrong]
    with located(wrong.line):
        raise InvalidValueError(
            f"debug_nan: values must not be NaN, got the first NaN from {wrong.op.name}, which computes {name}: "
            f"{wrong.type}; check what its operands can be"
        )
