"""Which sizes in a graph depend on the size of the batch: those that differ between graphs for two batches."""

from collections.abc import Mapping, Sequence
from typing import Any

from adjoint.errors import InvalidValueError
from adjoint.ir import Function, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.create import Full, Iota
from adjoint.ops.shape import BroadcastTo, Reshape, Slice
from adjoint.ops.sizes import Count

__all__ = ["Sizes", "sizes_of"]

#: Operators, and their attribute that has the sizes of the result.
_SHAPED: dict[type, str] = {BroadcastTo: "shape", Full: "shape", Iota: "shape", Reshape: "shape", Slice: "stop"}


@dataclass(frozen=True)
class Sizes:
    """The sizes that are multiples of that of the batch.

    Parameters
    ----------
    factors : mapping of Value to tuple of int
        For each axis of a value, how many elements there are per row of the batch; 0 for a size that does not vary.
    """

    factors: Mapping[Value, tuple[int, ...]]


def sizes_of(functions: tuple[Function, Function], rows: tuple[int, int]) -> Sizes:
    """The sizes of the first of two graphs for batches of different sizes, as multiples of that of the batch.

    Parameters
    ----------
    functions : tuple of Function
        The graphs.
    rows : tuple of int
        The sizes of their batches, at least 2.

    Raises
    ------
    InvalidValueError
        If anything but sizes differs, or a size is no multiple.
    """
    first, second = (function.values() for function in functions)
    if len(first) != len(second):
        raise InvalidValueError(f"{len(second)} operations in place of {len(first)}")
    other = dict(zip(first, second, strict=True))
    factors = {}
    for one, two in other.items():
        if type(one.op) is not type(two.op) or [other[v] for v in one.inputs] != list(two.inputs):
            raise InvalidValueError(f"{two.op.name} in place of {one.op.name}")
        factors[one] = _factors(one, one.shape, two.shape, rows)
        _check_attributes(one, two, factors)
    return Sizes(factors)


def _factors(value: Value, first: Sequence[int], second: Sequence[int], rows: tuple[int, int]) -> tuple[int, ...]:
    made = []
    for one, two in zip(first, second, strict=True):
        each = (two - one) // (rows[1] - rows[0])
        if one != two and (one, two) != (each * rows[0], each * rows[1]):
            raise InvalidValueError(f"{value.op.name} makes sizes {list(first)} and {list(second)}")
        made.append(each)
    return tuple(made)


def _check_attributes(one: Value, two: Value, factors: Mapping[Value, tuple[int, ...]]) -> None:
    """Raise if attributes other than sizes differ, or if what they say depends on the size of the batch."""
    op: Any = one.op
    sizes = _SHAPED.get(type(op))
    second = two.op.attributes()
    for name, value in op.attributes().items():
        if name not in (sizes, "type", "name") and not _same(value, second[name]):
            raise InvalidValueError(f"{op.name} has {name} {second[name]} in place of {value}")
    if isinstance(op, Slice):
        whole = one.inputs[0].shape
        for stop, again, size, new in zip(op.stop, second["stop"], whole, two.inputs[0].shape, strict=True):
            if stop != again and (stop, again) != (size, new):
                raise InvalidValueError(f"{op.name} ends at {again} in place of {stop}")
    if isinstance(op, Count) and any(factors[one.inputs[0]][axis] for axis in op.axes):
        raise InvalidValueError(f"{op.name} counts the rows")


def _same(one: Any, two: Any) -> bool:
    return bool(one == two) or (one != one and two != two)  # NaN
