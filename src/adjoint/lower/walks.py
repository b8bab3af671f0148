"""In which order the tiles of a result are walked, so that memory is read and written in runs, and what is asked ahead.

The hardware follows some twenty runs of memory and fetches ahead of them; what it cannot follow costs ten times as
much.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import ceil

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Const, For, Load, Prefetch, Stmt, When, postorder
from adjoint.lower.contractions import Contraction, Plan
from adjoint.lower.emit import Context, group_puller, stores
from adjoint.lower.fuse import Group

__all__ = ["FAR", "Asks", "far_places", "panel_ahead", "panels_of_slab", "streams_of", "walk_order"]

#: Bytes of the right operand that stay in a second-level cache while blocks of rows meet them.
_SLAB = 512 * 1024
#: Bytes of a cache line, and of a page.
_LINE, _PAGE = 64, 4096
#: Bytes of a tensor of which much is not in a second-level cache.
FAR = 1024 * 1024
#: Pieces of a block of k, between which what the next block needs is asked for.
_SLOTS = 16


def far_places(
    context: Context, group: Group, c: Contraction, at: Mapping[Var, Index]
) -> list[tuple[Buffer, Index, bool]]:
    """What an epilogue reads or writes (True) in rows of large tensors, by `c.m` and `c.n`."""
    assert group.root is not None
    puller = group_puller(context, group)
    puller.hold(group.root, Const(0.0, c.left.dtype))
    probe = stores(context, group, puller, c.index({**{v: as_index(v) for v in c.axes}, **at}))
    writes = {(b, i): True for b, i, _ in probe.targets}
    loads = [e for e in postorder([v for _, _, v in probe.targets]) if isinstance(e, Load) and e.guard is None]
    places = {(e.buffer, e.index): False for e in loads} | writes
    return [
        (b, i, write)
        for (b, i), write in places.items()
        if b.nbytes >= FAR and i.coefficient(c.n) == 1 and (c.m is None or i.coefficient(c.m))
    ]


def streams_of(context: Context, group: Group, c: Contraction) -> int:
    """How many tensors the epilogue walks in rows that lie pages apart."""
    if c.m is None or _rows_of_images(c):
        return 0
    steps = [(i.coefficient(c.m) or 0) * b.dtype.itemsize for b, i, _ in far_places(context, group, c, {})]
    return sum(step >= _PAGE for step in steps)


def panels_of_slab(c: Contraction, panels: int) -> int:
    """How many panels of columns are walked for a block of rows before the next block.

    Few, so that the right operand stays in the first-level cache; but where the result is large (the gradient of a
    matrix that is updated at once), as many as stay in the second, so that rows of memory are read and written in runs.
    """
    if c.rows * c.columns * c.right.dtype.itemsize < FAR:
        return 1
    panel = ceil(c.columns / panels) * c.depth * c.right.dtype.itemsize
    return max(d for d in range(1, panels + 1) if panels % d == 0 and (d == 1 or d * panel <= _SLAB))


def _rows_of_images(c: Contraction) -> bool:
    """Whether the innermost batch axis walks an image (of the right operand alone) that stays in cache."""
    if not c.batch or c.left.index.coefficient(c.batch[-1]):
        return False
    image = sum((v.extent - 1) * abs(c.right.index.coefficient(v) or 0) for v in (c.batch[-1], c.n, *c.k))
    return image * c.right.dtype.itemsize <= _SLAB


def walk_order(c: Contraction, block: Var, slab: Var, panel: Var) -> tuple[Var, ...]:
    """The axes of units, outermost first, so that threads and caches get what belongs together."""
    if _rows_of_images(c):
        # All rows of an image with some channels of the result, then with the next: a tensor is read and written as so
        # many streams as a tile has rows.
        return (*c.batch[:-1], block, c.batch[-1], slab, panel)
    if panel.extent > 1:
        return (*c.batch, slab, block, panel)
    # Threads take contiguous units: let the larger operand be the one that they split.
    return (*c.batch, slab, panel, block) if c.columns >= c.rows else (*c.batch, block, slab, panel)


@dataclass(frozen=True, slots=True)
class Asks:
    """What to ask memory for while a tile is computed: in so many slots, a few lines in each."""

    slots: int
    lines: Callable[[Index], tuple[Stmt, ...]]


def panel_ahead(
    c: Contraction, plan: Plan, at: dict[Var, Index], panel: tuple[Index, int], start: Index, turn: Index, turns: int
) -> Asks | None:
    """The share of the next block of a panel that one of so many turns asks for, where it is far away."""
    load, (k,) = c.right, c.k
    if load.buffer.nbytes < FAR:
        return None
    column, columns = panel
    line = _LINE // load.dtype.itemsize
    first, sizes = {k: start, c.n: column}, {k: plan.block, c.n: columns}
    along, across = (k, c.n) if load.index.coefficient(k) == 1 else (c.n, k)
    row = ceil(sizes[along] / line)
    total = sizes[across] * row
    each = Var("a", ceil(total / (turns * _SLOTS)))

    def lines(slot: Index) -> tuple[Stmt, ...]:
        number = (turn * _SLOTS + slot) * each.extent + as_index(each)
        where = {**at, across: first[across] + number // row, along: first[along] + number % row * line}
        ask: Stmt = Prefetch(load.buffer, load.index.substitute(where))
        ask = When(where[k], 0, k.extent, (When(where[c.n], 0, c.n.extent, (ask,)),))
        return (For(each, (When(number, 0, total, (ask,)),)),)

    return Asks(_SLOTS, lines)
