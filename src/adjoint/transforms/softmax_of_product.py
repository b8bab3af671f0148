"""Recognition of a softmax over the columns of a matrix product, and of what follows from the product.

A *column value* has one element for each row and each column of the product and can be computed for some of the columns
alone: the product, a constant, what is broadcast along rows or columns, a row of zeros with a one, and elementwise
functions of column values. `match` tells whether everything that depends on the product is a column value or one of

* the maximum of each row of the logits, and the sum of the exponentials relative to it;
* a pick: one element of each row, at an index;
* a sum over the columns or the rows of a column value, or a product of it with another matrix.
"""

from collections.abc import Iterator

from adjoint.ir import Function, TupleType, Value
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import Subtract
from adjoint.ops.base import Elementwise
from adjoint.ops.contract import MatMul
from adjoint.ops.convert import StopGradient
from adjoint.ops.create import Full
from adjoint.ops.index import OneHot, TakeAlong
from adjoint.ops.reduce import ReduceMax
from adjoint.ops.shape import BroadcastTo, ReduceSum, Reshape
from adjoint.ops.transcendental import Exp

__all__ = ["SoftmaxOfProduct", "matches", "repeats_columns", "repeats_rows"]

#: Stages of a value: independent of the product; known after a pass over all columns; and after two.
_BEFORE, _AFTER_SUMS, _LAST = range(3)


@dataclass(frozen=True, slots=True, eq=False)
class SoftmaxOfProduct:
    """A product, the softmax over its columns, and what else follows from it.

    Parameters
    ----------
    product : Value
        ``[rows, columns]``, a `MatMul`.
    logits : Value
        What the softmax is of: the product or a column value made of it.
    top, total : Value
        Of each row, the maximum, and the sum of the exponentials relative to it.
    columns : tuple of Value
        The column values of the graph, inputs before users.
    picks : tuple of Value
        One element of each row of a column value (`TakeAlong`).
    sums : tuple of Value
        Products of column values with matrices, and sums over rows or columns.
    """

    product: Value
    logits: Value
    top: Value
    total: Value
    columns: tuple[Value, ...]
    picks: tuple[Value, ...]
    sums: tuple[Value, ...]


def matches(function: Function) -> Iterator[SoftmaxOfProduct]:
    """The softmaxes over the columns of products in a function whose products nothing else needs as a whole."""
    for total in function.values():
        found = _softmax(total)
        if found is not None:
            matched = _matched(function, *found, total)
            if matched is not None:
                yield matched


def repeats_rows(value: Value) -> bool:
    """Whether an operand that is broadcast has one element for each row at most."""
    return not value.shape or value.shape[-1] == 1


def repeats_columns(value: Value, columns: int) -> bool:
    """Whether an operand that is broadcast has one element for each column, and the same in all rows."""
    return value.shape[-1:] == (columns,) and value.type.size == columns


def _softmax(total: Value) -> tuple[Value, Value] | None:
    """The logits and their maximum, if a value is the sum of the exponentials relative to it, over the last axis."""
    if not isinstance(total.op, ReduceSum) or not isinstance(total.inputs[0].op, Exp):
        return None
    lowered = total.inputs[0].inputs[0]
    last = (len(lowered.shape) - 1,)
    if total.op.axes != last or not isinstance(lowered.op, Subtract):
        return None
    logits, top = lowered.inputs
    while isinstance(top.op, BroadcastTo | Reshape | StopGradient):
        top = top.inputs[0]
    of_rows = isinstance(top.op, ReduceMax) and top.op.axes == last and top.inputs[0] is logits
    return (logits, top) if of_rows else None


def _matched(function: Function, logits: Value, top: Value, total: Value) -> SoftmaxOfProduct | None:
    """The pattern around a softmax, or None if the product is needed as a whole."""
    values = function.values()
    product = _product(logits)
    if product is None:
        return None
    columns = _column_values(values, product)
    if logits not in columns:
        return None
    inside = {product}
    for value in columns:
        if not inside.isdisjoint(value.inputs):
            inside.add(value)
    ends = _ends(values, inside, product, top, total)
    if ends is None or not inside.isdisjoint(function.results):
        return None
    return SoftmaxOfProduct(product, logits, top, total, columns, *ends)


def _product(logits: Value) -> Value | None:
    """The product that logits are made of, if there is one."""
    found: set[Value] = set()
    pending = [logits]
    while pending:
        value = pending.pop()
        if isinstance(value.op, MatMul) and len(value.shape) == 2:
            found.add(value)
        elif isinstance(value.op, Elementwise | Reshape):
            pending.extend(value.inputs)
    return found.pop() if len(found) == 1 else None


def _column_values(values: list[Value], product: Value) -> tuple[Value, ...]:
    """The column values of a graph, inputs before users."""
    size, count = product.type.size, product.shape[-1]
    found: dict[Value, None] = {}
    for value in values:
        kind = value.type
        if isinstance(kind, TupleType) or kind.size != size or kind.shape[-1:] != (count,):
            continue
        if isinstance(value.op, Elementwise | Reshape):
            fits = bool(value.inputs) and all(x in found for x in value.inputs)
        elif isinstance(value.op, BroadcastTo):
            fits = repeats_rows(value.inputs[0]) or repeats_columns(value.inputs[0], count)
        else:
            fits = value is product or isinstance(value.op, Full | OneHot)
        if fits:
            found[value] = None
    return tuple(found)


def _ends(
    values: list[Value], inside: set[Value], product: Value, top: Value, total: Value
) -> tuple[tuple[Value, ...], tuple[Value, ...]] | None:
    """The picks and sums of the column values that depend on the product; None if there is another use of them.

    What a column value is combined with must not depend on these sums, and the logits not on their own maximum.
    """
    stages: dict[Value, int] = {}
    picks: list[Value] = []
    sums: list[Value] = []
    for value in values:
        inner = max((stages[x] for x in value.inputs if x in inside), default=None)
        outer = max((stages[x] for x in value.inputs if x not in inside), default=_BEFORE)
        if value in inside:
            stages[value] = max(outer, inner or _BEFORE)
            if stages[value] > (_BEFORE if value is product else _AFTER_SUMS):
                return None
        elif inner is None:
            stages[value] = outer
        elif (value is top and inner == _BEFORE) or value is total:
            stages[value] = _AFTER_SUMS
        elif isinstance(value.op, TakeAlong) and outer == _BEFORE:
            picks.append(value)
            stages[value] = _AFTER_SUMS
        elif outer <= _AFTER_SUMS and _is_sum(value, inside):
            sums.append(value)
            stages[value] = _LAST
        else:
            return None
    return tuple(picks), tuple(sums)


def _is_sum(value: Value, inside: set[Value]) -> bool:
    """Whether a value is a sum over all rows or all columns, or a product with a matrix from outside."""
    operand = value.inputs[0]
    if isinstance(value.op, ReduceSum):
        last = len(operand.shape) - 1
        return value.op.axes in ((last,), tuple(range(last)))
    matrices = isinstance(value.op, MatMul) and len(value.shape) == 2
    return matrices and sum(x in inside for x in value.inputs) == 1
