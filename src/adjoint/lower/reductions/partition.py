"""How the reduced axes of few results are cut into parts, so that all threads have work.

A part is one point of the leading reduced axes, as far as these are taken whole, and a chunk of the next one. Parts
decide the order in which elements are combined, so they follow from shapes alone.
"""

from collections.abc import Sequence
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, unflatten
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.loops import divisors

__all__ = ["Partition", "partition"]


@dataclass(frozen=True, slots=True)
class Partition:
    """Parts of the reduced axes.

    Parameters
    ----------
    whole : tuple of int
        Extents of the reduced axes, outermost first.
    leading : int
        Number of leading axes of which each part has one point.
    share : int
        Steps of a part along the next axis; the last chunk may be shorter.
    """

    whole: tuple[int, ...]
    leading: int
    share: int

    @property
    def chunks(self) -> int:
        """Chunks of the axis that is cut."""
        return ceil(self.whole[self.leading] / self.share)

    @property
    def rest(self) -> int:
        """Steps of the last chunk if it is shorter, otherwise 0."""
        return self.whole[self.leading] % self.share

    @property
    def count(self) -> int:
        """Number of parts."""
        return prod(self.whole[: self.leading]) * self.chunks

    def extents(self, share: int) -> list[int]:
        """Extents of the reduced axes within a part of so many steps."""
        return [share, *self.whole[self.leading + 1 :]]

    def coordinates(self, part: Index, within: Sequence[Index]) -> list[Index]:
        """Coordinates on the reduced axes, from those within a part."""
        before = unflatten(part // self.chunks, self.whole[: self.leading])
        return [*before, part % self.chunks * self.share + within[0], *within[1:]]


def partition(extents: Sequence[int], units: int, elements: int) -> Partition | None:
    """The parts of a reduction, or None where one stage is enough.

    Parameters
    ----------
    extents : sequence of int
        Extents of the reduced axes, outermost first.
    units : int
        Units of work in one stage.
    elements : int
        Elements that each of these units reads.
    """
    wanted = costs.reduction_parts(units, elements)
    if wanted < 2:
        return None
    leading = 0
    while extents[leading] <= wanted and wanted > 1:
        wanted = ceil(wanted / extents[leading])
        leading += 1
    extent = extents[leading]
    # Equal parts are preferred: kernels without a remainder can be fused horizontally.
    equal = [d for d in divisors(extent, wanted) if 2 * d >= wanted]
    share = extent // equal[-1] if equal else ceil(extent / wanted)
    return Partition(tuple(extents), leading, share)
