"""Polyphase decomposition: transposed convolutions, and gradients of overlapping windows, without a stride.

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

from itertools import product
from math import gcd, prod

from adjoint import costs
from adjoint.ir import Function, Value, apply, rebuild
from adjoint.lazy_dataclass import dataclass
from adjoint.ops.arithmetic import add
from adjoint.ops.convert import cast
from adjoint.ops.convolution import Conv2d, Conv3d, ConvTranspose2d
from adjoint.ops.create import full
from adjoint.ops.logic import equal, where
from adjoint.ops.phases import cut_or_padded, interleaved, window_phases
from adjoint.ops.reduce import widened
from adjoint.ops.shape import flip, permute, reshape, slice, slice_axis
from adjoint.ops.window_places import WindowSpread

__all__ = ["polyphase"]


def polyphase(function: Function) -> Function:
    """Replace transposed convolutions by one convolution for each remainder of their axes by the stride.

    Depthwise ones with a stride of two stay: a kernel of their own computes all remainders together. The gradient of
    max pooling with overlapping windows becomes one elementwise sum for each remainder. Both are always legal, and
    always pay off: the operators themselves test for every element of a window whether it is there.

    Parameters
    ----------
    function : Function
        A graph without calls, before `simplify`, which tidies up what the phases are made of.

    Returns
    -------
    Function
        Same name, parameters and attributes; sums of products in another order.
    """
    if not any(isinstance(value.op, ConvTranspose2d | WindowSpread) for value in function.values()):
        return function

    def replaced(value: Value, inputs: tuple[Value, ...]) -> Value | None:
        if isinstance(value.op, ConvTranspose2d):
            if _has_kernel(value.op, *inputs):
                return None
            return _in_phases(value.op, *inputs).in_place_of(value)
        if isinstance(value.op, WindowSpread) and _in_few_phases(value.op) and value.type.size:
            return _spread_in_phases(value.op, *inputs).in_place_of(value)
        return None

    return Function(function.name, function.params, rebuild(function.results, replaced), function.attrs)


def _has_kernel(op: ConvTranspose2d, x: Value, w: Value) -> bool:
    """Whether all phases are computed by one kernel, of `adjoint.lower.contractions.depthwise_transposed`."""
    return op.is_depthwise_by_two(w.type) and x.shape[3] > 1 and prod(w.shape[2:]) <= costs.MAX_TRANSPOSED_TAPS


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
    parts: dict[tuple[int, ...], Value] = {}
    for found in product(*phases):
        chosen = [phase for phase in found if phase is not None]
        if len(chosen) == op.axes:
            parts[tuple(phase.remainder for phase in chosen)] = _one_phase(op, x, w, chosen)
    # No window touches the result if all of them are within the padding.
    nothing = full(0.0, (x.shape[0], w.shape[1] * op.groups), x.dtype)
    return interleaved(parts, op.stride, op.size, nothing)


def _in_few_phases(op: WindowSpread) -> bool:
    """Whether windows overlap, and a sum for each element of a window is not too much to compile."""
    overlap = any(window > stride for window, stride in zip(op.window, op.stride, strict=True))
    return overlap and op.window[0] * op.window[1] <= costs.MOST_TAPS_IN_PHASES


def _spread_in_phases(op: WindowSpread, ct: Value, places: Value) -> Value:
    """The gradient of the elements that windows pick, where windows overlap.

    An element belongs to several windows, each of which has it at another position. For elements of one phase these
    positions are the same, so that a phase is a sum of shifted cotangents, each where its window picked that position.
    """
    wide = widened(ct)
    rows, columns = (window_phases(*each) for each in zip(op.size, op.window, op.stride, strict=True))
    most = [max(phase.taps for phase in phases) - 1 for phases in (rows, columns)]
    last = [max(phase.count for phase in phases) for phases in (rows, columns)]
    framed = []
    for x in (wide, places):
        for axis in (0, 1):
            x = cut_or_padded(x, axis + 2, -most[axis], last[axis])
        framed.append(x)
    parts: dict[tuple[int, ...], Value] = {}
    for row, column in product(rows, columns):
        total: Value | None = None
        for u, v in product(range(row.taps), range(column.taps)):
            starts = most[0] - u, most[1] - v
            met, place = (
                slice_axis(slice_axis(x, 2, starts[0], starts[0] + row.count), 3, starts[1], starts[1] + column.count)
                for x in framed
            )
            own = (row.remainder + u * op.stride[0]) * op.window[1] + column.remainder + v * op.stride[1]
            share = where(equal(place, own), met, 0.0)
            total = share if total is None else add(total, share)
        assert total is not None
        parts[row.remainder, column.remainder] = total
    return cast(interleaved(parts, op.stride, op.size, wide), ct.dtype)


@dataclass(frozen=True, slots=True)
class _Phase:
    """The rows (or columns) of the result with the same remainder by the stride.

    Parameters
    ----------
    remainder : int
        Index of the first of them.
    tap, step : int
        The first row of the weight that applies to them, and the distance to the next.
    dilation : int
        Rows of the operand between two consecutive taps.
    first, last : int
        The range of rows of the operand that they need: from `first` up to, not including, `last`. It may extend beyond
        the operand.
    """

    remainder: int
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
    return _Phase(remainder, taps[0], step, dilation, oldest, newest + count)


def _one_phase(op: ConvTranspose2d, x: Value, w: Value, phases: list[_Phase]) -> Value:
    for axis, phase in enumerate(phases, 2):
        x = cut_or_padded(x, axis, phase.first, phase.last)
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
