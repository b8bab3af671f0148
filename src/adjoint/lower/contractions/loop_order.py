"""The order in which units of work walk the tiles of a result.

The hardware prefetcher follows some twenty memory streams; an access that it cannot follow costs ten times as much.
So tiles are ordered to read and write memory in long runs. What no stream covers is prefetched by software
(`adjoint.lower.contractions.gemm_prefetch`).
"""

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.target import Target
from adjoint.lower.contractions.gemm_plan import GemmPlan

__all__ = ["loop_order", "packed_order"]


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
