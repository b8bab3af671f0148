"""How a contraction runs as a register-tiled GEMM: tile configuration, packing, panels and blocks, by estimated cost.

A tile of the result stays in vector registers while the loop over k runs (the micro-kernel of Goto and van de Geijn):
`rows` broadcast elements of the left operand times `vectors` vectors of the right one, a fused multiply-add each.
Operands are read in place through their strides where lanes are contiguous and few pages are touched; elsewhere a
thread first packs the columns that it works on into a panel of its own that stays in cache. `gemm` builds the loops.

Every plan adds the products of an element one after the other, from the first to the last, so that all of them give the
same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil, prod
from typing import Literal

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.tile_cost import (
    Tile,
    cost_model,
    ranked_tiles,
    row_groups,
    streams_from_memory,
    tile_lanes,
    tiles_per_panel,
)

__all__ = ["GemmPlan", "Tile", "blocks_within", "gemm_plans", "plan_gemm", "ranked_tiles", "tile_lanes"]


@dataclass(frozen=True, slots=True)
class GemmPlan:
    """How a contraction runs as a GEMM.

    Parameters
    ----------
    contraction : Contraction
        The contraction, in the axes that the plan tiles.
    tile : Tile
        The register tile; stacked tiles share the elements of the left operand.
    lanes : int
        Lanes of a vector.
    pack_left, pack_columns, pack_right : bool
        Which operand is packed: the left or the right one as a whole, by a kernel of its own; or the right one panel by
        panel.
    convert_left, convert_right : bool
        Which operand of 16 bits is converted beforehand (`conversion`).
    wide : int
        Tiles side by side in a packed panel.
    block : int
        Steps of k for which a panel is packed at a time (KC in BLIS); 0 for all.
    groups : int
        Row groups that meet a packed panel, each a unit of work of its own.
    order : {"images", "columns", "rows"}
        What units walk in their outer loop: blocks of rows for a whole image, panels of columns, or blocks of rows.
    l2_panels : int
        Panels of columns that a block of rows meets before the next block does.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    tile: Tile
    lanes: int
    pack_left: bool = False
    pack_columns: bool = False
    pack_right: bool = False
    convert_left: bool = False
    convert_right: bool = False
    wide: int = 1
    block: int = 0
    groups: int = 1
    order: Literal["images", "columns", "rows"] = "columns"
    l2_panels: int = 1
    cycles: float = 0.0

    @property
    def columns(self) -> int:
        """Columns of the result in a tile."""
        return self.tile.vectors * self.lanes

    def __str__(self) -> str:
        return f"gemm {self.tile}{' packed' if self.pack_right else ''}"


def plan_gemm(target: Target, c: Contraction, streams: int = 0) -> GemmPlan:
    """The plan with the lowest estimated cost; packs where strides would hurt.

    `streams` is the number of tensors in memory that the epilogue walks row by row.
    """
    packed = _should_pack(target, c, streams)
    cycles, tile = ranked_tiles(target, c, streams, packed)[0]
    return _plan(target, c, tile, packed, cycles)


def gemm_plans(target: Target, c: Contraction, streams: int, most: int | None = None) -> Iterator[GemmPlan]:
    """The plans of all tiles that fit, in place and packed, each in the order of estimated cost; `most` of each."""
    for packed in (False, True):
        if packed or c.vector_loadable:
            for cycles, tile in ranked_tiles(target, c, streams, packed)[:most]:
                yield _plan(target, c, tile, packed, cycles)


def _plan(target: Target, c: Contraction, tile: Tile, pack_right: bool, cycles: float) -> GemmPlan:
    """The plan with a tile: what is packed, in which blocks, and how it is shared."""
    lanes = tile_lanes(target, c)
    width, itemsize = tile.vectors * lanes, c.dtype.itemsize
    block, wide = c.depth, 1
    if pack_right and len(c.k) == 1:
        wide = tiles_per_panel(target, c.columns, c.batches, width) if streams_from_memory(target, c) else 1
        room = costs.l1_bytes(target) if wide > 1 else costs.panel_bytes(target)
        block = ceil(c.depth / ceil(c.depth / max(room // (width * itemsize), 1)))
    many_columns, many_rows = (
        extent >= costs.MIN_PACKED_TILES * size for extent, size in ((c.columns, width), (c.rows, tile.rows))
    )
    convert_left, convert_right = cost_model(target, c, 0, pack_right).converts(tile)
    left_bytes, right_bytes = (
        itemsize if converted else load.dtype.itemsize
        for load, converted in ((c.left, convert_left), (c.right, convert_right))
    )
    aliased = c.m is not None and (
        (_aliased(target, c.left, c.m, left_bytes) and c.depth >= costs.MIN_PACKED_DEPTH)
        or any(_aliased(target, c.left, v, left_bytes) for v in c.k)
    )
    uses = ceil(c.columns / width) * prod(v.extent for v in c.batch if not c.left.index.coefficient(v))
    sparse = c.m is not None and uses >= costs.MIN_SPARSE_USES and _sparse(target, c, left_bytes)
    conflicting = any(_aliased(target, c.right, v, right_bytes) for v in c.k)
    far_apart = c.m is not None and _far_apart(c, c.left, left_bytes)
    pack_left = (many_columns and (aliased or far_apart)) or sparse
    pack_columns = not pack_right and many_rows and many_columns and conflicting
    groups = row_groups(target, c.rows, c.columns, c.batches, tile.rows, wide * width) if pack_right else 1
    return GemmPlan(
        contraction=c,
        tile=tile,
        lanes=lanes,
        pack_left=pack_left,
        pack_columns=pack_columns,
        pack_right=pack_right,
        # Packing converts.
        convert_left=convert_left and not pack_left,
        convert_right=convert_right and not pack_columns,
        wide=wide,
        block=block,
        groups=groups,
        order="images" if iterates_images(target, c) else "columns" if c.columns >= c.rows else "rows",
        l2_panels=_panels_per_l2_block(target, c, ceil(c.columns / width)),
        cycles=cycles,
    )


def _should_pack(target: Target, c: Contraction, streams: int) -> bool:
    """Whether to pack the right operand panel by panel: its lanes or its rows are far apart, and it is reused.

    An operand of 16 bits is also packed where that is the cheapest way to convert it, and one whose lanes are every
    second element where that is the cheapest way to shuffle them.
    """
    if not c.vector_loadable:
        return True
    cycles, tile = ranked_tiles(target, c, streams, packed=False)[0]
    if c.right.index.coefficient(c.n) == 2:
        return ranked_tiles(target, c, streams, packed=True)[0][0] < costs.PACKED_SHUFFLES * cycles
    if len(c.k) != 1:
        return False
    far_apart = _far_apart(c, c.right, c.right.dtype.itemsize) and c.rows > tile.rows
    if far_apart or c.right.dtype == c.dtype:
        return far_apart
    return ranked_tiles(target, c, streams, packed=True)[0][0] < cycles


def _far_apart(c: Contraction, load: Load, itemsize: int) -> bool:
    """Whether steps of k, as many as pay for packing, go to other pages, to which hardware does not prefetch."""
    if len(c.k) != 1:
        return False
    step = abs(load.index.coefficient(c.k[0]) or 0) * itemsize
    return step >= costs.PAGE_STRIDE and c.depth >= costs.MIN_PACKED_DEPTH


def _aliased(target: Target, load: Load, var: Var, itemsize: int) -> bool:
    """Whether steps along an axis map to one set of the first-level cache and outnumber its ways."""
    step = abs(load.index.coefficient(var) or 0) * itemsize
    return step > 0 and step % costs.alias_stride(target) == 0 and var.extent >= costs.aliased_rows(target)


def _sparse(target: Target, c: Contraction, itemsize: int) -> bool:
    """Whether few elements of a cache line of the left operand are used: some taps of each window of a weight."""
    line, used = target.line_bytes // itemsize, 1.0
    for var in (*c.k, *((c.m,) if c.m is not None else ())):
        step = abs(c.left.index.coefficient(var) or 0)
        used *= min(max(line / step, 1), var.extent) if step else 1
    return used * costs.SPARSE <= line


def iterates_images(target: Target, c: Contraction) -> bool:
    """Whether the innermost batch axis walks an image, of the right operand alone, that stays in cache."""
    if not c.batch or c.left.index.coefficient(c.batch[-1]):
        return False
    image = sum((v.extent - 1) * abs(c.right.index.coefficient(v) or 0) for v in (c.batch[-1], c.n, *c.k))
    return image * c.right.dtype.itemsize <= costs.l2_block_bytes(target)


def _panels_per_l2_block(target: Target, c: Contraction, panels: int) -> int:
    """Column panels that meet a block of rows before the next block does.

    One panel, so that the right operand stays in the first-level cache; but where the result is large (the gradient of
    a matrix that is updated in the epilogue), as many as stay in the second, so that memory is accessed in long runs.
    """
    if c.rows * c.columns * c.right.dtype.itemsize < costs.l2_bytes(target):
        return 1
    panel, room = ceil(c.columns / panels) * c.depth * c.right.dtype.itemsize, costs.l2_block_bytes(target)
    return max(d for d in range(1, panels + 1) if panels % d == 0 and (d == 1 or d * panel <= room))


def blocks_within(extents: Sequence[int], step_bytes: int, room_bytes: int) -> tuple[int, ...]:
    """Block size of each summed axis, a divisor of it, so that a block fits `room_bytes`; innermost axes first.

    Axes inside a divided one are whole: blocks one after the other walk all steps in row-major order.
    """
    room = max(room_bytes // step_bytes, 1)
    blocks: list[int] = []
    for extent in reversed(extents):
        size = max(d for d in range(1, min(room, extent) + 1) if extent % d == 0)
        room = room // size if size == extent else 1
        blocks.insert(0, size)
    return tuple(blocks)
