"""Kernels that combine the elements of short rows do several rows in a unit, step by step.

::

    for u in 0..3072 units:                         for u in 0..192 units:
      result[0] = across(add, ..x[u, :]..)            for r in 0..16: result[r] = across(add, ..x[u*16 + r, :]..)
      s[u] = log(result[0])                    ->     for r in 0..16 vector: s[u*16 + r] = log(result[r])
      y[u, :] = exp(x[u, :] - s[u])                   for r in 0..16: y[u*16 + r, :] = exp(x[..] - s[u*16 + r])

What follows a sum is then done for a vector of rows at a time instead of one number at a time; and a processor works on
several rows at once, where a row alone is a chain in which everything waits: the tree of its lanes, the logarithm or
root of the sum, and then all elements for that. The arithmetic of a row stays what it was, to the bit.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import PRIVATE, Across, Buffer, Coordinate, For, Kernel, Load, Stmt, Store, postorder, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.target import Target
from adjoint.lower.analysis.footprint import every_index, reads_memory

__all__ = ["unroll_and_jam"]

#: Rows of a unit that are not worth the loops, and units that must be left for threads.
_MIN_ROWS, _MIN_UNITS = 4, 32
#: Bytes of all rows of a unit: they stay in the first-level cache from step to step.
_L1_BYTES = 20 * 1024


def unroll_and_jam(kernel: Kernel, target: Target) -> Kernel:
    """The kernel with several rows in a unit; itself where that is not what it does, or would not help."""
    totals = frozenset(b for s in kernel.body for b in _row_total(s))
    steps = [
        _Step(pointwise, tuple(s))
        for pointwise, s in groupby(kernel.body, lambda s: _is_pointwise(s, kernel.unit, totals))
    ]
    lanes = min((target.lanes(b.dtype) for step in steps if step.pointwise for b in _accessed(step.body)), default=0)
    rows = _rows(kernel, lanes)
    if not totals or rows < _MIN_ROWS or not _independent(steps, totals):
        return kernel
    unit = Var(kernel.unit.name, kernel.unit.extent // rows)
    kept = {b: Buffer(b.name, b.dtype, rows, "scratch") for b in totals}

    def jammed(step: _Step) -> For:
        row = Var("r", rows)
        at = {kernel.unit: as_index(unit) * rows + as_index(row)}

        def move(buffer: Buffer, index: Index) -> tuple[Buffer, Index]:
            return (kept[buffer], as_index(row)) if buffer in kept else (buffer, index)

        body = rewritten(step.body, index=lambda index: index.substitute(at), move=move)
        return For(row, body, "vector" if step.pointwise else "serial")

    return replace(kernel, unit=unit, body=tuple(map(jammed, steps)))


@dataclass(frozen=True, slots=True)
class _Step:
    """Statements of a unit, which all rows go through before the next step: for lanes (`pointwise`), or one by one."""

    pointwise: bool
    body: tuple[Stmt, ...]


def _rows(kernel: Kernel, lanes: int) -> int:
    """How many rows a unit does: a power of two that divides them."""
    units = max(kernel.unit.extent, 1)
    rows = lanes
    while rows > 1 and (units % rows or units // rows < _MIN_UNITS or kernel.bytes // units * rows > _L1_BYTES):
        rows //= 2
    return rows


def _row_total(statement: Stmt) -> Iterator[Buffer]:
    """The register that a statement leaves the combined elements of a row in."""
    if isinstance(statement, Store):
        yield from (
            b for b, _, v in statement.targets if isinstance(v, Across) and b.space == "register" and b.size == 1
        )


def _is_pointwise(statement: Stmt, unit: Var, totals: frozenset[Buffer]) -> bool:
    """Whether a statement makes numbers of a row, so that those of neighbouring rows are lanes."""
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
    """Whether steps hand on nothing in registers but totals, and no index is a number from memory."""
    seen: set[Buffer] = set()
    for step in steps:
        mine = {b for b in _accessed(step.body) if b.space in PRIVATE} - totals
        if mine & seen or any(map(reads_memory, every_index(list(walk(step.body))))):
            return False
        seen |= mine
    return True
