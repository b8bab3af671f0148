"""How a contraction runs as a register-tiled GEMM: tile configuration, packing, panels and blocks, by estimated cost.

A tile of the result stays in vector registers while the loop over k runs (the micro-kernel of Goto and van de Geijn):
`rows` broadcast elements of the left operand times `vectors` vectors of the right one, a fused multiply-add each.
Operands are read in place through their strides where lanes are contiguous and few pages are touched; elsewhere a
thread first packs the columns that it works on into a panel of its own that stays in cache. `gemm` builds the loops.

Every plan adds the products of an element one after the other, from the first to the last, so that all of them give the
same bits.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil, inf, prod
from typing import Literal

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.blocking import (
    k_blocks,
    l2_chunk,
    l2_panels,
    panel_steps,
    row_groups,
    streams_from_memory,
    tile_lanes,
    tiles_per_panel,
    updated_panels,
)
from adjoint.lower.contractions.borders import Border
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.tile_cost import IN_PLACE, Form, Tile, cost_model, ranked_tiles, whole_cycles
from adjoint.lower.contractions.traffic import Order, reads_of

__all__ = [
    "IN_PLACE",
    "Form",
    "GemmPlan",
    "Tile",
    "blocks_within",
    "forms",
    "gemm_plan_of",
    "gemm_plans",
    "plan_gemm",
    "ranked_tiles",
    "tile_lanes",
    "with_roles",
]


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
    form : Form
        Which operand is packed, and how.
    convert_left, convert_right : bool
        Which operand of 16 bits is converted beforehand (`conversion`).
    wide : int
        Tiles side by side in a packed panel, or in the columns of a unit that accumulates its sums in memory.
    block : int
        Steps of k for which a panel is packed or all tiles of a unit are computed at a time (KC in BLIS), or of an
        update; 0 for all.
    chunks : bool
        Whether blocks of rows meet all panels of a packed chunk, one block after the other.
    groups : int
        Row groups that meet a packed panel or chunk, or blocks of k, each a unit of work of its own.
    order : {"images", "columns", "rows"}
        What units walk in their outer loop: blocks of rows for a whole image, panels of columns, or blocks of rows; of
        a unit that packs, what it walks inside.
    l2_panels : int
        Panels of columns that a block of rows meets before the next block does.
    border : Border or None
        Padding of the image above and below, whose products are left out.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    tile: Tile
    lanes: int
    form: Form = IN_PLACE
    convert_left: bool = False
    convert_right: bool = False
    wide: int = 1
    block: int = 0
    chunks: bool = False
    groups: int = 1
    order: Literal["images", "columns", "rows"] = "columns"
    l2_panels: int = 1
    border: Border | None = None
    cycles: float = 0.0

    def without(self, border: Border) -> "GemmPlan":
        """The plan that leaves out the products at a border, if tiles have one row of an image or neighbors of it."""
        c, stacked = self.contraction, self.contraction.batch[-1:] == (border.row,)
        if self.form.right != "in place" or (self.tile.stack > 1 and not stacked):
            return self
        stack = self.tile.stack
        inside = [border.steps(row) for row in range(border.row.extent)]
        tiles = [inside[n : n + stack] for n in range(0, len(inside), stack)]
        steps = sum(max(end for _, end in tile) - min(begin for begin, _ in tile) for tile in tiles)
        share = steps / (len(tiles) * border.step.extent)
        if c.k[-2:-1] != (border.step,) or share >= costs.MAX_INSIDE:
            return self
        return replace(self, border=border, cycles=self.cycles * share)

    @property
    def columns(self) -> int:
        """Columns of the result in a tile."""
        return self.tile.vectors * self.lanes

    def __str__(self) -> str:
        words = (
            "gemm",
            str(self.tile),
            str(self.form),
            "by rows" * (self.order == "rows" and self.form.right != "blocks"),
        )
        return " ".join(filter(None, words))


def plan_gemm(target: Target, c: Contraction, streams: int = 0) -> GemmPlan:
    """The plan with the lowest estimated cost; packs where strides would hurt.

    `streams` is the number of tensors in memory that the epilogue walks row by row.
    """
    if not _is_plain(c):
        form = Form(right="panels" if _should_pack(target, c, streams) else "in place")
        cycles, tile = cost_model(target, c, streams, form).cheapest()
        return _plan(target, c, tile, form, _usual_order(c), cycles)
    best, plan = (inf, True, 0), None
    # Best-first search, as for tiles. Equal forms go to the usual order, and then to the first of them.
    found = list(forms(target, c))
    models = {form: cost_model(target, with_roles(c, form), streams, form) for form in dict(found)}
    ranked = sorted((models[form].least(), number, form, order) for number, (form, order) in enumerate(found))
    for least, number, form, order in ranked:
        if least > best[0]:
            break
        cycles, tile = models[form].cheapest(order)
        rank = cycles, order != _usual_order(with_roles(c, form)), number
        if rank < best:
            best, plan = rank, (with_roles(c, form), tile, form, order, cycles)
    assert plan is not None
    return _plan(target, *plan)


def gemm_plan_of(target: Target, c: Contraction, tile: Tile, cycles: float) -> GemmPlan:
    """The plan with a tile whose operands are in place, except those whose strides conflict."""
    return _plan(target, c, tile, IN_PLACE, _usual_order(c), cycles)


def gemm_plans(target: Target, c: Contraction, streams: int, most: int | None = None) -> Iterator[GemmPlan]:
    """The plans of all forms and of all tiles that fit, each in the order of estimated cost; `most` tiles of each."""
    others = [(Form(right=right), _usual_order(c)) for right in _rights(c) if right != "whole"]
    for form, order in forms(target, c) if _is_plain(c) else others:
        for cycles, tile in ranked_tiles(target, with_roles(c, form), streams, form, order)[:most]:
            yield _plan(target, with_roles(c, form), tile, form, order, cycles)


def _is_plain(c: Contraction) -> bool:
    """Whether the operands are matrices, each with one axis of the result at most and the summed axis."""
    return len(c.k) == 1 and _are_rows(c)


def _are_rows(c: Contraction) -> bool:
    """Whether the operands are matrices, or rows of several summed axes."""
    return reads_of(c.left, c.m, c.k) is not None and reads_of(c.right, c.n, c.k) is not None


def with_roles(c: Contraction, form: Form) -> Contraction:
    """The contraction with the roles that its operands have in a form."""
    if not form.swapped:
        return c
    assert c.m is not None
    return replace(c, left=c.right, right=c.left, m=c.n, n=c.m)


def _usual_order(c: Contraction) -> Order:
    return "columns" if c.columns >= c.rows else "rows"


def _rights(c: Contraction) -> tuple[Literal["in place", "panels", "whole"], ...]:
    """How the right operand may be read: packed only, if its lanes are not contiguous."""
    return ("in place", "panels", "whole") if c.vector_loadable else ("panels", "whole")


def forms(target: Target, c: Contraction) -> Iterator[tuple[Form, Order]]:
    """The forms of a plain product and the orders of their tiles; operands that tiles read well are not packed."""
    orders: tuple[Order, ...] = ("columns", "rows")
    narrow = c.columns <= costs.MAX_SWAPPED_VECTORS * target.lanes(c.dtype)
    for swapped in (False, True) if c.m is not None and narrow else (False,):
        own = with_roles(c, Form(swapped))
        left, right = reads_of(own.left, own.m, own.k), reads_of(own.right, own.n, own.k)
        assert left is not None
        assert right is not None
        lefts: tuple[Literal["in place", "whole"], ...] = ("in place", "whole")
        rights = _rights(own)
        if own.m is None or left.is_easy(target, 1):
            lefts = ("in place",)
        converted = own.right.dtype != own.dtype
        contiguous = own.runs or own.right.index.coefficient(own.n) == 1
        if contiguous and not converted and right.is_easy(target, tile_lanes(target, own)):
            rights = ("in place",)
        for how in lefts:
            for packed in rights:
                # Blocks of rows walk a chunk of panels if they are contiguous along k, or packed.
                chunks = how == "whole" or left.runs_along_k
                for order in orders if packed != "panels" or chunks else orders[:1]:
                    yield Form(swapped, how, packed), order
        if contiguous and not converted and own.rows <= costs.MAX_UPDATED_ROWS and right.jumps:
            yield Form(swapped, right="updates"), orders[0]
        if contiguous and not converted and own.m is not None and c.depth >= 2 * costs.BLOCK_STEPS:
            yield Form(swapped, right="blocks"), orders[1]


def _plan(target: Target, c: Contraction, tile: Tile, form: Form, order: Order, cycles: float) -> GemmPlan:
    """The plan with a tile: what is packed, in which blocks, and how it is shared."""
    lanes = tile_lanes(target, c)
    width, itemsize = tile.vectors * lanes, c.dtype.itemsize
    block, wide, groups = c.depth, 1, 1
    # The order of other contractions is that of units alone.
    chunks = form.right == "panels" and order == "rows" and _is_plain(c)
    if form.right == "panels":
        if chunks:
            wide, block = l2_chunk(target, c.columns, c.depth, width, itemsize)
        elif len(c.k) == 1:
            wide = tiles_per_panel(target, c.columns, c.batches, width) if streams_from_memory(target, c) else 1
            block = panel_steps(target, c.rows, c.depth, width * itemsize, wide)
        groups = row_groups(target, c.rows, c.columns, c.batches, tile.rows, wide * width, chunks)
    elif form.right == "blocks":
        size = tile.rows, width
        wide, groups, block = k_blocks(target, c.rows, c.columns, c.depth, c.batches, size, itemsize)
    elif form.right == "updates":
        block, wide = costs.UPDATE_STEPS, updated_panels(target, c.rows, c.columns, c.batches, width, itemsize)
    convert_left, convert_right = cost_model(target, c, 0, form).converts(tile)
    if not _is_plain(c):
        form = _conflict_free(target, c, tile, form, convert_left, convert_right)
        cycles += _far_cycles(target, c, width)
        if form.left == "whole":
            cycles += whole_cycles(target, c, c.left, c.m)
    return GemmPlan(
        contraction=c,
        tile=tile,
        lanes=lanes,
        form=form,
        # Packing converts.
        convert_left=convert_left and form.left == "in place",
        convert_right=convert_right and form.right != "whole",
        wide=wide,
        block=block,
        chunks=chunks,
        groups=groups,
        order="images" if iterates_images(target, c) else order,
        l2_panels=l2_panels(target, c.rows, c.columns, c.depth, c.right.dtype.itemsize, width),
        cycles=cycles,
    )


def _far_cycles(target: Target, c: Contraction, width: int) -> float:
    """Cycles to read a left operand from memory again for every panel of columns; products hide half of that.

    Only if the operand has all axes of the batch, so that each panel reads every element once. Of a plain product,
    `Traffic` is estimated instead.
    """
    if c.left.buffer.nbytes <= costs.l3_block_bytes(target) or any(not c.left.index.coefficient(v) for v in c.batch):
        return 0.0
    return (ceil(c.columns / width) - 1) * c.left.buffer.nbytes / costs.far_bytes_per_cycle(target) / 2


def _conflict_free(
    target: Target, c: Contraction, tile: Tile, form: Form, convert_left: bool, convert_right: bool
) -> Form:
    """The form of a contraction of several summed axes that packs reused operands whose strides conflict."""
    width = tile.vectors * tile_lanes(target, c)
    many_columns, many_rows = (
        extent >= costs.MIN_PACKED_TILES * size for extent, size in ((c.columns, width), (c.rows, tile.rows))
    )
    left_bytes, right_bytes = (
        c.dtype.itemsize if converted else load.dtype.itemsize
        for load, converted in ((c.left, convert_left), (c.right, convert_right))
    )
    aliased = c.m is not None and (
        (_aliased(target, c.left, c.m, left_bytes) and c.depth >= costs.MIN_PACKED_DEPTH)
        or any(_aliased(target, c.left, v, left_bytes) for v in c.k)
    )
    uses = ceil(c.columns / width) * prod(v.extent for v in c.batch if not c.left.index.coefficient(v))
    sparse = c.m is not None and uses >= costs.MIN_SPARSE_USES and _sparse(target, c, left_bytes)
    conflicting = any(_aliased(target, c.right, v, right_bytes) for v in c.k)
    if (many_columns and aliased) or sparse:
        form = form._replace(left="whole")
    if form.right == "in place" and many_rows and many_columns and conflicting:
        form = form._replace(right="whole")
    return form


def _should_pack(target: Target, c: Contraction, streams: int) -> bool:
    """Whether to pack the right operand panel by panel: lanes are far apart, or packing is the cheapest way to read it.

    That may be so for rows in memory, for an operand of 16 bits, which packing converts, and for lanes that are every
    second element, which take shuffles.
    """
    if not c.vector_loadable:
        return True
    strided = c.right.index.coefficient(c.n) == 2
    if not strided and not _are_rows(c) and (len(c.k) != 1 or c.right.dtype == c.dtype):
        return False
    in_place, packed = (cost_model(target, c, streams, Form(right=how)).cheapest()[0] for how in ("in place", "panels"))
    return packed < in_place * (costs.PACKED_SHUFFLES if strided else 1.0)


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
