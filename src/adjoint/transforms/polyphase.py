"""Polyphase decomposition: transposed convolutions become convolutions without stride.

Before::

    func @main(%x: f32[1,1,3,2], %w: f32[1,1,2,1]) -> f32[1,1,6,2] {
      %y: f32[1,1,6,2] = conv_transpose2d(%x, %w) {stride = (2, 1), padding = (0, 0), dilation = (1, 1), groups = 1, size = (6, 2)}
      return %y
    }

After::

    func @main(%x: f32[1,1,3,2], %w: f32[1,1,2,1]) -> f32[1,1,6,2] {
      %0: f32[1,1,1,1] = slice(%w) {start = (0, 0, 0, 0), stop = (1, 1, 2, 1), step = (1, 1, 2, 1)}
      %1: f32[1,1,1,1] = permute(%0) {axes = (1, 0, 2, 3)}
      %2: f32[1,1,3,2] = conv2d(%x, %1) {stride = (1, 1), padding = (0, 0), dilation = (1, 1), groups = 1}
      %3: f32[1,1,6,2] = pad(%2) {low = (0, 0, 0, 0), high = (0, 0, 1, 0), interior = (0, 0, 1, 0), value = 0.0}
      %4: f32[1,1,1,1] = slice(%w) {start = (0, 0, 1, 0), stop = (1, 1, 2, 1), step = (1, 1, 2, 1)}
      %5: f32[1,1,1,1] = permute(%4) {axes = (1, 0, 2, 3)}
      %6: f32[1,1,3,2] = conv2d(%x, %5) {stride = (1, 1), padding = (0, 0), dilation = (1, 1), groups = 1}
      %7: f32[1,1,6,2] = pad(%6) {low = (0, 0, 1, 0), high = (0, 0, 0, 0), interior = (0, 0, 1, 0), value = 0.0}
      %y: f32[1,1,6,2] = add(%3, %7)
      return %y
    }

How: with stride 2 and a 3x3 window, even rows and columns of the result need 2x2 elements of the weight, odd ones 1x1,
mixed ones 2x1 and 1x2: nine products for four elements, the minimum. Inserting zeros between the rows of the operand
instead would need 36 products, three quarters of them with 0. Only the requested elements are computed: since the
operator includes the padding, what it cuts off never is.
"""  # noqa: E501 - a line of graph text

from dataclasses import dataclass
from itertools import product
from math import gcd

from adjoint.ir import Function, Value, apply, rebuild
from adjoint.ops.arithmetic import add
from adjoint.ops.convolution import Conv2d, Conv3d, ConvTranspose2d
from adjoint.ops.create import full
from adjoint.ops.shape import flip, pad, permute, reshape, slice, slice_axis

__all__ = ["polyphase"]


def polyphase(function: Function) -> Function:
    """Replace every transposed convolution by one convolution for each remainder of its axes by the stride.

    It is always legal, and it pays off always: the operator itself would test for every element of a window whether
    there is one to multiply.

    Parameters
    ----------
    function : Function
        A graph without calls, before `simplify`, which tidies up what the phases are made of.

    Returns
    -------
    Function
        Same name, parameters and attributes; sums of products in another order.
    """
    if not any(isinstance(value.op, ConvTranspose2d) for value in function.values()):
        return function

    def replaced(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        if not isinstance(value.op, ConvTranspose2d):
            return None
        made = _in_phases(value.op, *inputs)
        return made if made in inputs else made.in_place_of(value)

    return Function(function.name, function.params, rebuild(function.results, replaced), function.attrs)


def _in_phases(op: ConvTranspose2d, x: Value, w: Value) -> Value:
    """The result of a transposed convolution, from its operands.

    Row h of the result is the sum of those rows a of the weight for which ``h + padding - a * dilation`` is i times the
    stride, i being the row of `x`. Which rows these are depends only on h modulo the stride. For the rows of one
    remainder (a *phase*), they form an arithmetic sequence, and i increases by 1 from row to row. So all rows and
    columns of one phase are a convolution of `x`, padded or cropped to the rows that are needed, with a strided slice
    of the mirrored weight.
    """
    axes = range(op.axes)
    phases = [[_phase(op, axis, remainder, w.shape[2 + axis]) for remainder in range(op.stride[axis])] for axis in axes]
    total: Value | None = None
    for found in product(*phases):
        chosen = [phase for phase in found if phase is not None]
        if len(chosen) < op.axes:
            continue
        part = pad(
            _one_phase(op, x, w, chosen),
            (0, 0, *(phase.remainder for phase in chosen)),
            (0, 0, *(phase.behind for phase in chosen)),
            interior=(0, 0, *(step - 1 for step in op.stride)),
        )
        total = part if total is None else add(total, part)
    # No window touches the result if all of them are within the padding.
    return full(0.0, (x.shape[0], w.shape[1] * op.groups, *op.size), x.dtype) if total is None else total


@dataclass(frozen=True, slots=True)
class _Phase:
    """The rows (or columns) of the result with the same remainder by the stride.

    Parameters
    ----------
    remainder, behind : int
        Index of the first of them, and the number of rows after the last.
    tap, step : int
        The first row of the weight that applies to them, and the distance to the next.
    dilation : int
        Rows of the operand between two consecutive taps.
    first, last : int
        The range of rows of the operand that they need: from `first` up to, not including, `last`. It may extend beyond
        the operand.
    """

    remainder: int
    behind: int
    tap: int
    step: int
    dilation: int
    first: int
    last: int


def _phase(op: ConvTranspose2d, axis: int, remainder: int, window: int) -> _Phase | None:
    """The phase of a remainder, or None if it has no rows or no row of the weight applies to it."""
    size, s, d, shift = op.size[axis], op.stride[axis], op.dilation[axis], remainder + op.padding[axis]
    count = -(-(size - remainder) // s)
    taps = [a for a in range(window) if (shift - a * d) % s == 0]
    if count < 1 or not taps:
        return None
    common = gcd(s, d)
    step, dilation = s // common, d // common
    newest = (shift - taps[0] * d) // s
    oldest = newest - (len(taps) - 1) * dilation
    behind = size - remainder - ((count - 1) * s + 1)
    return _Phase(remainder, behind, taps[0], step, dilation, oldest, newest + count)


def _one_phase(op: ConvTranspose2d, x: Value, w: Value, phases: list[_Phase]) -> Value:
    for axis, phase in enumerate(phases, 2):
        x = _cut_or_padded(x, axis, phase.first, phase.last)
    taps = slice(w, (0, 0, *(phase.tap for phase in phases)), w.shape, (1, 1, *(phase.step for phase in phases)))
    inputs, outputs, *window = taps.shape
    inside = range(2, 2 + op.axes)
    mirrored = flip(taps, tuple(inside))
    if op.groups == 1:
        made = permute(mirrored, (1, 0, *inside))
    else:
        grouped = reshape(mirrored, (op.groups, inputs // op.groups, outputs, *window))
        swapped = permute(grouped, (0, 2, 1, *(axis + 1 for axis in inside)))
        made = reshape(swapped, (op.groups * outputs, inputs // op.groups, *window))
    convolution = Conv2d if op.axes == 2 else Conv3d
    none = (0,) * op.axes
    settings = (1,) * op.axes, none, tuple(phase.dilation for phase in phases), op.groups
    return apply(convolution(*settings), x, made)


def _cut_or_padded(x: Value, axis: int, first: int, last: int) -> Value:
    """Elements from `first` up to, not including, `last` along an axis, with zeros outside `x`."""
    size, length = x.shape[axis], last - first
    start = min(max(first, 0), size)
    stop = max(start, min(last, size))
    before = min(max(-first, 0), length)
    behind = length - before - (stop - start)
    axes = range(len(x.shape))
    kept = slice_axis(x, axis, start, stop)
    return pad(kept, [before if n == axis else 0 for n in axes], [behind if n == axis else 0 for n in axes])
