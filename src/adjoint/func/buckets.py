"""Sizes in buckets: arguments are filled up to the next of a few sizes, so that few programs are compiled.

Filling up copies elements with NumPy, not as a recorded operation, which would be another program for every size. Only
inside a function that is being traced, where there are no elements, it is recorded.
"""

from collections.abc import Mapping, Sequence
from inspect import signature
from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, kind_of
from adjoint.ir import is_float
from adjoint.ops.axes import axis_of
from adjoint.tensor.creation import full
from adjoint.tensor.joining import cat
from adjoint.tensor.tensor import Tensor, from_array
from adjoint.tensor.trace import state

__all__ = ["Buckets", "pad_to_bucket"]

#: The sizes 1, 2, 4, 8 and so on, without end.
_POWERS = "powers of 2"

#: The sizes of an axis in increasing order, or None for powers of 2.
Sizes = tuple[int, ...] | None


def pad_to_bucket(x: Any, axis: int, sizes: Sequence[int] | str = _POWERS, value: float = 0) -> Any:
    """A tensor or array, filled up along an axis to the next of some sizes.

    A loop that calls it for its batches compiles at most one program for each of the sizes. The elements that are added
    count like all others; mask them where that matters.

    Parameters
    ----------
    x : Tensor or numpy.ndarray
        What to fill up. The result is of the same kind, shares no memory, unless there is nothing to add, and has no
        history.
    axis : int
        The axis; negative axes count from the last.
    sizes : sequence of int or str, default "powers of 2"
        The sizes, or "powers of 2".
    value : float, default 0
        What to fill up with.

    Raises
    ------
    InvalidValueError
        If the axis is longer than the largest of the sizes, or the value is not one of the dtype.
    IndexRangeError
        If the axis does not exist.
    TypeRuleError
        If `x` is something else, or a tensor that requires a gradient.

    Examples
    --------
    >>> import numpy as np, adjoint
    >>> adjoint.pad_to_bucket(np.ones((2, 3)), 1, sizes=(4, 8)).shape
    (2, 4)
    """
    _check_kind("pad_to_bucket: x", x)
    axis = axis_of("pad_to_bucket", axis, len(x.shape))
    bucket = _bucket("pad_to_bucket", x.shape[axis], _checked_sizes("pad_to_bucket", sizes), f"axis {axis}")
    return _filled("pad_to_bucket", x, {axis: bucket}, value)


class Buckets:
    """The arguments of a function that are filled up before each call.

    Parameters
    ----------
    function : callable
        The function.
    given : mapping of str to mapping of int to str or sequence of int
        For arguments by name and axis, the sizes, or the name of a size.
    sizes : mapping of str to sequence of int or str
        The sizes by name; those that are missing are powers of 2.
    fill : mapping of str to float
        What to fill arguments up with, where it is not 0.
    """

    def __init__(
        self, function: Any, given: Mapping[str, Any], sizes: Mapping[str, Any], fill: Mapping[str, float]
    ) -> None:
        known = list(signature(function).parameters)
        for name in (*given, *fill):
            if name not in known:
                raise NameLookupError(
                    f"jit: buckets and fill name parameters of the function, got {name!r}; known parameters: "
                    f"{', '.join(known)}"
                )
        #: By argument and axis: the name of the size, which those that are given without a name have for themselves.
        self._axes: dict[str, dict[int, Any]] = {}
        self._sizes: dict[Any, Sizes] = {name: _checked_sizes("jit", found) for name, found in sizes.items()}
        for name, axes in given.items():
            if not isinstance(axes, Mapping) or not axes or not all(isinstance(axis, int) for axis in axes):
                raise InvalidValueError(
                    f"jit: buckets must give sizes by argument and axis, as in {{'x': {{1: (64, 128)}}}}, got "
                    f"{axes!r} for {name}; write a dict"
                )
            self._axes[name] = {axis: self._named(name, axis, found) for axis, found in axes.items()}
        used = {size for axes in self._axes.values() for size in axes.values()}
        for size in sizes:
            if size not in used:
                raise NameLookupError(
                    f"jit: sizes are those that buckets name, got {size!r}; known names: "
                    f"{', '.join(sorted(one for one in used if isinstance(one, str))) or 'none'}"
                )
        for name in fill:
            if name not in given:
                raise NameLookupError(
                    f"jit: fill is for arguments with buckets, got {name!r}; those with buckets: {', '.join(given)}"
                )
        self._fill = dict(fill)
        self._places = {name: known.index(name) for name in self._axes}

    def _named(self, name: str, axis: int, given: Any) -> Any:
        if isinstance(given, str):
            self._sizes.setdefault(given, None)
            return given
        self._sizes[name, axis] = _checked_sizes("jit", given)
        return name, axis

    def filled(self, args: tuple[Any, ...], keywords: Mapping[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, filled up."""
        new, named = list(args), dict(keywords)
        homes: dict[str, tuple[Any, Any]] = {}
        for name, place in self._places.items():
            if name in named:
                homes[name] = named, name
            elif place < len(new):
                homes[name] = new, place
        buckets = self._buckets({name: home[key] for name, (home, key) in homes.items()})
        for name, (home, key) in homes.items():
            axes = {axis: buckets[size] for axis, size in self._axes[name].items()}
            x = home[key]
            if any(x.shape[axis] != size for axis, size in axes.items()):
                home[key] = _filled(f"jit: {name}", x, axes, self._fill.get(name, 0))
        return tuple(new), named

    def _buckets(self, given: Mapping[str, Any]) -> dict[Any, int]:
        """The bucket of each size: that of the longest axis that has it."""
        longest: dict[Any, tuple[int, str]] = {}
        for name, x in given.items():
            _check_kind(f"jit: {name}", x)
            for axis, size in self._axes[name].items():
                axis_of(f"jit: {name}", axis, len(x.shape))
                longest[size] = max(longest.get(size, (-1, "")), (x.shape[axis], f"axis {axis} of {name}"))
        return {size: _bucket("jit", length, self._sizes[size], where) for size, (length, where) in longest.items()}


def _check_kind(what: str, x: Any) -> None:
    if not isinstance(x, Tensor | np.ndarray):
        raise TypeRuleError(f"{what} must be a tensor or an array to be filled up, got {kind_of(x)}; convert it")


def _checked_sizes(caller: str, given: Any) -> Sizes:
    """The sizes in increasing order, None for powers of 2."""
    if given == _POWERS:
        return None
    valid = isinstance(given, Sequence) and not isinstance(given, str) and len(given) > 0
    if not valid or not all(isinstance(n, int) and not isinstance(n, bool) and n > 0 for n in given):
        raise InvalidValueError(
            f"{caller}: the sizes of buckets must be positive integers or {_POWERS!r}, got {given!r}; pass a tuple"
        )
    return tuple(sorted(given))


def _bucket(caller: str, length: int, sizes: Sizes, where: str) -> int:
    """The smallest size that an axis fits in."""
    if sizes is None:
        return 1 << max(length - 1, 0).bit_length()
    for size in sizes:
        if length <= size:
            return size
    raise InvalidValueError(
        f"{caller}: an axis must fit in the largest bucket, {sizes[-1]}, got {length} for {where}; add a larger "
        "bucket, or cut it off"
    )


def _filled(caller: str, x: Any, sizes: Mapping[int, int], value: float) -> Any:
    """A tensor or array with larger axes."""
    shape = list(x.shape)
    for axis, size in sizes.items():
        shape[axis] = size
    if tuple(shape) == tuple(x.shape):
        return x
    _check_value(caller, x.dtype, value)
    if isinstance(x, Tensor):
        if state.trace.outer is not None:
            return _recorded(x, shape, value)
        if x.requires_grad and state.grad:
            raise TypeRuleError(
                f"{caller}: what is filled up to a bucket must not require a gradient, got {x._spec.type}; pass its "
                "detach(), or fill it up with torch.nn.functional.pad"
            )
    array = x.elements().array if isinstance(x, Tensor) else x
    made = np.full(shape, value, x.dtype)
    made[tuple(slice(n) for n in x.shape)] = array
    return from_array(made, copy=False) if isinstance(x, Tensor) else made


def _check_value(caller: str, dtype: np.dtype, value: float) -> None:
    """Refuse a value that the dtype has no element for."""
    whole = not is_float(dtype)
    try:
        same = bool(np.array(value).astype(dtype) == value)
    except (OverflowError, TypeError, ValueError):
        same = False
    if (whole and not same) or not isinstance(value, int | float | np.number | np.bool_):
        raise InvalidValueError(f"{caller}: the value to fill up with must be one of {dtype}, got {value!r}; change it")


def _recorded(x: Tensor, shape: Sequence[int], value: float) -> Any:
    """The same for a tensor of a function that is being traced."""
    for axis, size in enumerate(shape):
        missing = size - x.shape[axis]
        if missing:
            more = full((*x.shape[:axis], missing, *x.shape[axis + 1 :]), value, dtype=x.dtype)
            x = cat([x, more], axis)
    return x
