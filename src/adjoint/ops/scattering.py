"""Gathering and scattering along the last axis: several elements of each row, at positions of its own.

`adjoint.ops.gathering` has the functions, for any axis. Positions are integers and count from 0; as everywhere in
adjoint, those of an argument are checked before a compiled function runs, and of those that are computed inside it and
are out of range, reads are clipped and get no gradient, and writes are dropped.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import TypeRuleError
from adjoint.ir.types import TensorType, is_float
from adjoint.ir.value import Op, Value, apply
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import divide, multiply
from adjoint.ops.base import Builder, Index, Operand, Operator, Sample, Scalar
from adjoint.ops.build import full_like
from adjoint.ops.convert import cast
from adjoint.ops.create import full, iota
from adjoint.ops.index import check_ids
from adjoint.ops.logic import equal, less, where
from adjoint.ops.rules import operands, refused, require
from adjoint.ops.sampling import spread
from adjoint.ops.vectorizing import all_mapped

__all__ = ["REDUCTIONS", "Gather", "Scatter"]

#: How `Scatter` combines an element with an update.
REDUCTIONS = ("set", "add", "prod", "amax", "amin")


def _rows(op: Op, x: TensorType, ids: TensorType) -> None:
    """Raise unless `x` and the positions have rows, as many of each."""
    require(op, (ids,), "integer unsigned", "cast the ids to i64")
    if not x.rank or not ids.rank or x.shape[:-1] != ids.shape[:-1]:
        raise TypeRuleError(
            f"{op.name}: ids must have the operand's shape except for the last axis, got {x} and {ids}; reshape one"
        )
    if ids.size and not x.shape[-1]:
        raise TypeRuleError(f"{op.name}: rows must not be empty, got {x} for ids {ids}; pass at least one element")


@dataclass(frozen=True, slots=True)
class Gather(Operator):
    """Elements of each row, at positions along the last axis: ``result[i, j] = x[i, ids[i, j]]``.

    The reference rejects an id out of range. Compiled code rejects those of an argument; a computed id out of range is
    clipped, and the element that it takes gets no gradient from it.
    """

    name: ClassVar[str] = "gather"
    flops: ClassVar[float] = 0.0

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's dtype in the shape of the ids."""
        operands(self, inputs, 2)
        x, ids = inputs
        _rows(self, x, ids)
        return x.with_shape(ids.shape)

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:
        """The ids, along the last axis of the operand."""
        return None, inputs[0].shape[-1]

    def reference(self, x: np.ndarray, ids: np.ndarray) -> np.ndarray:
        """`numpy.take_along_axis` on the last axis, with nonnegative ids only."""
        check_ids(self.name, ids, x.shape[-1])
        return np.asarray(np.take_along_axis(x, ids.astype(np.int64), -1))

    def vjp(self, ct: Value, out: Value, x: Value, ids: Value) -> tuple[Value | None, ...]:  # noqa: ARG002
        """The cotangents added up where their elements are."""
        return (apply(Scatter("add"), full_like(x, 0.0), ids, ct) if is_float(x.dtype) else None), None

    def lower(self, k: Builder, index: Index, x: Operand, ids: Operand) -> Scalar:
        """The element of the row; `Builder.position` keeps the id within the row."""
        return x((*index[:-1], k.position(ids(index), x.type.shape[-1])))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more rows."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """More and fewer ids than elements, repeated ones, several ranks and dtypes; no rows."""
        return [
            Sample(cls(), (spread(2, 4), np.array([[3, 0, 3], [1, 1, 2]]))),
            Sample(cls(), (spread(3, dtype="f64"), np.array([2, 0, 1, 1], np.int32))),
            Sample(cls(), (spread(0, 3), np.zeros((0, 2), np.uint8))),
            Sample(cls(), (np.array([[True, False]]), np.array([[1, 1, 0]]))),
            refused(cls(), ((3, 4), "f32"), ((4, 2), "i64"), error="except for the last axis, got f32[3,4] and i64[4"),
            refused(cls(), ((), "f32"), ((), "i64"), error="except for the last axis, got f32[] and i64[]"),
            refused(cls(), ((3, 0), "f32"), ((3, 2), "i64"), error="gather: rows must not be empty, got f32[3,0]"),
            refused(cls(), ((3, 4), "f32"), ((3, 4), "f32"), error="got f32[3,4]; cast the ids to i64"),
        ]


@dataclass(frozen=True, slots=True)
class Scatter(Operator):
    """Rows with elements combined with updates, in their order: ``x[i, ids[i, j]] op= updates[i, j]``.

    The reference rejects an id out of range. Compiled code rejects those of an argument; the update of a computed id
    out of range is dropped. As in PyTorch, elements and updates that are the maximum or minimum share its gradient
    equally. Of several updates that replace one element, the last one counts, and it alone has a gradient. Second
    derivatives of a product lack the terms that are not 0 only because a factor is.

    Parameters
    ----------
    reduce : {"set", "add", "prod", "amax", "amin"}
        How an element and an update are combined; ``set`` replaces the element.
    """

    name: ClassVar[str] = "scatter"
    reduce: str

    def infer(self, *inputs: TensorType) -> TensorType:
        """The operand's type."""
        operands(self, inputs, 3)
        x, ids, updates = inputs
        if self.reduce not in REDUCTIONS:
            raise TypeRuleError(
                f"scatter: reduce must be one of {', '.join(REDUCTIONS)}, got {self.reduce!r} for {x}; choose one"
            )
        _rows(self, x, ids)
        if self.reduce != "set":
            require(self, (x,), "float integer unsigned", "cast it to i32")
        if updates.shape != ids.shape or updates.dtype != x.dtype:
            raise TypeRuleError(
                f"scatter: updates must have the shape of the ids and the operand's dtype, got updates {updates}, ids "
                f"{ids} and {x}; reshape or cast them"
            )
        return x

    def index_sizes(self, *inputs: TensorType) -> tuple[int | None, ...]:
        """The ids, along the last axis of the operand."""
        return None, inputs[0].shape[-1], None

    def reference(self, x: np.ndarray, ids: np.ndarray, updates: np.ndarray) -> np.ndarray:
        """A loop over the updates, with nonnegative ids only; 16-bit floats are combined in f32 and rounded once."""
        check_ids(self.name, ids, x.shape[-1])
        combine: dict[str, Callable[..., Any]] = {
            "set": lambda _, new: new,
            "add": np.add,
            "prod": np.multiply,
            "amax": np.maximum,
        }
        function = combine.get(self.reduce, np.minimum)
        wide = np.float32 if is_float(x.dtype) and x.dtype.itemsize == 2 else x.dtype
        result = x.astype(wide)
        with np.errstate(all="ignore"):
            for at in np.ndindex(ids.shape):
                place = (*at[:-1], int(ids[at]))
                result[place] = function(result[place], updates[at].astype(wide))
        return result.astype(x.dtype)

    def vjp(self, ct: Value, out: Value, x: Value, ids: Value, updates: Value) -> tuple[Value | None, ...]:
        """By the way of combining; none for integers."""
        if not is_float(x.dtype):
            return None, None, None
        mine = apply(Gather(), ct, ids)
        if self.reduce == "add":
            return ct, None, mine
        if self.reduce == "set":
            return _of_set(ct, mine, x, ids)
        if self.reduce == "prod":
            return _of_product(ct, x, ids, updates)
        largest = equal(x, out), equal(updates, apply(Gather(), out, ids))
        counts = apply(Scatter("add"), cast(largest[0], x.dtype), ids, cast(largest[1], x.dtype))
        share = divide(ct, counts)
        return where(largest[0], share, 0.0), None, where(largest[1], apply(Gather(), share, ids), 0.0)

    def lower(self, k: Builder, index: Index, x: Operand, ids: Operand, updates: Operand) -> Scalar:
        """The whole row, described with `Builder.row_algorithm`."""
        row = index[:-1]
        given = [(o.type.shape[-1:], lambda i, o=o: o((*row, *i))) for o in (x, ids, updates)]
        return k.row_algorithm("scatter", 1, given, (self.reduce,))

    def vectorize(self, mapped: tuple[bool, ...], *inputs: Value) -> Value:
        """The same for more rows."""
        return apply(self, *all_mapped(mapped, inputs))

    @classmethod
    def samples(cls) -> list[Sample]:
        """Each way of combining, with repeated and missing positions; zeros in products; no updates; integers."""
        ids, new = np.array([[3, 0, 3], [1, 1, 2]]), spread(2, 3, dtype="f64")
        long = np.arange(20) * 7 % 23
        whole = np.array([[5, -2, 7], [1, 0, 3]], np.int32)
        few = np.array([[2, 2], [0, 1]], np.uint8)
        one_zero = np.array([0.5, 0.0, 2.0, -1.0])
        return [
            *(Sample(cls(reduce), (spread(2, 4, dtype="f64"), ids, new)) for reduce in REDUCTIONS),
            *(Sample(cls(reduce), (whole, few, np.array([[4, 3], [9, -8]], np.int32))) for reduce in REDUCTIONS[1:]),
            Sample(cls("prod"), (one_zero, np.array([1, 2, 2]), np.array([3.0, 0.0, 1.5])), gradient=False),
            Sample(cls("prod"), (one_zero, np.array([1, 2, 2]), np.array([0.0, 0.0, 0.0])), gradient=False),
            Sample(cls("add"), (spread(23), long, spread(20))),
            Sample(cls("set"), (np.array([True, False, True]), np.array([0]), np.array([False]))),
            Sample(cls("add"), (spread(2, 3), np.zeros((2, 0), np.int64), spread(2, 0))),
            refused(cls("sum"), ((3,), "f32"), ((3,), "i64"), ((3,), "f32"), error="reduce must be one of set, add,"),
            refused(cls("add"), ((3,), "bool"), ((3,), "i64"), ((3,), "bool"), error="got bool[3]; cast it to i32"),
            refused(cls("set"), ((3,), "f32"), ((2,), "i64"), ((2,), "f64"), error="got updates f64[2], ids i64[2]"),
            refused(cls("set"), ((2, 3), "f32"), ((3, 2), "i64"), ((3, 2), "f32"), error="except for the last axis"),
        ]


def _of_set(ct: Value, mine: Value, x: Value, ids: Value) -> tuple[Value | None, ...]:
    """Cotangents where elements are replaced: the last update of an element has that of the element."""
    nobody = full(-1, x.shape, "i64")
    own = iota(ids.shape, len(ids.shape) - 1)
    last = apply(Scatter("set"), nobody, ids, own)
    return where(less(last, 0), ct, 0.0), None, where(equal(apply(Gather(), last, ids), own), mine, 0.0)


def _of_product(ct: Value, x: Value, ids: Value, updates: Value) -> tuple[Value | None, ...]:
    """Cotangents of a product: that of the result times the product of the other factors, of which some may be 0."""
    of_x, of_updates = equal(x, 0.0), equal(updates, 0.0)
    zeros = apply(Scatter("add"), cast(of_x, "i64"), ids, cast(of_updates, "i64"))
    others = apply(Scatter("prod"), where(of_x, 1.0, x), ids, where(of_updates, 1.0, updates))
    slope = multiply(ct, others)

    def cotangent(factor: Value, is_zero: Value, count: Value, total: Value) -> Value:
        """The product of all factors but one: by division if that is not 0, otherwise it is the only one."""
        quotient = divide(total, where(is_zero, 1.0, factor))
        alone = equal(count, cast(is_zero, "i64"))
        return where(alone, quotient, 0.0)

    gathered = apply(Gather(), zeros, ids), apply(Gather(), slope, ids)
    return cotangent(x, of_x, zeros, slope), None, cotangent(updates, of_updates, *gathered)
