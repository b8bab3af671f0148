"""The blocking of a GEMM around its register tiles: lanes, panels, blocks of k and row groups, by the caches' sizes.

These are the parameters of the loops around the micro-kernel in BLIS: NR follows from the lanes, KC from `panel_steps`,
MC from `row_groups` and NC from `l2_panels`; or KC and NC from `l2_chunk`, if blocks of rows walk a chunk of panels; or
all three from `k_blocks`, if nothing is packed.
"""

from math import ceil, sqrt

from adjoint import costs
from adjoint.kernel.target import Target
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.loops import divisors

__all__ = [
    "block_size",
    "k_blocks",
    "l2_chunk",
    "l2_panels",
    "panel_steps",
    "row_groups",
    "streams_from_memory",
    "tile_lanes",
    "tiles_per_panel",
    "updated_panels",
]


def block_size(extent: int, room: int) -> int:
    """Steps of a block: a divisor of the extent, unless that would be less than half of what there is room for."""
    most = max(min(extent, room), 1)
    divisor = max(divisors(extent, most))
    return divisor if 2 * divisor >= most else ceil(extent / ceil(extent / most))


def tile_lanes(target: Target, c: Contraction) -> int:
    """Lanes of a vector along n: shorter vectors where there are few columns, or where they leave fewer lanes idle."""
    return min(costs.useful_lanes(target, c.columns, c.dtype.itemsize), 1 << (c.columns - 1).bit_length())


def streams_from_memory(target: Target, c: Contraction) -> bool:
    """Whether panels are packed from the rows of a matrix that comes from memory each time."""
    return c.right.index.coefficient(c.k[0]) != 1 and c.right.buffer.nbytes >= costs.far_bytes(target)


def tiles_per_panel(target: Target, columns: int, batches: int, width: int) -> int:
    """Tiles in a panel of a matrix that streams from memory: wide panels touch fewer rows than many narrow ones."""
    panels, rest = divmod(columns, costs.PANEL_TILES * width)
    return costs.PANEL_TILES if not rest and panels * batches >= costs.units(target) else 1


def l2_chunk(target: Target, columns: int, depth: int, width: int, itemsize: int) -> tuple[int, int]:
    """Tiles side by side in a packed chunk that stays in the second-level cache, and its steps of k (NC, KC in BLIS).

    Blocks of rows meet all tiles of a chunk, one block after the other. Of every multiply-add, an element of the left
    operand is read again for each ``1 / NC``, and a sum is read and written for each ``1 / KC``: that is least where KC
    is twice NC. Chunks have about equal numbers of tiles.
    """
    room = costs.l2_block_bytes(target) // itemsize
    block = ceil(depth / max(round(depth / sqrt(2 * room)), 1))
    tiles = ceil(columns / width)
    return ceil(tiles / ceil(tiles / max(room // (block * width), 1))), block


def row_groups(
    target: Target, rows: int, columns: int, batches: int, height: int, width: int, chunks: bool = False
) -> int:
    """Number of row groups that meet a panel, or a chunk of several, each of which packs it anew.

    Enough to occupy all threads, and to keep the partial sums that wait between blocks of k within scratch memory.
    """
    units = costs.least_units(target) if chunks else costs.units(target)
    shared = ceil(units / (batches * ceil(columns / width)))
    spilled = ceil(rows * width / costs.MAX_SPILLED_SUMS)
    return min(ceil(rows / height), max(shared, spilled))


def panel_steps(target: Target, rows: int, depth: int, width: int, wide: int) -> int:
    """Steps of k for which a panel of `wide` tiles, `width` bytes each, is packed at a time (KC in BLIS).

    A panel that few rows meet stays in the first-level cache, together with their sums between blocks.
    """
    room = costs.l1_bytes(target) if wide > 1 else costs.panel_bytes(target)
    if rows * width * wide <= costs.l1_lines_bytes(target):
        room = costs.l1_lines_bytes(target)
    return ceil(depth / ceil(depth / max(room // width, 1)))


def k_blocks(
    target: Target, rows: int, columns: int, depth: int, batches: int, tile: tuple[int, int], itemsize: int
) -> tuple[int, int, int]:
    """How tiles of rows and columns accumulate sums block by block of k, from operands in place.

    The sums of a unit take half of the second-level cache. If those of all results do not fit, a unit has about as many
    rows as columns, so that units read the operands again as seldom as possible. With several threads there are
    enough units, of fewer rows or, where these are few, of fewer columns.

    Returns
    -------
    int, int, int
        Tiles side by side in a unit; groups of rows, each a unit of its own; steps of k in a block (KC in BLIS).
    """
    height, width = tile
    room = min(costs.l2_block_bytes(target) // itemsize, costs.MAX_SPILLED_SUMS)
    tiles, blocks = ceil(columns / width), ceil(rows / height)
    each = columns if rows * columns <= room else max(round(sqrt(room)), room // rows)
    chunks = ceil(columns / max(each, width))
    groups = min(ceil(rows * ceil(tiles / chunks) * width / room), blocks)
    units = costs.least_units(target) if target.cores > 1 else 1
    more = ceil(units / (batches * chunks * groups))
    if blocks >= 2 * groups * more:
        groups *= more
    else:
        chunks = min(chunks * more, tiles)
    return ceil(tiles / chunks), groups, ceil(depth / ceil(depth / costs.BLOCK_STEPS))


def l2_panels(target: Target, rows: int, columns: int, depth: int, itemsize: int, width: int) -> int:
    """Column panels, so many columns wide, that meet a block of rows before the next block does.

    One panel, so that the right operand stays in the first-level cache; but where the result is large (the gradient of
    a matrix that is updated in the epilogue), as many as stay in the second, so that memory is accessed in long runs.
    """
    panels = ceil(columns / width)
    if rows * columns * itemsize < costs.l2_bytes(target):
        return 1
    panel, room = ceil(columns / panels) * depth * itemsize, costs.l2_block_bytes(target)
    return max(d for d in range(1, panels + 1) if panels % d == 0 and (d == 1 or d * panel <= room))


def updated_panels(target: Target, rows: int, columns: int, batches: int, width: int, itemsize: int) -> int:
    """Panels of columns of a unit that updates its sums: as many as the second-level cache holds, but enough units.

    Sums in the first-level cache would be read faster, but rows of the right operand in shorter runs.
    """
    panels = ceil(columns / width)
    room = max(costs.l2_block_bytes(target) // (rows * width * itemsize), 1)
    shared = ceil(costs.least_units(target) / batches)
    return ceil(panels / max(ceil(panels / room), min(shared, panels)))
