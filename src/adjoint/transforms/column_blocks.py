"""Column values of a product for some of its columns: a block of neighbouring ones, or one of each row.

See `adjoint.transforms.softmax_of_product` for what a column value is.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from adjoint.ir import Value, apply
from adjoint.ops.convert import cast
from adjoint.ops.create import Full, full, iota
from adjoint.ops.gathering import take
from adjoint.ops.index import OneHot
from adjoint.ops.logic import equal, greater_equal, less, logical_and
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.shape import BroadcastTo, Reshape, broadcast_to, permute, reshape
from adjoint.transforms.softmax_of_product import repeats_columns

__all__ = ["Block", "Picked", "evaluated", "joined", "stacked"]


@dataclass(frozen=True, slots=True)
class Block:
    """The columns from `start` on, as many as `width`.

    Parameters
    ----------
    rows, width : int
        Shape of the block.
    start : Value
        The number of its first column, an i64 scalar.
    vectors : mapping
        Of values with one element for each column, those of the block.
    """

    rows: int
    width: int
    start: Value
    vectors: Mapping[Value, Value]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a column value here."""
        return self.rows, self.width

    def of_rows(self, x: Value) -> Value:
        """One element for each row."""
        return broadcast_to(reshape(x, (self.rows, 1)), self.shape)

    def of_columns(self, x: Value) -> Value:
        """One element for each column."""
        return broadcast_to(self.vectors[x], self.shape)

    def one_hot(self, ids: Value) -> Value:
        """Whether a column is that of the id of its row."""
        return equal(iota(self.shape, 1, "i32"), self.of_rows(self.position(ids)))

    def position(self, ids: Value) -> Value:
        """The columns of ids within the block; -1 or the width if they are outside."""
        distance = cast(ids, "i64") - self.start
        return cast(maximum(minimum(distance, self.width), -1), "i32")

    def holds(self, position: Value) -> Value:
        """Whether positions are inside the block."""
        return logical_and(greater_equal(position, 0), less(position, self.width))


@dataclass(frozen=True, slots=True)
class Picked:
    """One column of each row.

    Parameters
    ----------
    ids : Value
        The columns, i64, within the range.
    """

    ids: Value

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a column value here."""
        return self.ids.shape

    def of_rows(self, x: Value) -> Value:
        """One element for each row."""
        return reshape(x, self.shape)

    def of_columns(self, x: Value) -> Value:
        """One element for each column."""
        return take(reshape(x, (x.type.size,)), self.ids)

    def one_hot(self, ids: Value) -> Value:
        """Whether the column is that of the id of its row."""
        return equal(cast(reshape(ids, self.shape), "i64"), self.ids)


def evaluated(
    wanted: Sequence[Value],
    columns: Sequence[Value],
    known: Mapping[Value, Value],
    outside: Callable[[Value], Value],
    at: Block | Picked,
) -> list[Value]:
    """Column values at some columns.

    Parameters
    ----------
    wanted : sequence of Value
        Which ones.
    columns : sequence of Value
        All of them, inputs before users.
    known : mapping
        What some, such as the product, are there.
    outside : callable
        What takes the place of a value that is no column value.
    at : Block or Picked
        The columns.
    """
    needed = set(wanted)
    for value in reversed(columns):
        if value in needed and value not in known:
            needed.update(value.inputs)
    made = dict(known)
    for value in columns:
        if value not in needed or value in made:
            continue
        op = value.op
        if isinstance(op, Reshape):
            made[value] = made[value.inputs[0]]
        elif isinstance(op, Full):
            made[value] = full(op.value, at.shape, op.dtype)
        elif isinstance(op, OneHot):
            made[value] = cast(at.one_hot(outside(value.inputs[0])), op.dtype)
        elif isinstance(op, BroadcastTo):
            made[value] = _repeated(value, outside, at)
        else:
            made[value] = apply(op, *(made[x] for x in value.inputs))
    return [made[value] for value in wanted]


def _repeated(value: Value, outside: Callable[[Value], Value], at: Block | Picked) -> Value:
    """What is broadcast along rows or columns."""
    source = value.inputs[0]
    if source.type.size == 1:
        return broadcast_to(reshape(outside(source), ()), at.shape)
    if repeats_columns(source, value.shape[-1]):
        return at.of_columns(source)
    return at.of_rows(broadcast_to(outside(source), (*value.shape[:-1], 1)))


def stacked(x: Value, axis: int, width: int) -> Value:
    """The blocks of a vector or matrix along an axis, along a new first axis."""
    count = x.shape[axis] // width
    if axis == 0:
        return reshape(x, (count, width, *x.shape[1:]))
    return permute(reshape(x, (x.shape[0], count, width)), (1, 0, 2))


def joined(x: Value, axis: int) -> Value:
    """The vector or matrix with such blocks."""
    if axis == 0:
        return reshape(x, (x.shape[0] * x.shape[1], *x.shape[2:]))
    return reshape(permute(x, (1, 0, 2)), (x.shape[1], x.shape[0] * x.shape[2]))
