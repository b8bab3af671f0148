"""The kernel of a scatter: rows added at given positions, such as the gradient of a gather.

A unit owns some columns of the result and applies all updates in order, so that no two threads ever write the same
element, and the order of additions is that of the updates.
"""

from math import prod

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Const, For, Kernel, Stmt, Store, When
from adjoint.lower.analysis.inlining import I64, Scatter, compute_dtype
from adjoint.lower.context import Context, finish_kernel, group_inliner
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import vector_loops

__all__ = ["scatter_kernel"]


def scatter_kernel(context: Context, group: Group, description: Scatter) -> Kernel:
    """The kernel of a group whose root is a scatter."""
    root = group.root
    assert root is not None
    row_shape = root.shape[1:]
    width = prod(row_shape)
    buffer = context.buffers[root]
    lanes = context.target.lanes(buffer.dtype)
    # Narrower tiles, rather than idle cores.
    vectors = next(
        v for v in range(costs.SCATTER_VECTORS, 0, -1) if v == 1 or width >= v * lanes * context.target.cores
    )
    tile = max(min(width, vectors * lanes), 1)
    blocks = -(-width // tile)
    unit = Var("u", blocks)

    def zero(row: Index, column: Index) -> Stmt:
        return Store(((buffer, row * width + column, Const(0, buffer.dtype)),))

    def update(n: Index, column: Index) -> Stmt:
        inliner = group_inliner(context, group)
        inliner.reduce_index = (n,)
        made = inliner.describe(root, (as_index(0), *unflatten(column, row_shape)))
        assert isinstance(made, Scatter)
        # An id that is out of range adds 0 to a row within range.
        place = inliner.position(made.id, made.rows) * width + column
        wide = inliner.cast(made.id, I64)
        within = inliner.call(
            "and", inliner.call("ge", wide, Const(0, I64)), inliner.call("lt", wide, Const(made.rows, I64))
        )
        nothing = Const(0, compute_dtype(buffer.dtype))
        total = inliner.call("add", inliner.load(buffer, place), inliner.select(within, made.update, nothing))
        return Store(((buffer, place, inliner.stored(total, buffer.dtype)),))

    def columns(count: int, first: Index) -> tuple[Stmt, ...]:
        row, n = Var("r", description.rows), Var("n", description.count)
        clear = vector_loops(count, lanes, lambda c, _: (zero(as_index(row), c),), first)
        add = vector_loops(count, lanes, lambda c, _: (update(as_index(n), c),), first)
        return (For(row, clear), For(n, add))

    block = as_index(unit)
    body = columns(tile, block * tile) if width else ()
    if width % tile:
        body = (When(block, 0, blocks - 1, body, columns(width % tile, as_index((blocks - 1) * tile))),)
    flops = description.count * width
    return finish_kernel(context, context.name_of(group), group.members, unit, body, flops)
