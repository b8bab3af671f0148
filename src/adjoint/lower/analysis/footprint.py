"""Footprints: which elements of which buffers a kernel accesses, and which part of a buffer each unit has to itself."""

from collections.abc import Iterator, Sequence

from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import Buffer, Coordinate, Expr, Load, Prefetch, Stmt, Store, When, postorder

__all__ = ["accesses", "every_index", "reads_memory", "unit_footprints"]


def unit_footprints(unit: Var, indices: Sequence[Index]) -> Iterator[int]:
    """For each index, the size of the part that is a unit's own: ``unit * size + something below size``; else 0."""
    for index in indices:
        size = index.coefficient(unit) or 0
        rest = index + as_index(unit) * -size
        yield size if size > 0 and rest.low >= 0 and rest.high < size else 0


def accesses(statements: Sequence[Stmt]) -> Iterator[tuple[Buffer, Index]]:
    """Every read and write of a buffer that is not private to a thread."""
    for statement in statements:
        if isinstance(statement, Store):
            yield from ((b, i) for b, i, _ in statement.targets if b.space not in ("register", "scratch"))
            for expr in postorder([v for _, _, v in statement.targets]):
                if isinstance(expr, Load) and expr.buffer.space not in ("register", "scratch"):
                    yield expr.buffer, expr.index


def every_index(statements: Sequence[Stmt]) -> Iterator[Index]:
    """Every index in statements, without those in nested statements."""
    for statement in statements:
        if isinstance(statement, When | Prefetch):
            yield statement.index
        elif isinstance(statement, Store):
            yield from (i for _, i, _ in statement.targets)
            exprs: list[Expr] = postorder([v for _, _, v in statement.targets])
            yield from (e.index for e in exprs if isinstance(e, Load | Coordinate))


def reads_memory(index: Index) -> bool:
    """Whether an index depends on numbers that are read from memory."""
    return any(
        isinstance(atom, Dynamic) or (isinstance(atom, Quotient | Remainder) and reads_memory(atom.of))
        for atom, _ in index.terms
    )
