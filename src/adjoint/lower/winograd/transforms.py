"""The data transform of Winograd's algorithm, and the roles that the axes of a contraction play in it.

A tile, ``outputs`` rows of the result, takes the rows of the image that its windows read, and transforms them to
``products`` rows. Of windows of three rows::

    for channel, image, row of tiles t, column x:
      v[0..6, channel, image, t, x] = data @ image[channel, image, 4 * t + 0..6, x]

Rows are stored one behind the other, each with what windows read beyond the columns of the result.
"""

from collections.abc import Mapping
from math import ceil, prod

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Load, Stmt, Store, When
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import in_arithmetic
from adjoint.lower.contractions.planes import padded_plane
from adjoint.lower.loops import nest, ravel, tiled, vector_loops
from adjoint.lower.winograd.algorithm import Algorithm, matrix_times

__all__ = ["ConvolutionAxes", "TransformedRows", "stride_along"]


@dataclass(frozen=True, slots=True)
class ConvolutionAxes:
    """The roles that the axes of a contraction play in a convolution.

    Parameters
    ----------
    algorithm : Algorithm
        The algorithm along the axis `high`.
    high, tap : Var
        Rows of the result, and rows of the window.
    across : Var
        Columns of the window.
    channels : tuple of Var
        Axes that the image and the weights have in common (input channels).
    batch : tuple of Var
        The other axes of the image.
    images : Var or None
        One more axis of the image, of which a unit takes several elements.
    """

    algorithm: Algorithm
    high: Var
    tap: Var
    across: Var
    channels: tuple[Var, ...]
    batch: tuple[Var, ...]
    images: Var | None

    @property
    def tiles(self) -> int:
        """Rows of tiles in an image; the end of the image may cut off the last."""
        return ceil(self.high.extent / self.algorithm.outputs)

    def in_whole_tiles(self, tile: Index, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Statements to skip where the end of the image cuts off a tile."""
        whole, rest = divmod(self.high.extent, self.algorithm.outputs)
        return (When(tile, 0, whole, body),) if rest and body else body

    @property
    def depth(self) -> int:
        """Products in a sum at one point."""
        return self.lines * self.across.extent

    @property
    def pays_off(self) -> bool:
        """Whether sums have so many products that the transforms may pay off."""
        return self.depth * max(self.algorithm.taps, 3) >= 3 * costs.MIN_WINOGRAD_DEPTH

    @property
    def lines(self) -> int:
        """Image rows, over all channels, for one row of the result at one row of the window."""
        return prod(v.extent for v in self.channels)

    @property
    def beyond(self) -> int:
        """Elements that windows read beyond a row of the result."""
        return self.across.extent - 1


def stride_along(load: Load, var: Var) -> int:
    """The stride of an operand along an axis; 0 where it is broadcast."""
    return load.index.coefficient(var) or 0


@dataclass(frozen=True, slots=True)
class TransformedRows:
    """Transformed rows in scratch memory: ``[point, channel, image, row of tiles, column]``.

    Parameters
    ----------
    memory : Buffer
        The scratch memory.
    roles : Roles
        The roles of the contraction's axes.
    point, image, row : Var
        The first axis and the inner axes.
    channels : tuple of Var
        Variables of the channels.
    columns : int
        Columns of the result.
    """

    memory: Buffer
    roles: ConvolutionAxes
    point: Var
    image: Var
    row: Var
    channels: tuple[Var, ...]
    columns: int

    @classmethod
    def of(
        cls, target: Target, dtype: np.dtype, roles: ConvolutionAxes, columns: int, images: int, rows: int
    ) -> "TransformedRows":
        """For so many columns, images and rows of tiles."""
        plane = padded_plane(target, roles.lines * images * rows * (columns + roles.beyond), dtype)
        memory = Buffer("v", dtype, roles.algorithm.products * plane, "scratch")
        channels = tuple(Var(v.name, v.extent) for v in roles.channels)
        return cls(
            memory, roles, Var("p", roles.algorithm.products), Var("i", images), Var("t", rows), channels, columns
        )

    @property
    def pitch(self) -> int:
        """Elements from one row to the next."""
        return self.columns + self.roles.beyond

    @property
    def count(self) -> int:
        """Rows of one channel at one point."""
        return self.image.extent * self.row.extent

    @property
    def line(self) -> Index:
        """The number of the current row."""
        return as_index(self.image) * self.row.extent + as_index(self.row)

    @property
    def plane(self) -> int:
        """Elements from one point to the next."""
        return self.memory.size // self.point.extent

    def at(self, line: Index, column: Index) -> Index:
        """The position of an element of the current channel at point 0."""
        return (ravel(self.channels, {v: as_index(v) for v in self.channels}) * self.count + line) * self.pitch + column

    def fill(self, lanes: int, load: Load, at: Mapping[Var, Index], column: Var) -> tuple[Stmt, ...]:
        """Transform the rows that an operand reads along `column`, at a place that has the tile in place of `high`."""
        roles = self.roles
        channels = {v: as_index(own) for v, own in zip(roles.channels, self.channels, strict=True)}

        def transform(count: int, first: Index) -> tuple[Stmt, ...]:
            def body(x: Index, _: Index) -> tuple[Stmt, ...]:
                where = {**at, **channels, roles.high: first, roles.across: as_index(0), column: x}
                # Rows past the end of the image count as zeros: no result that is kept depends on them.
                taps = [{**where, roles.tap: as_index(r)} for r in range(roles.algorithm.lines(count))]
                rows = [in_arithmetic(Load(load.buffer, load.index.substitute(tap))) for tap in taps]
                made = matrix_times(tuple(row[: len(rows)] for row in roles.algorithm.data), rows)
                place = self.at(self.line, x)
                return (Store(tuple((self.memory, place + p * self.plane, v) for p, v in enumerate(made))),)

            return vector_loops(self.pitch, lanes, body)

        body = tiled(at[roles.high], roles.high.extent, roles.algorithm.outputs, transform)
        return nest((*self.channels, self.image, self.row), body)
