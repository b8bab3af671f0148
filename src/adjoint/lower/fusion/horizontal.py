"""Horizontal fusion: independent kernels with the same loops become one, so that what both read is loaded once.

For example, the sum of a cotangent, and of the cotangent times x::

    for u in 0..16 units:                     for u in 0..16 units:
      for k in 0..65536:                        for k in 0..65536:
        acc[0] = acc[0] + ct[k*16 + u]            acc[0] = acc[0] + ct[k*16 + u]
      b[u] = acc[0]                       ->      sum[0] = sum[0] + ct[k*16 + u]*x[k*16 + u]
    for u in 0..16 units:                       b[u] = acc[0]
      for k in 0..65536:                        g[u] = sum[0]
        sum[0] = sum[0] + ct[k*16 + u]*x[k*16 + u]
      g[u] = sum[0]

It is done where both read something large and the registers hold the accumulators of both.
"""

from collections.abc import Sequence

from adjoint import costs
from adjoint.kernel.index import Var, as_index
from adjoint.kernel.ir import For, Kernel, Stmt, Store, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.target import Target

__all__ = ["fuse_horizontally"]


def fuse_horizontally(kernels: Sequence[Kernel], target: Target) -> list[Kernel]:
    """Fuse each kernel with the one before it, where their loops are the same."""
    out: list[Kernel] = []
    for kernel in kernels:
        room = target.vector_registers * costs.ACCUMULATOR_SHARE
        fits = bool(out) and _vectors(out[-1], target) + _vectors(kernel, target) <= room
        made = _fused(out[-1], kernel) if fits else None
        if made is None:
            out.append(kernel)
        else:
            out[-1] = made
    return out


def _vectors(kernel: Kernel, target: Target) -> float:
    """Vector registers that hold accumulators."""
    targets = {b: None for s in walk(kernel.body) if isinstance(s, Store) for b, _, _ in s.targets}
    return sum(b.size / target.lanes(b.dtype) for b in targets if b.space == "register")


def _fused(first: Kernel, second: Kernel) -> Kernel | None:
    """Both kernels as one, or None where that is illegal or does not pay off."""
    if first.unit.extent != second.unit.extent or not _pays_off(first, second):
        return None
    mine, theirs = {*first.reads, *first.writes}, {*second.reads, *second.writes}
    if mine & set(second.writes) or theirs & set(first.writes):
        return None
    same = _same_loops(first.body, second.body, {second.unit: first.unit})
    if same is None:
        return None
    at = {theirs: as_index(ours) for theirs, ours in same.items()}
    body = _interleaved(first.body, rewritten(second.body, index=lambda index: index.substitute(at)))
    shared = sum(b.nbytes for b in mine & theirs)
    return Kernel(
        first.name,
        first.unit,
        body,
        (*first.values, *second.values),
        first.flops + second.flops,
        first.bytes + second.bytes - shared,
        first.parallel or second.parallel,
    )


def _pays_off(first: Kernel, second: Kernel) -> bool:
    shared = [b for b in second.reads if b in first.reads and b.nbytes >= costs.MIN_SHARED_BYTES]
    large = [
        b for b in {*first.reads, *second.reads, *first.writes, *second.writes} if b.nbytes >= costs.MIN_SHARED_BYTES
    ]
    statements = sum(1 for kernel in (first, second) for _ in walk(kernel.body))
    return bool(shared) and len(large) <= costs.MAX_FUSED_TENSORS and statements <= costs.MAX_FUSED_STATEMENTS


def _same_loops(first: Sequence[Stmt], second: Sequence[Stmt], found: dict[Var, Var]) -> dict[Var, Var] | None:
    """The first kernel's variable for each of the second's, or None where the loops differ."""
    if not all(isinstance(s, For | Store) for s in (*first, *second)):
        return None
    mine, theirs = ([s for s in body if isinstance(s, For)] for body in (first, second))
    if [(loop.var.extent, loop.kind) for loop in mine] != [(loop.var.extent, loop.kind) for loop in theirs]:
        return None
    for a, b in zip(mine, theirs, strict=True):
        found[b.var] = a.var
        if _same_loops(a.body, b.body, found) is None:
            return None
    return found


def _interleaved(first: Sequence[Stmt], second: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """The loops of both fused, and the assignments between them one after the other."""
    out: list[Stmt] = []
    rest = list(second)
    for statement in first:
        if not isinstance(statement, For):
            out.append(statement)
            continue
        while not isinstance(rest[0], For):
            out.append(rest.pop(0))
        loop = rest.pop(0)
        assert isinstance(loop, For)
        out.append(For(statement.var, _interleaved(statement.body, loop.body), statement.kind))
    return (*out, *rest)
