"""Indexed reads and writes: one-hot rows, rows of a table, one element of each row, scatter-add of rows.

Ids are integers of any dtype and count from 0; negative ones are out of range. The references reject an id out of
range. Compiled code checks ids that are an argument, or views or casts of one, before it modifies anything. It cannot
stop inside a step, so for ids that are computed there, such as the result of argmax or where, each operator defines
what happens: as in JAX, reads are clipped to the axis and get no gradient, and writes are dropped.
"""

from math import prod
from typing import ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir.types import DTYPES, TensorType, as_dtype, is_float
from adjoint.ir.value import Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add, multiply
from adjoint.ops.base import Builder, Coordinate, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.convert import cast, check_range, stop_gradient
from adjoint.ops.create import iota
from adjoint.ops.logic import greater_equal, less, logical_and, where
from adjoint.ops.piecewise import maximum, minimum
from adjoint.ops.rules import operands, refused, require
from adjoint.ops.sampling import spread
from adjoint.ops.shape import expand_dims, reshape
from adjoint.ops.vectorizing import all_mapped, moved

__all__ = [
    "OneHot",
    "ScatterAdd",
    "Take",
    "TakeAlong",
    "check_ids",
    "one_hot",
    "scatter_add",
    "take",
    "take_along_last",
]


def check_ids(name: str, ids: np.ndarray, size: int) -> None:
    """Reject ids that are not coordinates of an axis of that size."""
    outside = ids[(ids < 0) | (ids >= size)]
    if outside.size:
        raise InvalidValueError(
            f"{name}: ids must be from 0 to {size - 1} on an axis of size {size}, got {outside.flat[0]}; correct the "
            "ids"
        )


def _integer_ids(op: Operator, ids: TensorType) -> None:
    require(op, (ids,), "integer unsigned", "cast the ids to i64")


def _in_one_table(ids: Value, rows: int) -> tuple[Value, Value]:
    """Ids of one table per position along axis 0, for the tables in one; and whether they are in range.

    Ids that are an argument are checked. Others, if they are out of range, give the first or last row of their table.
    """
    size = max(rows, 1)  # without rows there are no ids
    wide = cast(check_range(ids, 0, size), "i64")
    inside = logical_and(greater_equal(wide, 0), less(wide, size))
    clipped = maximum(minimum(wide, size - 1), 0)
    return add(clipped, multiply(iota(ids.shape, 0), rows)), inside


@dataclass(frozen=True, slots=True)
class OneHot(Operator):
    """A row of zeros per id, with a one at the id.

    The reference rejects an id out of range. Compiled code rejects those of an argument; a computed id out of range
    gives a row of zeros.

    Parameters
    ----------
    depth : int
        Length of the rows, at least 0.
    dtype : dtype, default f32
        Dtype of the result.
    """

    name: ClassVar[str] = "one_hot"
    flops: ClassVar[float] = 0.0
    depth: int
    dtype: np.dtype = DTYPES["f32"]

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", as_dtype(self.dtype))

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape of the ids with an axis of `depth` appended."""
        operands(self, inputs, 1)
        _integer_ids(self, inputs[0])
        return TensorType((*inputs[0].shape, self.depth), self.dtype)

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:  # noqa: ARG002
        """The ids, along the new axis."""
        return (self.depth,)

    def reference(self, ids: np.ndarray) -> np.ndarray:
        """The definition, in NumPy."""
        check_ids(self.name, ids, self.depth)
        return np.asarray(ids[..., None] == np.arange(self.depth)).astype(self.dtype)

    def vjp(self, ct: Value, out: Value, ids: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """None: ids are not differentiable."""
        return (None,)

    def lower(self, k: Builder, index: Index, ids: Operand) -> Scalar:
        """Whether the id equals the last coordinate."""
        own = ids.type.dtype
        # Compare in a dtype that can hold every coordinate: in u8, column 256 would equal 0.
        common = own if self.depth - 1 <= np.iinfo(own).max else DTYPES["i64"]
        number = k.cast(ids(index[:-1]), common)
        return k.cast(k.call("eq", number, k.coordinate(index[-1], common)), self.dtype)

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:  # noqa: ARG002
        """The same for more ids."""
        return apply(self, *inputs)

    @classmethod
    def samples(cls) -> list[Sample]:
        """Ranks 0 to 2, several dtypes of ids and results, more columns than the ids' dtype can count."""
        return [
            Sample(cls(4), (np.array([2, 0, 3]),)),
            Sample(cls(3, DTYPES["f64"]), (np.array([[2, 0], [1, 1]], np.int32),)),
            Sample(cls(5), (np.array(4),)),
            Sample(cls(300), (np.array([7, 255], np.uint8),)),
            Sample(cls(2, DTYPES["bool"]), (np.array([1, 0], np.int16),)),
            Sample(cls(2, DTYPES["i64"]), (np.array([1, 0], np.uint64),)),
            Sample(cls(3), (np.zeros((0, 2), np.int64),)),
            Sample(cls(0), (np.zeros(0, np.int64),)),
            refused(cls(4), ((3,), "f32"), error="got f32[3]; cast the ids to i64"),
            refused(cls(-1), ((3,), "i64"), error="sizes in a shape must be integers of at least 0, got -1"),
        ]


@dataclass(frozen=True, slots=True)
class Take(Operator):
    """Rows of a table: ``result[i] = table[ids[i]]``, for ids of any shape.

    The reference rejects an id out of range. Compiled code rejects those of an argument; a computed id out of range is
    clipped: a negative one takes the first row, others the last, which gets no gradient from it.
    """

    name: ClassVar[str] = "take"
    flops: ClassVar[float] = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape of the ids followed by that of a row."""
        operands(self, inputs, 2)
        table, ids = inputs
        if not table.rank:
            raise TypeRuleError(f"take: the table must not be a scalar, got {table}; reshape it to [1]")
        _integer_ids(self, ids)
        if ids.size and not table.shape[0]:
            raise TypeRuleError(f"take: the table must not be empty, got {table} for ids {ids}; pass at least one row")
        return table.with_shape((*ids.shape, *table.shape[1:]))

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:
        """The ids, along the first axis of the table."""
        return None, inputs[0].shape[0]

    def reference(self, table: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """NumPy's ``table[ids]``, with nonnegative ids only."""
        check_ids(self.name, ids, table.shape[0])
        return np.asarray(table[ids.astype(np.int64)])

    def vjp(self, ct: Value, out: Value, table: Value, ids: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """For the table, its rows' cotangents, added up if a row was taken repeatedly."""
        return (apply(ScatterAdd(table.shape[0]), ids, ct) if is_float(table.dtype) else None), None

    def lower(self, k: Builder, index: Index, table: Operand, ids: Operand) -> Scalar:
        """The element of the row; `Builder.position` keeps the id within the table."""
        rank, rows = ids.type.rank, table.type.shape[0]
        return table((k.position(ids(index[:rank]), rows), *index[rank:]))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more ids, for rows of more elements, or in one table of the rows of all tables."""
        table, ids = inputs
        if not mapped[0]:
            return apply(self, table, ids)
        if not mapped[1]:
            return moved(apply(self, moved(table, 0, 1), ids), len(ids.shape), 0)
        size, rows, *row = table.shape
        numbers, inside = _in_one_table(ids, rows)
        found = take(reshape(table, (size * rows, *row)), numbers)
        if not is_float(table.dtype):
            return found
        # An id out of range takes a row of its own table, without a gradient.
        inside = reshape(inside, (*ids.shape, *(1 for _ in row)))
        return where(inside, found, stop_gradient(found))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Tables and ids of several ranks; repeated rows; no rows."""
        ids = np.array([[2, 0], [4, 2]])
        return [
            Sample(cls(), (spread(5, 3), np.array([4, 0, 0, 2]))),
            Sample(cls(), (spread(5, 3, dtype="f64"), ids.astype(np.int32))),
            Sample(cls(), (spread(5), ids)),
            Sample(cls(), (spread(5, 2, 3), np.array(3, np.uint8))),
            Sample(cls(), (spread(1, 2), np.array([0, 0], np.int8))),
            Sample(cls(), (spread(3, 2), np.zeros((0, 2), np.int64))),
            Sample(cls(), (np.array([[1, 2], [3, 4]], np.int32), np.array([1, 1, 0]))),
            refused(cls(), ((5, 3), "f32"), ((2,), "f32"), error="got f32[2]; cast the ids to i64"),
            refused(cls(), ((), "f32"), ((2,), "i64"), error="take: the table must not be a scalar, got f32[]"),
            refused(cls(), ((0, 3), "f32"), ((2,), "i64"), error="take: the table must not be empty, got f32[0,3]"),
        ]


@dataclass(frozen=True, slots=True)
class TakeAlong(Operator):
    """One element of each row along the last axis: ``result[i] = x[i, ids[i]]``.

    The reference rejects an id out of range. Compiled code rejects those of an argument; a computed id out of range is
    clipped: a negative one takes the first element of the row, others the last, which gets no gradient from it.
    """

    name: ClassVar[str] = "take_along_last"
    flops: ClassVar[float] = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """The shape of the ids, which is the operand's without the last axis."""
        operands(self, inputs, 2)
        x, ids = inputs
        _integer_ids(self, ids)
        if not x.rank or x.shape[:-1] != ids.shape:
            raise TypeRuleError(
                f"take_along_last: ids must have the operand's shape without its last axis, got {x} and {ids}; "
                "reshape one"
            )
        if ids.size and not x.shape[-1]:
            raise TypeRuleError(
                f"take_along_last: rows must not be empty, got {x} for ids {ids}; pass at least one element"
            )
        return x.with_shape(ids.shape)

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:
        """The ids, along the last axis of the operand."""
        return None, inputs[0].shape[-1]

    def reference(self, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """`numpy.take_along_axis` on the last axis, with nonnegative ids only."""
        check_ids(self.name, ids, x.shape[-1])
        return np.asarray(np.take_along_axis(x, ids.astype(np.int64)[..., None], -1)[..., 0])

    def vjp(self, ct: Value, out: Value, x: Value, ids: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangent at the ids and 0 elsewhere, as a product that can be fused with its users."""
        if not is_float(x.dtype):
            return None, None
        return multiply(one_hot(ids, x.shape[-1], x.dtype), expand_dims(ct, -1)), None

    def lower(self, k: Builder, index: Index, x: Operand, ids: Operand) -> Scalar:
        """The element of the row; `Builder.position` keeps the id within the row."""
        return x((*index, k.position(ids(index), x.type.shape[-1])))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more rows."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Rows of several ranks and dtypes; no rows."""
        return [
            Sample(cls(), (spread(3, 4), np.array([3, 0, 2]))),
            Sample(cls(), (spread(2, 2, 3, dtype="f64"), np.array([[2, 0], [1, 1]], np.int32))),
            Sample(cls(), (spread(5), np.array(4, np.uint8))),
            Sample(cls(), (spread(2, 1), np.array([0, 0]))),
            Sample(cls(), (spread(0, 3), np.zeros(0, np.int64))),
            Sample(cls(), (np.array([[5, 6], [7, 8]], np.int32), np.array([1, 0]))),
            refused(cls(), ((3, 4), "f32"), ((4,), "i64"), error="without its last axis, got f32[3,4] and i64[4]"),
            refused(cls(), ((), "f32"), ((), "i64"), error="without its last axis, got f32[] and i64[]"),
            refused(
                cls(), ((3, 0), "f32"), ((3,), "i64"), error="take_along_last: rows must not be empty, got f32[3,0]"
            ),
            refused(cls(), ((3, 4), "f32"), ((3,), "bool"), error="got bool[3]; cast the ids to i64"),
        ]


@dataclass(frozen=True, slots=True)
class ScatterAdd(Operator):
    """Add rows into a tensor of zeros: ``result[ids[i]] += updates[i]``, in the order of i.

    The gradient of `Take`, which in turn is its gradient. The reference rejects an id out of range. Compiled code
    rejects those of an argument; the update of a computed id out of range is dropped, although the gradient of such an
    update is that of the first or last row.

    Parameters
    ----------
    rows : int
        Size of the result's first axis.
    """

    name: ClassVar[str] = "scatter_add"
    rows: int

    def infer(self, *inputs: TensorType) -> TensorType:
        """`rows` rows of the shape of the updates' rows."""
        operands(self, inputs, 2)
        ids, updates = inputs
        _integer_ids(self, ids)
        require(self, (updates,), "float integer unsigned", "cast the updates to i32")
        if updates.shape[: ids.rank] != ids.shape:
            raise TypeRuleError(
                f"scatter_add: the first axes of the updates must be those of the ids, got ids {ids} and updates "
                f"{updates}; pass one row per id"
            )
        result = updates.with_shape((self.rows, *updates.shape[ids.rank :]))
        if ids.size and not self.rows:
            raise TypeRuleError(
                f"scatter_add: the result must not be empty, got 0 rows for ids {ids}; use at least one"
            )
        return result

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:  # noqa: ARG002
        """The ids, along the first axis of the result."""
        return self.rows, None

    def reference(self, ids: np.ndarray, updates: np.ndarray) -> np.ndarray:
        """`numpy.add.at` on zeros, with nonnegative ids only."""
        check_ids(self.name, ids, self.rows)
        result = np.zeros((self.rows, *updates.shape[ids.ndim :]), updates.dtype)
        with np.errstate(all="ignore"):
            np.add.at(result, ids.astype(np.int64), updates)
        return result

    def vjp(self, ct: Value, out: Value, ids: Value, updates: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """For each update, the cotangent of the row that it was added to."""
        return None, (take(ct, ids) if is_float(updates.dtype) else None)

    def lower(self, k: Builder, index: Index, ids: Operand, updates: Operand) -> Scalar:
        """The whole sum, described with `Builder.scatter_add`; a row out of range is never written."""
        shape = ids.type.shape

        def place(n: Coordinate) -> Index:
            found: list[Coordinate] = []
            for size in reversed(shape[1:]):
                found.append(n % size)
                n = n // size
            return (n, *reversed(found)) if shape else ()

        return k.scatter_add(
            self.rows,
            prod(shape),
            lambda n: ids(place(n)),
            lambda n: updates((*place(n), *index[1:])),
        )

    def neutral(self, *inputs: Value) -> tuple[Value | float | None, ...]:  # noqa: ARG002
        """An update by 0."""
        return None, 0

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for rows of more elements, or in one table of the rows of all results."""
        ids, updates = inputs
        if not mapped[0]:
            return moved(apply(self, ids, moved(updates, 0, len(ids.shape))), 1, 0)
        ids, updates = all_mapped(mapped, inputs)
        numbers, inside = _in_one_table(ids, self.rows)
        size, row = ids.shape[0], updates.shape[len(ids.shape) :]
        # The update of an id out of range is dropped.
        result = scatter_add(where(inside, numbers, -1), updates, size * self.rows)
        return reshape(result, (size, self.rows, *row))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Ids of several ranks; rows with several updates and with none; no updates."""
        ids = np.array([[2, 0], [4, 2]])
        return [
            Sample(cls(5), (np.array([4, 0, 0, 2]), spread(4, 3))),
            Sample(cls(6), (ids.astype(np.int32), spread(2, 2, 3, dtype="f64"))),
            Sample(cls(5), (ids, spread(2, 2))),
            Sample(cls(4), (np.array(3, np.uint8), spread(2, 3))),
            Sample(cls(1), (np.array([0, 0]), spread(2, 2))),
            Sample(cls(3), (np.zeros(0, np.int64), spread(0, 2))),
            Sample(cls(2), (np.array([1, 1, 0]), np.array([5, 6, 7], np.int32))),
            refused(cls(5), ((3,), "f32"), ((3, 2), "f32"), error="got f32[3]; cast the ids to i64"),
            refused(cls(5), ((3,), "i64"), ((2, 3), "f32"), error="got ids i64[3] and updates f32[2,3]"),
            refused(cls(0), ((3,), "i64"), ((3, 2), "f32"), error="scatter_add: the result must not be empty, got 0"),
            refused(cls(5), ((3,), "i64"), ((3,), "bool"), error="cast the updates to i32"),
        ]


def one_hot(ids: Value, depth: int, dtype: object = "f32") -> Value:
    """A row of zeros per id, with a one at the id.

    Ids that are an argument of the compiled function, or views or casts of one, are checked before it runs. An id out
    of range that is computed inside it gives a row of zeros.

    Parameters
    ----------
    ids : Value
        Integers of any dtype and shape, 0 to ``depth - 1``.
    depth : int
        Length of the rows: the last axis of the result.
    dtype : str or numpy dtype, default "f32"
        Dtype of the result.
    """
    return apply(OneHot(depth, as_dtype(dtype)), ids)


def take(table: Value, ids: Value) -> Value:
    """Rows of a table, along its first axis: ``table[ids]`` in NumPy.

    Ids that are an argument of the compiled function, or views or casts of one, are checked before it runs. An id out
    of range that is computed inside it is clipped, and the row that it takes gets no gradient from it.

    Parameters
    ----------
    table : Value
        Shape ``[V, ...]``.
    ids : Value
        Integers of any dtype and shape, 0 to ``V - 1``.

    Returns
    -------
    Value
        Shape ``ids.shape + table.shape[1:]``.
    """
    return apply(Take(), table, ids)


def take_along_last(x: Value, ids: Value) -> Value:
    """One element of each row along the last axis, as in a loss over class indices.

    Ids that are an argument of the compiled function, or views or casts of one, are checked before it runs. An id out
    of range that is computed inside it is clipped, and the element that it takes gets no gradient from it.

    Parameters
    ----------
    x : Value
        Shape ``[..., C]``.
    ids : Value
        Integers of any dtype, shape ``[...]``, 0 to ``C - 1``.
    """
    return apply(TakeAlong(), x, ids)


def scatter_add(ids: Value, updates: Value, rows: int) -> Value:
    """Add rows into a tensor of zeros: ``result[ids[i]] += updates[i]``.

    Ids that are an argument of the compiled function, or views or casts of one, are checked before it runs. The update
    of an id out of range that is computed inside it is dropped.

    Parameters
    ----------
    ids : Value
        Integers of any dtype and shape, 0 to ``rows - 1``; values may repeat.
    updates : Value
        Shape ``ids.shape + [...]``, numbers.
    rows : int
        Size of the result's first axis; its other axes are those of `updates` after the axes of the ids.
    """
    return apply(ScatterAdd(rows), ids, updates)
