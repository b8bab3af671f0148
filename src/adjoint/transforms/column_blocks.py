"""Column values of a product for some of its columns: a block of neighbouring ones, or one of each row.

See `adjoint.transforms.softmax_of_product` for what a column value is.
"""

from collections.abc import Callable, Mapping, Sequence

from adjoint.ir import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.control_flow import scan
from adjoint.ops.convert import cast
from adjoint.ops.create import Full, full, iota
from adjoint.ops.index import OneHot, take
from adjoint.ops.logic import equal, greater_equal, less, logical_and
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.shape import BroadcastTo, Reshape, broadcast_to, concat, permute, reshape, slice_axis
from adjoint.transforms.softmax_of_product import repeats_columns

__all__ = ["Block", "Picked", "Split", "Values", "evaluated", "joined", "loop", "split", "vectors_of"]

#: Some values.
Values = tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """Neighbouring columns.

    Parameters
    ----------
    product : Value
        The product there.
    start : Value
        The number of the first column, an i64 scalar.
    vectors : mapping
        Of values with one element for each column, those of the block.
    """

    product: Value
    start: Value
    vectors: Mapping[Value, Value]

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a column value here."""
        return self.product.shape

    def of_rows(self, x: Value) -> Value:
        """One element for each row."""
        return broadcast_to(reshape(x, (self.shape[0], 1)), self.shape)

    def of_columns(self, x: Value) -> Value:
        """One element for each column."""
        return broadcast_to(self.vectors[x], self.shape)

    def one_hot(self, ids: Value) -> Value:
        """Whether a column is that of the id of its row."""
        return equal(iota(self.shape, 1, "i32"), self.of_rows(self.position(ids)))

    def position(self, ids: Value) -> Value:
        """The columns of ids within the block; -1 or the width if they are outside."""
        distance = cast(ids, "i64") - self.start
        return cast(maximum(minimum(distance, self.shape[1]), -1), "i32")

    def holds(self, position: Value) -> Value:
        """Whether positions are inside the block."""
        return logical_and(greater_equal(position, 0), less(position, self.shape[1]))


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
    needed = _needed(wanted, columns)
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


def _needed(wanted: Sequence[Value], columns: Sequence[Value]) -> set[Value]:
    """Values that column values are computed of, with these."""
    found = set(wanted)
    for value in reversed(columns):
        if value in found:
            found.update(value.inputs)
    return found


def vectors_of(wanted: Sequence[Value], columns: Sequence[Value]) -> tuple[Value, ...]:
    """The values with one element for each column that column values are computed of."""
    needed = _needed(wanted, columns)
    broadcast = (v for v in columns if v in needed and isinstance(v.op, BroadcastTo))
    return tuple(dict.fromkeys(v.inputs[0] for v in broadcast if repeats_columns(v.inputs[0], v.shape[-1])))


@dataclass(frozen=True, slots=True)
class Split:
    """A vector or matrix in blocks along an axis.

    Parameters
    ----------
    blocks : Value
        Blocks of one size, along a new first axis.
    rest : Value or None
        A smaller block that follows.
    """

    blocks: Value
    rest: Value | None

    def first(self) -> "Split":
        """The first element of each block of a vector."""
        rest = None if self.rest is None else self.rest[0]
        return Split(self.blocks[:, 0], rest)


def split(x: Value, axis: int, width: int) -> Split:
    """A vector or matrix in blocks of so many elements along an axis."""
    size = x.shape[axis]
    end = size // width * width
    whole, rest = slice_axis(x, axis, 0, end), slice_axis(x, axis, end, size) if end < size else None
    if axis == 0:
        return Split(reshape(whole, (end // width, width, *x.shape[1:])), rest)
    return Split(permute(reshape(whole, (x.shape[0], end // width, width)), (1, 0, 2)), rest)


def joined(x: Split, axis: int) -> Value:
    """The vector or matrix in such blocks."""
    count, first, *last = x.blocks.shape
    if axis == 0:
        whole = reshape(x.blocks, (count * first, *last))
    else:
        whole = reshape(permute(x.blocks, (1, 0, 2)), (first, count * last[0]))
    return whole if x.rest is None else concat(whole, x.rest, axis=axis)


def loop(
    body: Callable[..., tuple[Values, Values]], init: Values, walked: Sequence[Split]
) -> tuple[Values, tuple[Split, ...]]:
    """A loop over blocks: the last carry, and what the body makes of each block.

    Parameters
    ----------
    body : callable
        From a carry, and a block of each in `walked`, to the next carry and blocks.
    init : tuple of Value
        The first carry.
    walked : sequence of Split
        Values in blocks of the same sizes.
    """
    carry, made = scan(lambda carry, row: body(carry, *row), init, tuple(x.blocks for x in walked))
    left = tuple(x.rest for x in walked if x.rest is not None)
    if not left:
        return carry, tuple(Split(x, None) for x in made)
    carry, rest = body(carry, *left)
    return carry, tuple(map(Split, made, rest))
