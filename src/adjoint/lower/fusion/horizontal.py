"""Horizontal fusion: independent kernels with the same loops become one, so that what both read is loaded once.

An example is the backward pass of a normalization, which sums a cotangent, and the cotangent times x.

Before::

    kernel b: computes %b
      16 units, shared by threads; 65536 flops, 262208 bytes
      reads ct f32[65536]; writes b f32[16] by 1; registers s f32[1]
      for u in 0..16 units:
        s[0] = 0.0
        for k in 0..4096:
          s[0] = add(s[0], ct[k*16 + u])
        b[u] = s[0]

    kernel g: computes %g
      16 units, shared by threads; 131072 flops, 524352 bytes
      reads ct f32[65536], x f32[65536]; writes g f32[16] by 1; registers t f32[1]
      for u in 0..16 units:
        t[0] = 0.0
        for k in 0..4096:
          t[0] = add(t[0], mul(ct[k*16 + u], x[k*16 + u]))
        g[u] = t[0]

After::

    kernel b: computes %b, %g
      16 units, shared by threads; 196608 flops, 524416 bytes
      reads ct f32[65536], x f32[65536]; writes b f32[16] by 1, g f32[16] by 1; registers s f32[1], t f32[1]
      for u in 0..16 units:
        s[0] = 0.0
        t[0] = 0.0
        for k in 0..4096:
          s[0] = add(s[0], ct[k*16 + u])
          t[0] = add(t[0], mul(ct[k*16 + u], x[k*16 + u]))
        b[u] = s[0]
        g[u] = t[0]

It is done where both read something large and the registers hold the accumulators of both. The second one may overwrite
what the first one reads, if each iteration of both accesses an element of its own: the parameter and the momentum of an
update.
"""

from collections.abc import Iterator, Sequence

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index, is_injective
from adjoint.kernel.ir import Across, Buffer, For, Kernel, Load, Stmt, Store, postorder, roots_of, walk
from adjoint.kernel.regions import Nested
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.target import Target
from adjoint.lower.analysis.footprint import joint_tiles

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
    if isinstance(first, Nested) or isinstance(second, Nested):
        return None
    if first.unit.extent != second.unit.extent or not _pays_off(first, second):
        return None
    mine, theirs = {*first.reads, *first.writes}, {*second.reads, *second.writes}
    overwritten = mine & set(second.writes)
    if overwritten & set(first.writes) or theirs & set(first.writes):
        return None
    same = _same_loops(first.body, second.body, {second.unit: first.unit})
    if same is None:
        return None
    at = {theirs: as_index(ours) for theirs, ours in same.items()}
    moved = rewritten(second.body, index=lambda index: index.substitute(at))
    if not all(_has_one_place(buffer, (*first.body, *moved), first.unit) for buffer in overwritten):
        return None
    body = _interleaved(first.body, moved)
    shared = sum(b.nbytes for b in mine & theirs)
    return Kernel(
        first.name,
        first.unit,
        body,
        (*first.values, *second.values),
        first.flops + second.flops,
        first.bytes + second.bytes - shared,
        first.parallel or second.parallel,
        joint_tiles((first, second), (1, 1)),
    )


def _has_one_place(buffer: Buffer, body: Sequence[Stmt], unit: Var) -> bool:
    """Whether each iteration accesses one element of a buffer only, and all of them different ones.

    Then an iteration may overwrite what it has read before.
    """
    places = set[Index]()
    loops: tuple[Var, ...] = ()
    for inside, store in _stores(body, (unit,)):
        read = [e for e in postorder(roots_of(store)) if isinstance(e, Load | Across) and e.buffer is buffer]
        written = [place for target, place, _ in store.targets if target is buffer]
        if any(isinstance(e, Across) for e in read):
            return False
        own = {e.index for e in read if isinstance(e, Load)} | set(written)
        places |= own
        # Those of the first kernel, in terms of which all indices are.
        loops = loops or (inside if own else ())
    if len(places) != 1:
        return False
    (place,) = places
    return is_injective(place, loops) and all(place.coefficient(var) for var in loops if var.extent > 1)


def _stores(body: Sequence[Stmt], inside: tuple[Var, ...]) -> Iterator[tuple[tuple[Var, ...], Store]]:
    """The stores of statements, each with the variables of the loops around it."""
    for statement in body:
        if isinstance(statement, For):
            yield from _stores(statement.body, (*inside, statement.var))
        elif isinstance(statement, Store):
            yield inside, statement


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
