"""Finding the operation that first makes a NaN or an infinity: `debug_nan`."""

import threading
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from adjoint.compiler import CompileOptions
from adjoint.compiler import compile as compile_function
from adjoint.errors import NotFiniteError, located, short_line
from adjoint.ir import Function, Value, is_float, is_param, value_names
from adjoint.transforms.inline_calls import inline_calls

__all__ = ["debug_nan", "nan_mode", "refuse_nan"]


class _Mode(threading.local):
    """Whether programs of this thread are checked, and whether their results must be finite too."""

    on = False
    infinity = False


nan_mode = _Mode()


class debug_nan(AbstractContextManager[None]):  # noqa: N801
    """Check everything that is computed for NaN, from now on, or until the end of a ``with`` block.

    Before a program runs, a copy of it that keeps every value runs on the same tensors, which takes several times as
    long and far more memory. The error names the operation that made the first NaN, and the line that wrote it; of a
    NaN that comes from an infinity, also the operation that made that.

    Parameters
    ----------
    mode : bool, default True
        Whether to check.
    infinity : bool, default False
        Whether the results of programs must be finite too. Infinities of which nothing is left in the results, such as
        those of masks, are allowed.
    """

    def __init__(self, mode: bool = True, infinity: bool = False) -> None:
        self._before = nan_mode.on, nan_mode.infinity
        nan_mode.on, nan_mode.infinity = bool(mode), bool(infinity)

    def __exit__(self, *error: object) -> None:
        nan_mode.on, nan_mode.infinity = self._before


def refuse_nan(function: Function, arrays: Sequence[np.ndarray], options: CompileOptions | None = None) -> None:
    """Raise if a value of a function is NaN for these arguments, or with `nan_mode.infinity` a result is infinite.

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
    NotFiniteError
        Names the argument that has a NaN, or the first value that has one although its operands have none.
    """
    for p, array in zip(function.params, arrays, strict=True):
        if is_float(p.dtype) and np.isnan(array).any():
            raise NotFiniteError(
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
    infinite = {v for v, array in results.items() if np.isinf(array).any()}
    wrong = next((v for v, array in results.items() if np.isnan(array).any()), None)
    if wrong is not None:
        _refuse_first_nan(flat, wrong, _source(wrong, results, infinite))
    lost = [v for v in flat.results if v in infinite] if nan_mode.infinity else []
    if lost:
        source = _source(lost[0], results, infinite)
        _refuse_infinity(flat, lost[0] if source is None else source)


def _source(value: Value, results: Mapping[Value, np.ndarray], infinite: set[Value]) -> Value | None:
    """The first infinite value that a value is computed from, itself included, although its operands are finite.

    An infinite constant has no operands: it was meant. None if there is no other.
    """
    reached, waiting = {value}, [value]
    while waiting:
        for operand in waiting.pop().inputs:
            if operand not in reached:
                reached.add(operand)
                waiting.append(operand)
    for v in results:
        if v in reached and v in infinite and v.inputs and not infinite.intersection(v.inputs):
            return v
    return None


def _refuse_first_nan(function: Function, wrong: Value, source: Value | None) -> None:
    names = value_names(function)
    cause = ""
    if source is not None:
        cause = f", of an infinity from {source.op.name}, which computes {names[source]}: {source.type}"
        if source.line:
            cause += f" at {short_line(source.line)}"
    with located(wrong.line):
        raise NotFiniteError(
            f"debug_nan: values must not be NaN, got the first NaN from {wrong.op.name}, which computes "
            f"{names[wrong]}: {wrong.type}{cause}; check what its operands can be"
        )


def _refuse_infinity(function: Function, source: Value) -> None:
    with located(source.line):
        raise NotFiniteError(
            f"debug_nan: results must be finite, got the first infinity from {source.op.name}, which computes "
            f"{value_names(function)[source]}: {source.type}; check what its operands can be"
        )
