"""The kernel of an operator that `Builder.row_algorithm` describes: each unit computes a row, matrix or number."""

from collections.abc import Callable, Mapping
from math import prod
from types import MappingProxyType

from adjoint.kernel.index import Var, as_index, unflatten
from adjoint.kernel.ir import Kernel, Stmt
from adjoint.lower.analysis.inlining import RowAlgorithm
from adjoint.lower.context import Context, finish_kernel, group_inliner
from adjoint.lower.fusion.groups import Group
from adjoint.lower.rows.elimination import determinant, solve
from adjoint.lower.rows.rotations import qr, singular_values, symmetric_eigen
from adjoint.lower.rows.scattering import scatter
from adjoint.lower.rows.sorting import argsort
from adjoint.lower.rows.triangular import cholesky, solve_triangular
from adjoint.lower.rows.workspace import Workspace

__all__ = ["row_kernel"]

#: The algorithms by name.
_ALGORITHMS: Mapping[str, Callable[[Workspace], tuple[Stmt, ...]]] = MappingProxyType(
    {
        "argsort": argsort,
        "scatter": scatter,
        "cholesky": cholesky,
        "solve_triangular": solve_triangular,
        "solve": solve,
        "determinant": determinant,
        "qr": qr,
        "symmetric_eigen": symmetric_eigen,
        "singular_values": singular_values,
    }
)


def row_kernel(context: Context, group: Group, description: RowAlgorithm) -> Kernel:
    """The kernel of a group whose root is a row algorithm."""
    root = group.root
    assert root is not None
    rank = len(root.shape) - description.rank
    unit = Var("u", prod(root.shape[:rank]))
    at = unflatten(as_index(unit), root.shape[:rank])
    inliner = group_inliner(context, group)
    own = inliner.describe(root, (*at, *(as_index(0) for _ in root.shape[rank:])))
    assert isinstance(own, RowAlgorithm)
    buffer = context.buffers[root]
    work = Workspace(root, buffer, own, at, inliner, context.target)
    body = () if work.is_empty else _ALGORITHMS[own.name](work)
    flops = root.op.flops * root.type.size * max((s[-1] for s in own.shapes if s), default=1)  # type: ignore[attr-defined]
    return finish_kernel(context, context.name_of(group), group.members, unit, body, flops)
