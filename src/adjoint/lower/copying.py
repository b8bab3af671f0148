"""A kernel that copies a buffer."""

from collections.abc import Sequence

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Kernel, Load, Stmt, Store, When
from adjoint.lower.context import Context, finish_kernel
from adjoint.lower.loops import vector_loops

__all__ = ["copy_kernel"]


def copy_kernel(context: Context, name: str, values: Sequence[Value], source: Buffer, to: Buffer) -> Kernel:
    """Copy a buffer to another one of the same size."""
    lanes = context.target.lanes(source.dtype)
    chunk = costs.COPY_VECTORS * lanes
    blocks = -(-source.size // chunk)
    unit = Var("u", blocks)

    def move(at: Index, _: Index) -> tuple[Stmt, ...]:
        return (Store(((to, at, Load(source, at)),)),)

    body = vector_loops(min(chunk, source.size), lanes, move, as_index(unit) * chunk)
    if source.size > chunk and source.size % chunk:
        rest = vector_loops(source.size % chunk, lanes, move, (blocks - 1) * chunk)
        body = (When(as_index(unit), 0, blocks - 1, body, rest),)
    return finish_kernel(context, name, values, unit, body, 0)
