"""Borders: products with the zeros around a padded image, which need not be computed.

At the first row of an image, the first rows of a window are outside it. With 5x5 windows on images of 7x7, these are
three in ten products; with 3x3 windows on images of 56x56, one in forty. Which steps of a sum are inside depends on the
row of the result alone, so that rows with the same steps form a piece, with a loop of its own::

    for i in 0..1:  for a in 1..3: sums[i] += x[i + a - 1] * w[a]
    for i in 1..4:  for a in 0..3: sums[i] += x[i + a - 1] * w[a]
    for i in 4..5:  for a in 0..2: sums[i] += x[i + a - 1] * w[a]

In a weight's gradient, rows are taps, and steps are rows of the image. Where a block has some of these, or few products
are outside, each step is a branch. A tile of several rows leaves out single rows at some steps, if it is unrolled along
both. Sums are the same without these products as long as all numbers are finite: an infinite weight that meets a border
does not make a NaN of it.
"""

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import groupby
from math import prod

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index, flatten, unflatten
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, Load
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import BOOL, I32
from adjoint.lower.context import Context
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.loops import pieces
from adjoint.ops.slicing import Pad

__all__ = ["Border", "Image", "borders_of", "guarded", "image_of", "padded_operands", "padding_cycles"]


@dataclass(frozen=True, slots=True)
class Border:
    """An axis of a padded image: ``first + row * row_stride + step * step_stride`` is inside from 0 to `extent`.

    Parameters
    ----------
    row, step : Var
        The axis of the result and the summed axis that walk it.
    first, row_stride, step_stride, extent : int
        The coordinate in the image without its padding, and the size of the image.
    """

    row: Var
    step: Var
    first: int
    row_stride: int
    step_stride: int
    extent: int

    @property
    def share(self) -> float:
        """The fraction of all products that are inside."""
        inside = (self.steps(row) for row in range(self.row.extent))
        return sum(end - begin for begin, end in inside) / (self.row.extent * self.step.extent)

    def steps(self, row: int) -> tuple[int, int]:
        """The first of the steps that are inside at a row, and the one after the last."""
        at = self.first + row * self.row_stride
        inside = [n for n in range(self.step.extent) if 0 <= at + n * self.step_stride < self.extent]
        return (inside[0], inside[-1] + 1) if inside else (0, 0)

    def pieces(self) -> list[tuple[int, int, tuple[int, int]]]:
        """The runs of rows with the same steps: the first of them, their number, and the steps."""
        runs = [(steps, list(rows)) for steps, rows in groupby(range(self.row.extent), self.steps)]
        return [(rows[0], len(rows), steps) for steps, rows in runs]

    def tiles(self, size: int) -> list[tuple[int, int, int]]:
        """Tiles of so many rows as ``(first row, number, size)`` runs: those of a run have the same `runs`."""
        every = [(first + n * some, some) for first, many, some in pieces(self.row.extent, size) for n in range(many)]
        alike = [list(tiles) for _, tiles in groupby(every, lambda tile: (tile[1], self.runs(*tile)))]
        return [(tiles[0][0], len(tiles), tiles[0][1]) for tiles in alike]

    def runs(self, first: int, size: int) -> list[tuple[int, int, tuple[int, int]]]:
        """The runs of steps at which the same rows of a tile are inside: the first, their number, and these rows.

        Rows are counted from the first of the tile to the one after the last. Steps with none are left out.
        """

        def rows(step: int) -> tuple[int, int]:
            inside = [n for n in range(size) if step in range(*self.steps(first + n))]
            return (inside[0], inside[-1] + 1) if inside else (0, 0)

        alike = [(some, list(steps)) for some, steps in groupby(range(self.step.extent), rows)]
        return [(steps[0], len(steps), some) for some, steps in alike if some != (0, 0)]

    def coordinate(self, row: Index, step: Index) -> Index:
        """The coordinate in the image without its padding."""
        return row * self.row_stride + step * self.step_stride + self.first


@dataclass(frozen=True, slots=True)
class Image:
    """An array that a contraction reads, without the zeros around it.

    Parameters
    ----------
    buffer : Buffer
        Where it is.
    shape : tuple of int
        Its shape.
    at : tuple of Index
        The coordinates of the element that is read.
    borders : tuple of Border
        Along which axes, and where, coordinates are outside: there, the element is a zero.
    """

    buffer: Buffer
    shape: tuple[int, ...]
    at: tuple[Index, ...]
    borders: tuple[Border, ...] = ()

    def border(self, row: Var) -> Border | None:
        """The border along an axis of the result, if there is one."""
        return next((b for b in self.borders if b.row is row), None)

    def element(self, at: Mapping[Var, Index], guard: Expr | None = None) -> Load:
        """The element at a point of the axes, whose row is inside; 0 where its column is not, or the guard fails."""
        *outer, high, wide = (index.substitute(at) for index in self.at)
        rows, columns = self.shape[-2:]
        # The remainder says that the row is inside.
        place = flatten((*outer, high % rows, as_index(0)), self.shape) + wide
        return Load(self.buffer, place, guarded(wide, columns, guard))


def guarded(at: Index, extent: int, guard: Expr | None = None) -> Expr | None:
    """The guard that a coordinate is inside an axis, and another one holds; None where nothing needs to be tested."""
    tests = [guard] if guard is not None else []
    if at.low < 0:
        tests.append(Apply("ge", (Coordinate(at, I32), Const(0, I32)), BOOL))
    if at.high >= extent:
        tests.append(Apply("lt", (Coordinate(at, I32), Const(extent, I32)), BOOL))
    return reduce(lambda a, b: Apply("and", (a, b), BOOL), tests) if tests else None


def image_of(context: Context, load: Load, rows: Sequence[Var], k: Sequence[Var]) -> Image | None:
    """The array that a load reads; if that is a padded one, and the one without padding is in memory, the latter.

    `rows` are the axes of the result, and `k` those that are summed over. None for literals.
    """
    value = context.owners.get(load.buffer)
    if value is None or len(value.shape) < 3:
        return None
    at = unflatten(load.index, value.shape)
    whole = Image(load.buffer, value.shape, at)
    op = value.op
    if not isinstance(op, Pad) or op.value != 0 or any(op.interior) or value.inputs[0] not in context.buffers:
        return whole
    source = value.inputs[0]
    borders = borders_of({load.buffer: value}, load, rows, k, 1.0)
    moved = tuple(index - low for index, low in zip(at, op.low, strict=True))
    for index, size in zip(moved, source.shape, strict=True):
        outside = index.low < 0 or index.high >= size
        if outside and not any({b.row, b.step} == index.variables() for b in borders):
            return whole
    return Image(context.buffers[source], source.shape, moved, borders)


def padded_operands(context: Context, c: Contraction) -> dict[Buffer, Value]:
    """The operands of a contraction that are padded with zeros."""
    found = {b: context.owners[b] for b in (c.left.buffer, c.right.buffer) if b in context.owners}
    return {b: value for b, value in found.items() if isinstance(value.op, Pad) and value.op.value == 0}


def padding_cycles(context: Context, load: Load) -> float:
    """Estimated cycles to pad what a load reads, if nothing else reads that."""
    value = context.owners.get(load.buffer)
    if value is None or context.users.get(value) != 1:
        return 0.0
    target, nbytes = context.target, load.buffer.nbytes
    near = nbytes <= costs.l3_block_bytes(target)
    return nbytes / (target.l3_bytes_per_cycle if near else costs.far_bytes_per_cycle(target))


def borders_of(
    padded: Mapping[Buffer, Value],
    load: Load,
    rows: Sequence[Var],
    k: Sequence[Var],
    most: float = costs.MAX_INSIDE,
) -> tuple[Border, ...]:
    """The borders that a load reads: axes with padding, each walked by one of the rows and one summed axis.

    Where more than this fraction of all products is inside, they are not worth it.
    """
    value = padded.get(load.buffer)
    if value is None or not isinstance(value.op, Pad):
        return ()
    found = []
    for axis, (low, high, gap) in enumerate(zip(value.op.low, value.op.high, value.op.interior, strict=True)):
        size, stride = value.shape[axis], prod(value.shape[axis + 1 :])
        along = {v: (load.index.coefficient(v) or 0) for v in (*rows, *k)}
        along = {v: step for v, step in along.items() if stride <= abs(step) < stride * size and v.extent > 1}
        row, step = ([v for v in several if v in along] for several in (rows, k))
        whole = all(c % stride == 0 for c in along.values())
        spans = sum((v.extent - 1) * abs(c) for v, c in along.items())
        if gap or not (low or high) or len(row) != 1 or len(step) != 1 or not whole or spans >= stride * size:
            continue
        by = {v: c // stride for v, c in along.items()}
        # At its lowest, an index has the lowest coordinate along every axis.
        first = load.index.low // stride % size - low + sum((v.extent - 1) * -c for v, c in by.items() if c < 0)
        border = Border(row[0], step[0], first, by[row[0]], by[step[0]], size - low - high)
        if border.share < most:
            found.append(border)
    return tuple(found)
