"""Phases of rows: even and odd columns of an image side by side, where windows move by two columns.

Neighboring windows then read neighboring elements, without the shuffles that every tap would take (a polyphase
decomposition). With windows of three columns, and a column of zeros on either side::

    row of the image      x0 x1 x2 x3 x4 x5
    phases[0]             0  x1 x3 x5             taps 0 and 2 read it from columns 0 and 1 on
    phases[1]             x0 x2 x4                tap 1 reads it

Rows are copied to scratch memory tile by tile, from the image without its border where that is in memory.
"""

from collections.abc import Mapping
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, For, Load, Stmt, Store, When
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.inlining import BOOL, I64
from adjoint.lower.context import Context
from adjoint.lower.contractions.borders import Image, image_of
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.planes import first_plane
from adjoint.lower.contractions.prefetch import Region, region, spread_prefetches
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import unravel

__all__ = ["Phases", "phases_of"]


@dataclass(frozen=True, slots=True)
class Phases:
    """The phases of the rows that a depthwise convolution reads.

    Parameters
    ----------
    contraction : Contraction
        The convolution.
    image : Image
        What it reads.
    row : Var
        The axis of the result along which windows move by rows of the image.
    lanes : int
        Lanes of a vector.
    """

    contraction: Contraction
    image: Image
    row: Var
    lanes: int

    @property
    def pitch(self) -> int:
        """Elements of a phase of a row, in whole vectors.

        Lanes beyond the last column read the first elements of the next phase, and their sums are not stored.
        """
        return ceil((self.contraction.columns + self._taps) / self.lanes) * self.lanes

    @property
    def _taps(self) -> int:
        """Elements of a phase that windows reach beyond their first one."""
        return (self.contraction.k[-1].extent - 1) // 2

    def rows(self, rows: int) -> int:
        """Rows of the image that windows of so many rows read."""
        c, (high, _) = self.contraction, self.image.at[-2:]
        return (rows - 1) * (high.coefficient(self.row) or 0) + c.k[-2].extent

    def buffer(self, rows: int) -> Buffer:
        """Scratch memory for the phases that tiles of so many rows read."""
        size = self.rows(rows) * 2 * self.pitch + self.lanes + self._taps
        return Buffer("phases", self.contraction.dtype, size, "scratch")

    def load(self, buffer: Buffer, row: int, tap: Index, column: Index) -> Load:
        """The element of a row of the image that a tap reads for a column of the result."""
        return Load(buffer, (tap % 2 + 2 * row) * self.pitch + tap // 2 + column)

    def copy(self, buffer: Buffer, rows: int, at: Mapping[Var, Index], ahead: Region | None) -> tuple[Stmt, ...]:
        """Copy all rows that windows of so many rows read from a point on; in between, prefetch what is `ahead`."""
        c, slot = self.contraction, Var("r", self.rows(rows))
        where = {**dict.fromkeys(c.axes, as_index(0)), **at, c.n: as_index(0), c.k[0]: as_index(slot)}
        where[c.k[1]] = as_index(0)
        high, wide = (index.substitute(where) for index in self.image.at[-2:])
        plane = first_plane(self.image, where)
        # The remainder says that the row is inside, so that even and odd columns can share their loads.
        source = (plane * self.image.shape[-2] + high % self.image.shape[-2]) * self.image.shape[-1]
        copied, zeros = [], []
        for phase in range(2):
            for vector in range(self.pitch // self.lanes):
                lane = Var("l", self.lanes)
                place = (as_index(slot) * 2 + phase) * self.pitch + vector * self.lanes + as_index(lane)
                column = (as_index(lane) + vector * self.lanes) * 2 + wide + phase
                copied.append(self._store(buffer, place, source, column, lane))
                zeros.append(For(lane, (Store(((buffer, place, Const(0.0, c.dtype)),)),), "vector"))
        hints = spread_prefetches([ahead], as_index(slot), slot.extent) if ahead is not None else ()
        inside: Stmt = When(high, 0, self.image.shape[-2], tuple(copied), tuple(zeros))
        always = high.low >= 0 and high.high < self.image.shape[-2]
        return (For(slot, (*hints, *copied) if always else (*hints, inside)),)

    def _store(self, buffer: Buffer, place: Index, source: Index, column: Index, lane: Var) -> Stmt:
        """The copy of a vector: zeros for columns outside."""
        width = self.image.shape[-1]
        columns = [column.substitute({lane: as_index(n)}).constant for n in range(self.lanes)]
        inside = [0 <= n < width for n in columns]
        coordinate = Coordinate(column, I64)
        left = Apply("ge", (coordinate, Const(0, I64)), BOOL)
        right = Apply("lt", (coordinate, Const(width, I64)), BOOL)
        guard = None if all(inside) else left if columns[-1] < width else right
        if columns[0] < 0 and columns[-1] >= width:
            guard = Apply("and", (left, right), BOOL)
        value = Load(self.image.buffer, source + column, guard) if any(inside) else Const(0.0, buffer.dtype)
        return For(lane, (Store(((buffer, place, value),)),), "vector")

    def next_plane(self, context: Context, group: Group, axes: list[Var], following: Index) -> Region | None:
        """The plane of the image of another point of some axes."""
        step = Var("s", prod(self.image.shape[-2:]))
        start = first_plane(self.image, unravel(axes, following)) * step.extent
        return region(context, group, self.image.buffer, as_index(step), {step: step.extent}, {step: start})


def phases_of(context: Context, c: Contraction, row: Var, lanes: int) -> Phases | None:
    """The phases of what a depthwise convolution reads; None unless its windows are whole and move by two columns."""
    own = tuple(v for v in c.batch if not c.left.index.coefficient(v))
    image = image_of(context, c.right, (*own, c.n), c.k) if len(c.k) == 2 else None
    if image is None:
        return None
    high, wide = image.at[-2:]
    steps = high.coefficient(c.k[0]), wide.coefficient(c.n), wide.coefficient(c.k[1])
    apart = high.variables() <= {row, c.k[0]} and wide.variables() <= {c.n, c.k[1]}
    return Phases(c, image, row, lanes) if steps == (1, 2, 1) and apart else None
