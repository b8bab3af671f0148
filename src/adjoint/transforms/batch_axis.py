"""Where the batch axis of a function's inputs is found again in every value of its graph.

The first axis of the inputs counts the rows of a batch. Each operator is asked for one element of its result, with
symbolic coordinates, and what it reads says which row that element belongs to: ``x[i0, i2, i1]`` belongs to row ``i0``,
and after a reshape of ``[rows, 12]`` to ``[rows * 12]`` the element ``i0`` belongs to row ``i0 // 12``. The operators
need no rules of their own for this. A value that no input reaches, such as a weight, has no batch axis, and one that is
computed from all rows, such as a mean loss, has none either.

A scan whose body treats rows alike, as a recurrent cell does, has the batch axes that its body has. Other loops and
branches are not looked into.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field
from typing import Any

from adjoint.ir import Function, TensorType, Value, is_param
from adjoint.kernel.index import Index, Var, as_index
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.base import Dot, Operator
from adjoint.ops.calls import TupleGet
from adjoint.ops.control import Control, Scan
from adjoint.transforms.observing import Element, Observer

__all__ = ["Axis", "BatchAxes", "batch_axes", "batch_inputs", "stated_batch"]


@dataclass(frozen=True, slots=True)
class Axis:
    """The batch axis of a value.

    Parameters
    ----------
    position : int
        Which axis it is.
    each : int
        Number of consecutive elements along the axis that belong to the same row: the axis has the size
        ``rows * each``.
    """

    position: int
    each: int

    def row(self, index: Sequence[Index | int]) -> Index:
        """The row of the element at an index."""
        return as_index(index[self.position]) // self.each


@dataclass
class BatchAxes:
    """The result of `batch_inputs`.

    Parameters
    ----------
    rows : int
        The number of rows that the function is written for.
    of : dict of Value to Axis
        The batch axes of the inputs, and of all values that have one because an input reaches them.
    aligned : dict of Value to Axis
        The batch axes of values that no input reaches, but that are combined with rows one by one: a position for each
        row, a bias that was broadcast to all rows, or a parameter that holds something for each row.
    combines : dict of Value to tuple of int
        Values that are computed from all rows, as a sum over them is, and the operands that this concerns.
    mixed : list of Value
        Values that depend on the rows in any other way, as a product of every row with every other does.
    """

    rows: int
    of: dict[Value, Axis] = field(default_factory=dict)
    aligned: dict[Value, Axis] = field(default_factory=dict)
    combines: dict[Value, tuple[int, ...]] = field(default_factory=dict)
    mixed: list[Value] = field(default_factory=list)

    def axis(self, value: Value) -> Axis | None:
        """The batch axis of a value, if it has one for either reason."""
        return self.of.get(value) or self.aligned.get(value)


def batch_inputs(function: Function, candidates: Sequence[Value]) -> BatchAxes:
    """Find out which parameters have a batch axis, and with them the batch axis of every value.

    The first axis of the first candidate that is not a scalar counts the rows. Another candidate has a batch axis if
    its elements are combined with the elements of the same row, as targets are with predictions, and class weights are
    not.

    Parameters
    ----------
    function : Function
        A graph without calls.
    candidates : sequence of Value
        Some of its parameters, such as inputs and targets.
    """
    first = next((p for p in candidates if p.shape), None)
    if first is None:
        return BatchAxes(1)
    inputs = {first: Axis(0, 1)}
    observed: dict[Hashable, _Reads] = {}
    while True:
        found = _batch_axes(function, first.shape[0], inputs, observed)
        more = {p: found.aligned[p] for p in candidates if p in found.aligned}
        if not more:
            return found
        inputs |= more


def batch_axes(function: Function, inputs: Mapping[Value, Axis]) -> BatchAxes:
    """The batch axis of every value, given those of some parameters.

    With a single row, coordinates of rows cannot be told from constants, so no axis is found.

    Parameters
    ----------
    function : Function
        A graph without calls.
    inputs : mapping of Value to Axis
        The batch axes of parameters, at least one, all for the same number of rows.
    """
    value, axis = next(iter(inputs.items()))
    return _batch_axes(function, value.shape[axis.position] // axis.each, inputs, {})


def stated_batch(function: Function) -> tuple[Value, BatchAxes] | None:
    """The number of rows that are present, a parameter, and the batch axes, as the attribute ``batch`` states them.

    None if there is no such attribute, or the parameter or all inputs with a batch axis were removed.
    """
    stated: Any = function.attrs.get("batch")
    params = {p.label: p for p in function.params}
    if stated is None or stated[0] not in params:
        return None
    inputs = {params[name]: Axis(position, each) for name, position, each in stated[1] if name in params}
    return (params[stated[0]], batch_axes(function, inputs)) if inputs else None


def _batch_axes(
    function: Function, rows: int, inputs: Mapping[Value, Axis], observed: "dict[Hashable, _Reads]"
) -> BatchAxes:
    """The batch axis of every value, given those of the inputs; `observed` keeps what elements read for the next call.

    With a single row, coordinates of rows cannot be told from constants, so no axis is found.
    """
    found = BatchAxes(rows)
    if rows < 2:
        return found
    found.of |= inputs
    order = function.values()
    loops: dict[Value, _Loop] = {}
    for value in order:
        if value in found.of or is_param(value):
            continue
        if isinstance(value.op, TupleGet) and value.inputs[0] in loops:
            axis = loops[value.inputs[0]].results[value.op.index]
            if axis is not None:
                found.of[value] = axis
            continue
        if isinstance(value.op, Control | TupleGet):
            loop = _through_scan(value, found, observed)
            if loop is not None:
                loops[value] = loop
            elif any(v in found.of for v in value.inputs):
                found.mixed.append(value)  # a loop or branch may do anything with its rows
            continue
        reads = _observed(value, observed)
        carried = {n: found.of[v] for n, v in enumerate(value.inputs) if v in found.of}
        touched = {found_axis.row(at) for n, at in reads.all if (found_axis := carried.get(n)) is not None}
        if touched:
            _classify(value, touched, reads, found, tuple(carried))
    for value in reversed(order):
        if value in loops:
            for operand, axis in zip(value.inputs, loops[value].operands, strict=True):
                if axis is not None and operand not in found.of:
                    found.aligned.setdefault(operand, axis)
            continue
        axis = found.axis(value)
        if axis is not None and not is_param(value) and not isinstance(value.op, Control | TupleGet):
            reads = _observed(value, observed)
            _align_operands(value, axis.row(reads.index), reads, found)
    return found


def _observed(value: Value, observed: "dict[Hashable, _Reads]") -> "_Reads":
    """What one element of a value reads, found once for values with equal operators and types."""
    key = value.op.key(), value.type, *[v.type for v in value.inputs]
    if key not in observed:
        observed[key] = _reads(value)
    return observed[key]


@dataclass(frozen=True, slots=True)
class _Loop:
    """The batch axes of the operands and of the results of a scan."""

    operands: tuple[Axis | None, ...]
    results: tuple[Axis | None, ...]


def _through_scan(value: Value, found: BatchAxes, observed: "dict[Hashable, _Reads]") -> _Loop | None:
    """The batch axes of a scan; None if it is none, has none, or its body does not treat rows alike."""
    op = value.op
    if not isinstance(op, Scan) or not any(v in found.of for v in value.inputs):
        return None
    fixed = op.consts + op.carries
    given = [found.of.get(v) for v in value.inputs]
    if any(axis is not None and axis.position == 0 for axis in given[fixed:]):
        return None  # each iteration is for a row
    inner = [axis if n < fixed else _moved(axis, -1) for n, axis in enumerate(given)]
    while True:
        inputs = {p: axis for p, axis in zip(op.body.params, inner, strict=True) if axis is not None}
        inside = _batch_axes(op.body, found.rows, inputs, observed)
        if inside.mixed or inside.combines:
            return None
        results = [inside.of.get(r) for r in op.body.results]
        after = [*inner[: op.consts], *results[: op.carries], *inner[fixed:]]
        if after == inner:
            break
        if any(old is not None and old != new for old, new in zip(inner, after, strict=True)):
            return None
        inner = after  # an initial carry without rows, as of zeros, gets some in the first iteration
    aligned = [axis or inside.aligned.get(p) for p, axis in zip(op.body.params, inner, strict=True)]
    operands = [*aligned[: op.consts], *inner[op.consts : fixed], *(_moved(axis, 1) for axis in aligned[fixed:])]
    stacked = [_moved(axis, 1) for axis in results[op.carries :]]
    return _Loop(tuple(operands), (*results[: op.carries], *stacked))


def _moved(axis: Axis | None, by: int) -> Axis | None:
    return None if axis is None else Axis(axis.position + by, axis.each)


def _classify(value: Value, rows: set[Index], reads: "_Reads", found: BatchAxes, carried: tuple[int, ...]) -> None:
    """Decide how a value depends on rows, given those that one element of it reads."""
    for position, size in enumerate(value.shape):
        axis = Axis(position, size // found.rows)
        if size and size % found.rows == 0 and rows == {axis.row(reads.index)}:
            found.of[value] = axis
            return
    if all(row.variables() and row.variables() <= reads.reduced for row in rows):
        found.combines[value] = carried
    else:
        found.mixed.append(value)


def _align_operands(value: Value, row: Index, reads: "_Reads", found: BatchAxes) -> None:
    """Note which operands without a batch axis are read at the row that an element of the value belongs to."""
    for number, at in reads.all:
        operand = value.inputs[number]
        if operand in found.of or operand in found.aligned:
            continue
        for position, size in enumerate(operand.shape):
            axis = Axis(position, size // found.rows)
            if size and size % found.rows == 0 and axis.row(at) == row:
                found.aligned[operand] = axis
                break


@dataclass
class _Reads:
    """What one element of a value reads.

    Parameters
    ----------
    index : tuple of Index
        The element's own coordinates, one variable each.
    all : list of (int, tuple of Index)
        Numbers of operands, and the coordinates at which they are read.
    reduced : set of Var
        Variables over which the operator reduces.
    """

    index: tuple[Index, ...]
    all: list[tuple[int, tuple[Index, ...]]]
    reduced: set[Var]


def _reads(value: Value) -> _Reads:
    """Lower one element of a value and record what it reads."""
    index = tuple(as_index(Var(f"i{axis}", size)) for axis, size in enumerate(value.shape))
    reads = _Reads(index, [], set())
    if isinstance(value.op, Operator):
        value.op.lower(_Recorder(reads), index, *(_Operand(n, v.type, reads) for n, v in enumerate(value.inputs)))
    return reads


@dataclass(frozen=True, slots=True)
class _Operand:
    """An operand that records where it is read."""

    number: int
    type: TensorType
    reads: _Reads

    def __call__(self, index: Sequence[Any]) -> Element:
        self.reads.all.append((self.number, tuple(map(as_index, index))))
        return Element(self.type.dtype, self.number)


class _Recorder(Observer):
    """A `Builder` for which only coordinates matter."""

    def __init__(self, reads: _Reads) -> None:
        self.reads = reads

    def position(self, x: Element, size: int) -> Index:  # noqa: ARG002
        # Any coordinate of the axis: a variable that belongs to no row.
        return as_index(Var("p", size))

    def reduce(self, kind: str, extents: Sequence[int], body: Callable[[Any], Element]) -> Element:  # noqa: ARG002
        return body(tuple(self._variable(extent) for extent in extents))

    def scatter_add(
        self,
        rows: int,  # noqa: ARG002
        count: int,
        ids: Callable[[Any], Element],
        updates: Callable[[Any], Element],
    ) -> Element:
        n = self._variable(count)
        ids(n)
        return updates(n)

    def prefix_scan(
        self,
        axis: int,  # noqa: ARG002
        size: int,
        start: Element,
        step: Callable[[Any, Element], Element],
        exclusive: bool = False,  # noqa: ARG002
        reverse: bool = False,  # noqa: ARG002
    ) -> Element:
        return step(self._variable(size), start)

    def fused_attention(
        self,
        kind: str,  # noqa: ARG002
        count: int,
        dots: Sequence[Dot],
        weight: Callable[[Any, Sequence[Element]], Element],
        values: Callable[[Any], Element] | None = None,
        span: Any = None,  # noqa: ARG002
        factor: Callable[[Any], Element] | None = None,
    ) -> Element:
        n = self._variable(count)
        products = []
        for dot in dots:
            d = self._variable(dot.depth)
            products.append(dot.row(d))
            dot.step(n, d)
        made = weight(n, products)
        if factor is not None:
            factor(n)
        return made if values is None else values(n)

    def row_algorithm(
        self,
        name: str,  # noqa: ARG002
        rank: int,  # noqa: ARG002
        operands: Sequence[tuple[tuple[int, ...], Callable[[Any], Element]]],
        options: tuple[str, ...] = (),  # noqa: ARG002
    ) -> Element:
        return [read(tuple(self._variable(size) for size in shape)) for shape, read in operands][-1]

    def _variable(self, extent: int) -> Index:
        made = Var("r", extent)
        self.reads.reduced.add(made)
        return as_index(made)
