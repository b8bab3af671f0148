"""The kernel of a prefix scan, such as a running sum: one pass along an axis, with the carries in registers.

Each element is combined with the carry of those before it, one after the other, whatever the machine. Where there are
axes after the scanned one, lanes run along these; otherwise a unit runs several rows in turns, so that the operations
of a row, each of which waits for the one before, overlap with those of the others::

    for u in 0..2 units:            8 rows of 16
      acc[0..8] = 0
      for n in 0..5:
        for c in 0..8: acc[c] = acc[c] + x[(u*8 + c)*5 + n];  y[(u*8 + c)*5 + n] = acc[c]
"""

from math import ceil, prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Buffer, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import PrefixScan
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import nest, vector_runs

__all__ = ["prefix_scan_kernel"]


def prefix_scan_kernel(context: Context, group: Group, description: PrefixScan) -> Kernel:
    """The kernel of a group whose root is a prefix scan."""
    root = group.root
    assert root is not None
    before, size, after = (
        root.shape[: description.axis],
        root.shape[description.axis],
        root.shape[description.axis + 1 :],
    )
    rows = prod(after) == 1
    # Rows are so far apart that lanes would gather them.
    lanes = 1 if rows else context.target.lanes(description.next.dtype)
    outer, width = (1, prod(before)) if rows else (prod(before), prod(after))
    vectors = costs.SCAN_ROWS if rows else costs.SCAN_VECTORS
    while vectors > 1 and outer * width < vectors * lanes * context.target.cores:
        vectors //= 2  # narrower tiles, rather than idle cores
    tile = max(min(width, vectors * lanes), 1)
    blocks = ceil(width / tile)
    unit = Var("u", outer * blocks if size else 0)
    flops = [0.0]

    def place(column: Index, n: Index) -> tuple[Index, ...]:
        first, last = (column, as_index(0)) if rows else (as_index(unit) // blocks, column)
        return (*unflatten(first, before), n, *unflatten(last, after))

    def step(carries: Buffer, spot: Index, column: Index, n: Index) -> Store:
        at = place(column, n)
        inliner = group_inliner(context, group)
        old: Expr = Load(carries, spot)
        inliner.reduce_index, inliner.carry = (n,), old
        made = inliner.describe(root, at)
        assert isinstance(made, PrefixScan)
        inliner.bind(root, old if made.exclusive else made.next)
        stores = store_outputs(context, group, inliner, at)
        flops[0] = flops_of([made.next, *(value for _, _, value in stores.targets)])
        return Store(((carries, spot, made.next), *stores.targets))

    def columns(count: int, first: Index) -> tuple[Stmt, ...]:
        carries = Buffer("carry", description.next.dtype, ceil(count / lanes) * lanes, "register")
        n = Var("n", size)
        position = as_index(n) * -1 + (size - 1) if description.reverse else as_index(n)
        clear: list[Stmt] = []
        steps: list[Stmt] = []
        for start, whole, extent in vector_runs(count, tile, lanes):
            for body, is_step in ((clear, False), (steps, True)):
                vector, lane = Var("c", whole), Var("l", extent)
                spot = as_index(vector) * lanes + as_index(lane) + start
                zero = Store(((carries, spot, description.start),))
                statement = step(carries, spot, first + spot, position) if is_step else zero
                body.append(For(vector, (For(lane, (statement,), "vector"),), "unroll"))
        return (*clear, *nest([n], tuple(steps)))

    block = as_index(unit) % blocks if blocks else as_index(0)
    body = columns(tile, block * tile) if unit.extent else ()
    if unit.extent and width % tile:
        edge = columns(width % tile, as_index((blocks - 1) * tile))
        body = (When(block, 0, blocks - 1, body, edge),)
    return finish_kernel(context, context.name_of(group), group.members, unit, body, flops[0] * root.type.size)
