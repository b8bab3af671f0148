"""Scattering within rows: ``row[ids[n]] = combine(row[ids[n]], updates[n])``, in the order of n."""

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import For, Stmt
from adjoint.lower.rows.workspace import I64, Workspace

__all__ = ["scatter"]

#: The scalar function that combines an element with an update; None replaces the element.
_COMBINE = {"set": None, "add": "add", "prod": "mul", "amax": "max", "amin": "min"}


def scatter(work: Workspace) -> tuple[Stmt, ...]:
    """Operands: the row, positions, and updates; the option says how they are combined.

    An update at a position out of range is dropped.
    """
    (size,), (count,), _ = work.description.shapes
    function = _COMBINE[work.description.options[0]]
    row = work.scratch("row", size)
    n = Var("n", count)
    position = work.inliner.cast(work.operand(1, as_index(n)), I64)
    inside = work.call(
        "and",
        work.call("ge", position, work.number(0, I64)),
        work.call("lt", position, work.number(size, I64)),
    )
    at = work.inliner.position(position, size)
    old, new = work.load(row, at), work.operand(2, as_index(n))
    if function is not None:
        new = work.call(function, old, new)
    return (
        *work.each(size, lambda i: work.store(row, i, work.operand(0, i))),
        For(n, (work.store(row, at, work.select(inside, new, old)),)),
        *work.each(size, lambda i: work.give(work.load(row, i), i)),
    )
