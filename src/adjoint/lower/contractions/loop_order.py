"""The order in which units of work walk the tiles of a result, and what they prefetch.

The hardware prefetcher follows some twenty memory streams; an access that it cannot follow costs ten times as much.
So tiles are ordered to read and write memory in long runs, and what no stream covers is prefetched by software.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, Load, Stmt, postorder
from adjoint.kernel.target import Target
from adjoint.lower.context import Context, store_result
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm_plan import GemmPlan, iterates_images
from adjoint.lower.contractions.prefetch import region, spread_prefetches
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import unravel

__all__ = [
    "PrefetchSlots",
    "epilogue_streams",
    "far_accesses",
    "loop_order",
    "packed_order",
    "prefetch_columns",
    "prefetch_image",
    "prefetch_panel",
    "prefetch_tile",
]


def far_accesses(
    context: Context, group: Group, c: Contraction, at: Mapping[Var, Index]
) -> list[tuple[Buffer, Index, bool]]:
    """Rows of large tensors that an epilogue accesses: (buffer, index in terms of `c.m` and `c.n`, is written)."""
    index = c.index({**{v: as_index(v) for v in c.axes}, **at})
    probe = store_result(context, group, index, Const(0.0, c.dtype))
    writes = {(b, i): True for b, i, _ in probe.targets}
    loads = [e for e in postorder([v for _, _, v in probe.targets]) if isinstance(e, Load) and e.guard is None]
    places = {(e.buffer, e.index): False for e in loads} | writes
    least = costs.l2_bytes(context.target)
    return [
        (b, i, write)
        for (b, i), write in places.items()
        if b.nbytes >= least and i.coefficient(c.n) == 1 and (c.m is None or i.coefficient(c.m))
    ]


def epilogue_streams(context: Context, group: Group, c: Contraction) -> int:
    """Number of tensors that the epilogue walks in rows at least a page apart."""
    if c.m is None or iterates_images(context.target, c):
        return 0
    steps = [(i.coefficient(c.m) or 0) * b.dtype.itemsize for b, i, _ in far_accesses(context, group, c, {})]
    return sum(step >= costs.PAGE_BYTES for step in steps)


def loop_order(plan: GemmPlan, block: Var, l2_block: Var, panel: Var) -> tuple[Var, ...]:
    """The axes of units, outermost first, ordered for locality within a thread."""
    c = plan.contraction
    if plan.order == "images":
        # All rows of an image for some channels of the result, then for the next: a tensor is accessed in as many
        # streams as a tile has rows.
        return (*c.batch[:-1], block, c.batch[-1], l2_block, panel)
    if panel.extent > 1:
        return (*c.batch, l2_block, block, panel)
    # Threads take contiguous ranges of units, which should partition the larger operand.
    return (*c.batch, l2_block, panel, block) if plan.order == "columns" else (*c.batch, block, l2_block, panel)


def packed_order(target: Target, plan: GemmPlan, panel: Var, group: Var) -> tuple[Var, ...]:
    """The axes of units that pack a panel and multiply a row group with it, outermost first.

    A thread goes through the row groups of a panel, whose source stays in its cache. If the whole right operand does,
    it goes through the panels of a row group instead: threads that write neighboring columns of the same rows would
    share cache lines (Zen 5, two threads: 608x7 @ 7x24 takes 1.2 instead of 5.5 µs).
    """
    c = plan.contraction
    near = c.depth * c.columns * c.right.dtype.itemsize <= costs.l2_block_bytes(target)
    return (*c.batch, group, panel) if near else (*c.batch, panel, group)


@dataclass(frozen=True, slots=True)
class PrefetchSlots:
    """The prefetches that accompany a tile: the tile's loop is cut into slots, each with a few lines."""

    slots: int
    lines: Callable[[Index], tuple[Stmt, ...]]

    def merged_with(self, other: "PrefetchSlots | None") -> "PrefetchSlots":
        """The prefetches of both, slot by slot."""
        if other is None:
            return self
        assert self.slots == other.slots
        return PrefetchSlots(self.slots, lambda slot: (*self.lines(slot), *other.lines(slot)))


def prefetch_panel(
    context: Context,
    plan: GemmPlan,
    at: Mapping[Var, Index],
    panel: tuple[Index, int],
    start: Index,
    iteration: Index,
    iterations: int,
) -> PrefetchSlots | None:
    """The share of the next block of a panel that falls to one of `iterations` tiles, where the operand is large."""
    c = plan.contraction
    (k,), (column, columns) = c.k, panel
    box = {k: plan.block, c.n: columns}
    block = region(context.target, c.right.buffer, c.right.index, box, {**at, k: start, c.n: column})
    if block is None:
        return None
    slots = costs.PREFETCH_SLOTS
    return PrefetchSlots(slots, lambda slot: spread_prefetches([block], iteration * slots + slot, iterations * slots))


def prefetch_tile(
    context: Context,
    group: Group,
    plan: GemmPlan,
    at: Mapping[Var, Index],
    tile: tuple[Index, int, int],
    block: tuple[Index, int],
) -> PrefetchSlots | None:
    """What the epilogue of a tile will access, and the rows of the left operand that the next tile below it reads.

    `tile` is the first row, the number of rows and that of columns; `block` the first step of k and their number.
    """
    c, (row, rows, columns), (start, steps) = plan.contraction, tile, block
    if c.m is None:
        return None
    origin, box = {**{v: as_index(0) for v in c.axes}, **at, c.m: row}, {c.m: rows, c.n: columns}
    accesses = far_accesses(context, group, c, {v: index for v, index in at.items() if v is not c.n})
    found = [region(context.target, b, i, box, origin, write) for b, i, write in accesses]
    if len(c.k) == 1:
        below = {**origin, c.m: row + rows, c.k[0]: start}
        found.append(region(context.target, c.left.buffer, c.left.index, {c.m: rows, c.k[0]: steps}, below))
    regions = [r for r in found if r is not None]
    if not regions or not c.k:
        return None
    slots = min(ceil(sum(r.lines for r in regions) / costs.PREFETCH_BURST), c.k[0].extent)
    return PrefetchSlots(slots, lambda slot: spread_prefetches(regions, slot, slots))


def prefetch_columns(
    context: Context, plan: GemmPlan, at: Mapping[Var, Index], column: Index, share: tuple[Index, int], slots: int
) -> PrefetchSlots | None:
    """The share of the next panel of a large matrix that one of several blocks of rows prefetches, where k walks rows.

    The hardware prefetcher does not follow the short runs of a panel, which are a row apart.
    """
    c = plan.contraction
    if len(c.k) != 1 or plan.order != "columns" or plan.tile.stack > 1 or c.columns <= plan.columns:
        return None
    if c.rows < costs.MIN_PREFETCHED_ROWS:
        return None
    (k,) = c.k
    step = (c.right.index.coefficient(k) or 0) * c.right.dtype.itemsize
    if step < 2 * plan.columns * c.right.dtype.itemsize or c.right.index.coefficient(c.n) != 1:
        return None
    start = {**at, k: as_index(0), c.n: column + plan.columns}
    panel = region(context.target, c.right.buffer, c.right.index, {k: k.extent, c.n: plan.columns}, start)
    if panel is None:
        return None
    own = panel.share(*share)
    return PrefetchSlots(slots, lambda slot: spread_prefetches([own], slot, slots))


def prefetch_image(context: Context, plan: GemmPlan, unit: Var, slots: int) -> PrefetchSlots | None:
    """The share of the next image that a tile of the current one prefetches, where units walk images."""
    c = plan.contraction
    outer = c.batch[:-1]
    if not outer or plan.order != "images":
        return None
    images = prod(v.extent for v in outer)
    iterations = unit.extent // images
    start = {**{v: as_index(0) for v in (*c.axes, *c.k)}, **unravel(outer, (as_index(unit) // iterations + 1) % images)}
    box = {v: v.extent for v in (c.batch[-1], c.n, *c.k)}
    image = region(context.target, c.right.buffer, c.right.index, box, start)
    if image is None:
        return None
    return PrefetchSlots(
        slots, lambda slot: spread_prefetches([image], as_index(unit) % iterations * slots + slot, iterations * slots)
    )
