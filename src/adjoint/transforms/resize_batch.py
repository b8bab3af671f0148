"""Rewrite a function for another number of rows.

Before::

    func @main(%x: f32[4,6], %w: f32[3,2], %b: f32[2]) -> f32[4,2,2] {
      %0: f32[8,3] = reshape(%x) {shape = (8, 3)}
      %y: f32[8,2] = matmul(%0, %w) {transpose_a = False, transpose_b = False}
      %2: f32[8,2] = broadcast_to(%b) {shape = (8, 2)}
      %3: f32[8,2] = add(%y, %2)
      %4: f32[4,2,2] = reshape(%3) {shape = (4, 2, 2)}
      return %4
    }

After::

    func @main(%x: f32[2,6], %w: f32[3,2], %b: f32[2]) -> f32[2,2,2] {
      %0: f32[4,3] = reshape(%x) {shape = (4, 3)}
      %y: f32[4,2] = matmul(%0, %w) {transpose_a = False, transpose_b = False}
      %2: f32[4,2] = broadcast_to(%b) {shape = (4, 2)}
      %3: f32[4,2] = add(%y, %2)
      %4: f32[2,2,2] = reshape(%3) {shape = (2, 2, 2)}
      return %4
    }
"""

from dataclasses import replace

from adjoint.errors import AdjointError, InvalidValueError
from adjoint.ir import Function, Op, TensorType, Value, is_param, rebuild
from adjoint.ir.printer import value_names
from adjoint.ir.value import infer_type
from adjoint.ops.create import Constant, Full, Iota
from adjoint.ops.shape import BroadcastTo, Reshape, Slice
from adjoint.ops.threefry import RandomBits
from adjoint.transforms.batch_axis import Axis, BatchAxes

__all__ = ["resize_batch"]


def resize_batch(function: Function, axes: BatchAxes, rows: int) -> Function:
    """The same function for batches of another size, as if it had been written for them.

    Parameters
    ----------
    function : Function
        A graph without calls, in which each row of the results depends on the same row of the inputs only.
    axes : BatchAxes
        Its batch axes, from `batch_inputs`.
    rows : int
        The new number of rows, at least 1.

    Returns
    -------
    Function
        Same name and attributes; parameters and results have the new number of rows along their batch axes.

    Raises
    ------
    InvalidValueError
        If the function combines rows, returns something that has no batch axis, has a parameter other than the inputs
        with something for each row, or an operator cannot be rewritten.
    """
    _check(function, axes)
    params = {p: _resized_param(p, axes.of.get(p), rows) for p in function.params}

    def resize(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        axis = axes.axis(value)
        wanted = value.type if axis is None else _resized(value.type, axis, rows)
        op = value.op if axis is None else _resized_op(value.op, wanted, axis)
        try:
            found = infer_type(op, tuple(v.type for v in inputs))
        except AdjointError as error:
            raise _unsuitable(function, value) from error
        if found != wanted:
            raise _unsuitable(function, value)
        return Value(op, inputs, wanted, value.label, value.number, value.line)

    results = rebuild(function.results, resize, params)
    return Function(function.name, tuple(params.values()), results, function.attrs)


def _check(function: Function, axes: BatchAxes) -> None:
    if axes.rows < 2:
        raise InvalidValueError("its batch is a single row")
    for value in function.values():
        if value in axes.mixed or value in axes.combines or (is_param(value) and value in axes.aligned):
            raise _unsuitable(function, value)
    for result in function.results:
        if result not in axes.of:
            raise _unsuitable(function, result)


def _unsuitable(function: Function, value: Value) -> InvalidValueError:
    name = value_names(function)[value]
    return InvalidValueError(f"{name} = {value.op.name}(...): {value.type} depends on the number of rows")


def _resized(type_: TensorType, axis: Axis, rows: int) -> TensorType:
    shape = list(type_.shape)
    shape[axis.position] = rows * axis.each
    return type_.with_shape(shape)


def _resized_param(value: Value, axis: Axis | None, rows: int) -> Value:
    if axis is None:
        return value
    type_ = _resized(value.type, axis, rows)
    return Value(replace(value.op, type=type_), (), type_, value.label, None, value.line)  # type: ignore[call-arg]


def _resized_op(op: Op, wanted: TensorType, axis: Axis) -> Op:
    """The operator with the new shape, if that is one of its attributes."""
    match op:
        case Reshape() | BroadcastTo() | Full() | Iota():
            return replace(op, shape=wanted.shape)
        case RandomBits(shape=shape):
            return replace(op, shape=wanted.shape[wanted.rank - len(shape) :])
        case Constant(data=data, shape=shape) if all(size == 1 for size in shape[: axis.position]):
            bytes_each = len(data) // shape[axis.position]
            return replace(op, data=data[: wanted.shape[axis.position] * bytes_each], shape=wanted.shape)
        case Slice(stop=stop):
            at = axis.position
            return replace(op, stop=(*stop[:at], wanted.shape[at], *stop[at + 1 :]))
        case _:
            return op
