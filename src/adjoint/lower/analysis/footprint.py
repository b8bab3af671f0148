"""Footprints: which elements of which buffers a kernel accesses, and which part of a buffer each unit has to itself."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from adjoint.kernel.guards import guarded_index
from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import Buffer, Coordinate, Expr, For, Kernel, Load, Prefetch, Stmt, Store, When, postorder, walk

__all__ = ["accesses", "every_index", "joint_tiles", "reads_memory", "with_tiles"]


def with_tiles(kernel: Kernel) -> Kernel:
    """The kernel with the buffers that its units partition into tiles (`Kernel.tiles`).

    None are found in a kernel that computes indices from memory: passes cannot rename the loops of such indices.
    """
    statements = list(walk(kernel.body))
    if any(map(reads_memory, every_index(statements))):
        return replace(kernel, tiles=())
    sizes: dict[Buffer, set[int]] = {}
    for buffer, index in _limited(kernel.body, kernel.unit, {}):
        sizes.setdefault(buffer, set()).add(_tile(kernel.unit, index))
    tiles = tuple((buffer, max(found)) for buffer, found in sizes.items() if len(found) == 1 and max(found))
    return replace(kernel, tiles=tiles)


def _tile(unit: Var, index: Index) -> int:
    """The size for which an index is ``unit * size + something below size``; 0 if there is none."""
    size = index.coefficient(unit) or 0
    rest = index + as_index(unit) * -size
    return size if size > 0 and rest.low >= 0 and rest.high < size else 0


def _limited(body: Sequence[Stmt], unit: Var, limits: Mapping[Atom, Var]) -> Iterator[tuple[Buffer, Index]]:
    """Every access, where atoms other than the unit have the ranges for which the conditions around it hold."""
    for statement in body:
        if isinstance(statement, For):
            yield from _limited(statement.body, unit, limits)
        elif isinstance(statement, When):
            of, inside = statement.index, limits
            if len(of.terms) == 1 and not of.constant and statement.low == 0 and 0 < statement.high <= of.high:
                ((atom, step),) = of.terms
                if step == 1 and atom is not unit:
                    inside = {**limits, atom: Var("limited", statement.high)}
            yield from _limited(statement.then, unit, inside)
            yield from _limited(statement.other, unit, limits)
        else:
            yield from ((buffer, _within(index, limits)) for buffer, index in accesses((statement,)))


def _within(index: Index, limits: Mapping[Atom, Var]) -> Index:
    """An index with variables of smaller ranges in place of atoms."""
    for atom, step in index.terms:
        if atom in limits:
            index = index + as_index(limits[atom]) * step - Index(0, frozenset(((atom, step),)))
    return index


def joint_tiles(kernels: Sequence[Kernel], scales: Sequence[int]) -> tuple[tuple[Buffer, int], ...]:
    """The tiles of a kernel whose units run several kernels' units, `scale` units of each."""
    sizes: dict[Buffer, set[int]] = {}
    for kernel, scale in zip(kernels, scales, strict=True):
        for buffer in (*kernel.reads, *kernel.writes):
            sizes.setdefault(buffer, set()).add(kernel.tile(buffer) * scale)
    return tuple((buffer, max(found)) for buffer, found in sizes.items() if len(found) == 1 and max(found))


def accesses(statements: Sequence[Stmt]) -> Iterator[tuple[Buffer, Index]]:
    """Every read and write of a buffer that is not private to a thread."""
    for statement in statements:
        if isinstance(statement, Store):
            yield from ((b, i) for b, i, _ in statement.targets if b.space not in ("register", "scratch"))
            for expr in postorder([v for _, _, v in statement.targets]):
                if isinstance(expr, Load) and expr.buffer.space not in ("register", "scratch"):
                    yield expr.buffer, guarded_index(expr)


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
