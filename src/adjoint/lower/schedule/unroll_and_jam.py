"""Unroll-and-jam of kernels that reduce short rows: a unit computes a block of rows, step by step.

Before::

    kernel y: computes %y
      256 units, on one thread; 4352 flops, 9216 bytes
      reads x f32[2048] by 8; writes y f32[256] by 1; registers p f32[8], s f32[1]
      for u in 0..256 units:
        for l in 0..8 vector:
          p[l] = mul(x[u*8 + l], x[u*8 + l])
        s[0] = across(add, p[0..8] in 8 lanes)
        y[u] = sqrt(s[0])

After::

    kernel y: computes %y
      32 units, on one thread; 4352 flops, 9216 bytes
      reads x f32[2048] by 64; writes y f32[256] by 8; registers p f32[8]; scratch s f32[8]
      for u in 0..32 units:
        for r in 0..8:
          for l in 0..8 vector:
            p[l] = mul(x[u*64 + r*8 + l], x[u*64 + r*8 + l])
          s[r] = across(add, p[0..8] in 8 lanes)
        for r in 0..8 vector:
          y[u*8 + r] = sqrt(s[r])

What follows a sum is then computed for a vector of rows instead of one scalar at a time; and several rows are in flight
at once, where a single row is one chain of dependent operations: the tree of its lanes, the logarithm or root of the
sum, then all elements. The arithmetic of a row is unchanged, to the bit. If no block
divides the number of rows, the last one is shorter.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import groupby
from math import gcd

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import PRIVATE, Across, Buffer, Coordinate, For, Kernel, Load, Stmt, Store, When, postorder, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.footprint import every_index, reads_memory

__all__ = ["unroll_and_jam"]


def unroll_and_jam(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with a block of rows in a unit; the kernel itself where that is illegal or does not pay off."""
    totals = frozenset(b for s in kernel.body for b in _row_total(s))
    steps = [
        _Step(pointwise, tuple(s))
        for pointwise, s in groupby(kernel.body, lambda s: _is_pointwise(s, kernel.unit, totals))
    ]
    lanes = min((target.lanes(b.dtype) for step in steps if step.pointwise for b in _accessed(step.body)), default=0)
    rows = _rows(kernel, lanes, target)
    if not totals or rows < costs.MIN_JAMMED_ROWS or not _independent(steps, totals):
        return kernel
    blocks, rest = divmod(kernel.unit.extent, rows)
    unit = Var(kernel.unit.name, blocks + bool(rest))
    kept = {b: Buffer(b.name, b.dtype, rows, "scratch") for b in totals}

    def jammed(step: _Step, first: Index, count: int) -> For:
        row = Var("r", count)
        at = {kernel.unit: first + as_index(row)}

        def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
            return (kept[buffer], as_index(row)) if buffer in kept else (buffer, index)

        body = rewritten(step.body, index=lambda index: index.substitute(at), move=move)
        return For(row, body, "vector" if step.pointwise else "serial")

    body: tuple[Stmt, ...] = tuple(jammed(step, as_index(unit) * rows, rows) for step in steps)
    if rest:
        last = tuple(jammed(step, as_index(blocks * rows), rest) for step in steps)
        body = (When(as_index(unit), 0, blocks, body, last),)
    tiles = tuple((buffer, size * rows) for buffer, size in kernel.tiles)
    return replace(kernel, unit=unit, body=body, tiles=tiles)


@dataclass(frozen=True, slots=True)
class _Step:
    """Statements that all rows of a block go through before the next step: as lanes (`pointwise`), or in turn."""

    pointwise: bool
    body: tuple[Stmt, ...]


def _rows(kernel: Kernel, lanes: int, target: Target) -> int:
    """Rows of a block: a power of two, one that divides the number of units if such a block pays off."""
    units = max(kernel.unit.extent, 1)
    most = lanes
    least, room = costs.JAMMED_UNITS * costs.units(target), costs.jammed_bytes(target)
    while most > 1 and (units // most < least or kernel.bytes // units * most > room):
        most //= 2
    rows = gcd(most, units)
    return rows if rows >= costs.MIN_JAMMED_ROWS else most


def _row_total(statement: Stmt) -> Iterator[Buffer]:
    """The register in which a statement leaves the reduction of a row."""
    if isinstance(statement, Store):
        yield from (
            b for b, _, v in statement.targets if isinstance(v, Across) and b.space == "register" and b.size == 1
        )


def _is_pointwise(statement: Stmt, unit: Var, totals: frozenset[Buffer]) -> bool:
    """Whether a statement computes scalars of a row, so that neighbouring rows can be lanes."""
    if not isinstance(statement, Store):
        return False
    exprs = postorder([v for _, _, v in statement.targets])
    loads = [e for e in exprs if isinstance(e, Load) and e.buffer not in totals]
    return (
        all(b.space not in PRIVATE and i.coefficient(unit) == 1 for b, i, _ in statement.targets)
        and all(e.guard is None and e.index.coefficient(unit) in (0, 1) for e in loads)
        and not any(isinstance(e, Across | Coordinate) for e in exprs)
    )


def _accessed(body: Sequence[Stmt]) -> Iterator[Buffer]:
    """Every buffer that statements read or write."""
    for statement in walk(tuple(body)):
        if isinstance(statement, Store):
            yield from (b for b, _, _ in statement.targets)
            exprs = postorder([v for _, _, v in statement.targets])
            yield from (e.buffer for e in exprs if isinstance(e, Load | Across))


def _independent(steps: Sequence[_Step], totals: frozenset[Buffer]) -> bool:
    """Whether steps communicate in registers through row totals only, and no index is read from memory."""
    seen: set[Buffer] = set()
    for step in steps:
        mine = {b for b in _accessed(step.body) if b.space in PRIVATE} - totals
        if mine & seen or any(map(reads_memory, every_index(list(walk(step.body))))):
            return False
        seen |= mine
    return True
