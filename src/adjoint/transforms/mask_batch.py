"""Let a function that is written for a fixed number of rows be computed on fewer: count only rows that are present.

Before::

    func @main(%x: f32[4,3], %w: f32[3,2]) -> f32[] {
      %y: f32[4,2] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %y2: f32[4,2] = square(%y)
      %total: f32[] = sum(%y2) {axes = (0, 1), keepdims = False}
      %n: f32[] = count(%y2) {axes = (0, 1), dtype = f32}
      %mean: f32[] = divide(%total, %n)
      return %mean
    }

After::

    func @main(%x: f32[4,3], %w: f32[3,2], %rows: i32[]) -> f32[] {batch = ("rows", (("x", 0, 1),))} {
      %y: f32[4,2] = matmul(%x, %w) {transpose_a = False, transpose_b = False}
      %y2: f32[4,2] = square(%y)
      %total: f32[] = present_sum(%y2, %rows) {axes = (0, 1), batch = 0, each = 1}
      %3: f32[] = cast(%rows) {dtype = f32}
      %4: f32[] = full() {value = 2.0, shape = (), dtype = f32}
      %n: f32[] = multiply(%3, %4)
      %mean: f32[] = divide(%total, %n)
      return %mean
    }
"""

from adjoint import ops
from adjoint.errors import InvalidValueError, located
from adjoint.ir import Function, Value, apply, is_float, param, rebuild
from adjoint.ir.printer import value_names
from adjoint.ops.base import Operator
from adjoint.ops.centred import CentredSquares
from adjoint.ops.present import PresentSquares, PresentSum, present
from adjoint.ops.shape import ReduceSum
from adjoint.ops.sizes import Count
from adjoint.transforms.batch_axis import BatchAxes

__all__ = ["mask_batch"]


def mask_batch(function: Function, axes: BatchAxes, rows: str = "rows") -> Function:
    """Add a parameter with the number of rows that are present; the rows after these have no influence.

    An operator that combines rows gets its neutral element (`Operator.neutral`) in place of the elements of absent
    rows, and `adjoint.ops.count` counts the others. Nothing else needs to change: what is computed from absent rows is
    not used. So they have to hold valid data, such as copies of other rows. The gradient with respect to an absent row
    is 0, so the gradient of the function needs no further masks.

    Parameters
    ----------
    function : Function
        A graph without calls.
    axes : BatchAxes
        Its batch axes, from `batch_inputs`.
    rows : str, default "rows"
        Name of the new parameter, an i32 scalar from 1 to the number of rows that the function is written for.

    Returns
    -------
    Function
        Same name and results; the new parameter is the last one. With all rows present, it computes the same. A result
        with a batch axis contains something unspecified in absent rows. The attribute ``batch``, by which compiled code
        knows what it may leave out, is the name of the new parameter and, for each parameter with a batch axis, its
        name, the position of that axis, and the number of elements along it that belong to a row.

    Raises
    ------
    InvalidValueError
        If the function has a single row, or combines rows in a way for which there is no neutral element.
    """
    _check(function, axes)
    with located(""):  # nobody wrote this parameter
        masks = _Masks(axes, param(rows, (), "i32"))

    def replace(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        if isinstance(value.op, Count):
            return masks.count(value)
        if value in axes.combines:
            made = masks.summed(value, inputs)
            return masks.combine(value, inputs) if made is None else made
        return None

    results = rebuild(function.results, replace)
    each = tuple((p.label, axis.position, axis.each) for p in function.params if (axis := axes.of.get(p)) is not None)
    return Function(function.name, (*function.params, masks.rows), results, {**function.attrs, "batch": (rows, each)})


def _check(function: Function, axes: BatchAxes) -> None:
    """Raise if rows cannot be left out."""
    if axes.rows < 2:
        raise InvalidValueError("its batch is a single row")
    wrong = next((v for v in function.values() if v in axes.mixed or _combined(v, axes) is None), None)
    if wrong is not None:
        name = value_names(function)[wrong]
        raise InvalidValueError(f"{name} = {wrong.op.name}(...): {wrong.type} depends on all rows of a batch")


def _combined(value: Value, axes: BatchAxes) -> tuple[int, Value | float] | None:
    """Which operand of a value that combines rows has to be masked, and with what; (-1, 0) if the value does not."""
    if value not in axes.combines:
        return -1, 0
    if isinstance(value.op, ReduceSum | CentredSquares):
        return (0, 0) if 0 in axes.combines[value] else None
    assert isinstance(value.op, Operator)
    neutral = value.op.neutral(*value.inputs)
    return next(((n, x) for n in axes.combines[value] if (x := neutral[n]) is not None), None)


class _Masks:
    """Builds what depends on the number of rows."""

    def __init__(self, axes: BatchAxes, rows: Value) -> None:
        self.rows = rows
        self._axes = axes

    def count(self, value: Value) -> Value | None:
        """The number of elements that are present, if they are counted along the batch axis."""
        assert isinstance(value.op, Count)
        (x,) = value.inputs
        axis = self._axes.axis(x)
        if axis is None or axis.position not in value.op.axes:
            return None
        each = value.op.of(x.type) // self._axes.rows
        return ops.multiply(ops.cast(self.rows, value.dtype), float(each)).in_place_of(value)

    def summed(self, value: Value, inputs: tuple[Value, ...]) -> Value | None:
        """A sum, as the operator for the rows that are present."""
        if not isinstance(value.op, ReduceSum | CentredSquares):
            return None
        axis = self._axes.of[value.inputs[0]]
        match value.op:
            case ReduceSum(axes=axes):
                made = apply(PresentSum(axes, axis.position, axis.each), *inputs, self.rows)
                return ops.reshape(made, value.shape).in_place_of(value)
            case CentredSquares(axes=axes):
                return apply(PresentSquares(axes, axis.position, axis.each), *inputs, self.rows).in_place_of(value)

    def combine(self, value: Value, inputs: tuple[Value, ...]) -> Value:
        """A value that combines rows, with the neutral element in place of those that are absent."""
        assert isinstance(value.op, Operator)
        found = _combined(value, self._axes)
        assert found is not None  # _check has raised otherwise
        number, _ = found
        x = inputs[number]
        neutral = value.op.neutral(*inputs)[number]
        if not isinstance(neutral, Value):
            neutral = ops.full(neutral if is_float(x.dtype) else int(neutral), x.shape, x.dtype)  # type: ignore[arg-type]
        axis = self._axes.of[value.inputs[number]]
        masked = ops.where(present(self.rows, x.shape, axis.position, axis.each), x, neutral)
        operands = (*inputs[:number], masked, *inputs[number + 1 :])
        return value.with_inputs(operands)
