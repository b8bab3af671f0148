"""Sums of the lanes of several vectors, side by side in one vector.

The pattern is an unrolled loop that combines the lanes of a register, one vector in each iteration::

    for j in 0..8 unroll:
      for l in 0..16 vector:
        part[l] = acc[j*16 + l]
      result[j] = across(add, part[0..16] in 16 lanes)

One by one this takes four shuffles and four additions for each vector of 16 lanes. Instead, the halves of two vectors
are put side by side and added, then the quarters of two such vectors, and so on: two shuffles and one addition for each
vector. The order of additions within a vector is the same, and so are the bits.
"""

from collections.abc import Callable, Sequence

from adjoint.codegen.writer import Writer
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import Across, For, Load, Store
from adjoint.lazy_dataclass import dataclass

__all__ = ["LaneSums", "emit_lane_sums", "match_lane_sums"]


@dataclass(frozen=True, slots=True)
class LaneSums:
    """The lanes of a `load` along `inner`, combined for each iteration of `outer`, and where a `store` puts them."""

    store: Store
    load: Load
    across: Across
    outer: Var
    inner: Var


def match_lane_sums(loop: For) -> LaneSums | None:
    """The sums of lanes that a loop computes, or None."""
    if loop.kind != "unroll" or len(loop.body) != 2 or loop.var.extent < 2:
        return None
    pick, combine = loop.body
    if not isinstance(pick, For) or pick.kind != "vector" or len(pick.body) != 1 or not isinstance(combine, Store):
        return None
    (copy,) = pick.body
    if not isinstance(copy, Store) or len(copy.targets) != 1 or len(combine.targets) != 1:
        return None
    ((part, place, load),), ((result, to, across),) = copy.targets, combine.targets
    if not isinstance(load, Load) or not isinstance(across, Across) or across.buffer is not part:
        return None
    width = pick.var.extent
    whole = across.count == across.width == width == part.size and place == as_index(pick.var)
    plain = load.guard is None and load.buffer not in (part, result) and load.index.coefficient(pick.var) == 1
    beside = result.space == "register" and result is not part and to.coefficient(loop.var) == 1
    alike = result.dtype == across.dtype and result.dtype.kind != "b" and loop.var.extent <= width
    return LaneSums(combine, load, across, loop.var, pick.var) if whole and plain and beside and alike else None


def emit_lane_sums(
    w: Writer, rows: Sequence[str], type_: str, lanes: int, combine: Callable[[list[str], int], str]
) -> str:
    """The vector of the combined lanes of each row, and undefined ones up to a power of 2.

    `combine` takes two vectors and their number of lanes.
    """
    several = [*rows, *["poison"] * ((1 << (len(rows) - 1).bit_length()) - len(rows))]
    # Of each vector in `several`: how many rows it has lanes of, and how many of each.
    groups, each = 1, lanes
    while each > 1:
        half, wide = each // 2, groups * each
        pairs = list(zip(several[::2], several[1::2], strict=True)) if len(several) > 1 else [(several[0], "poison")]
        starts = [g * each for g in range(groups * min(len(several), 2))]
        joined = []
        for low, high in pairs:
            halves = []
            for offset in (0, half):
                picks = ", ".join(f"i32 {start + offset + i}" for start in starts for i in range(half))
                mask = f"<{len(starts) * half} x i32> <{picks}>"
                halves.append(w.pure(f"shufflevector <{wide} x {type_}> {low}, <{wide} x {type_}> {high}, {mask}"))
            joined.append(combine(halves, len(starts) * half))
        several, groups, each = joined, len(starts), half
    return several[0]
