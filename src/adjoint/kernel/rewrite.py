"""Rewriting of a kernel's statements, indices and expressions that preserves sharing."""

from collections.abc import Callable, Iterable

from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, as_index
from adjoint.kernel.ir import (
    Apply,
    Buffer,
    Coordinate,
    Expr,
    For,
    Load,
    Prefetch,
    Stmt,
    Store,
    When,
    dynamics,
    postorder,
    roots_of,
)

__all__ = ["rewritten"]

#: Maps a location in memory to another.
_Move = Callable[[Buffer, Index], tuple[Buffer, Index]]


def rewritten(
    body: Iterable[Stmt],
    index: Callable[[Index], Index] = lambda same: same,
    apply: Callable[[Apply], Expr] = lambda same: same,
    move: _Move = lambda buffer, at: (buffer, at),
) -> tuple[Stmt, ...]:
    """Apply `index` to every index, and `apply` to every function application, operands first.

    `move` is applied, after `index`, to every location that is read, written or prefetched; operands of `Across` are
    not moved. Numbers that indices read from memory (`Dynamic`) are rewritten like any other expression.
    """
    reads: dict[Dynamic, Dynamic] = {}

    def expressions(roots: list[Expr]) -> dict[int, Expr]:
        new: dict[int, Expr] = {}
        for expr in postorder(roots):
            new[id(expr)] = _node(expr, new, lambda of: located(of, new), apply, move)
        return new

    def located(of: Index, new: dict[int, Expr]) -> Index:
        return _with_reads(index(of), new, reads)

    def statement(of: Stmt) -> Stmt:
        new = expressions(roots_of(of))
        if isinstance(of, For):
            until = located(of.until, new) if of.until is not None else None
            return For(of.var, tuple(map(statement, of.body)), of.kind, until)
        if isinstance(of, When):
            then, other = tuple(map(statement, of.then)), tuple(map(statement, of.other))
            return When(located(of.index, new), of.low, of.high, then, other)
        if isinstance(of, Prefetch):
            return Prefetch(*move(of.buffer, located(of.index, new)), of.write)
        return Store(tuple((*move(b, located(i, new)), new[id(v)]) for b, i, v in of.targets))

    return tuple(map(statement, body))


def _with_reads(index: Index, new: dict[int, Expr], reads: dict[Dynamic, Dynamic]) -> Index:
    """The index with the rewritten expressions in place of those that it reads from memory."""
    if all(new.get(id(expr), expr) is expr for expr in dynamics(index)):
        return index
    out = as_index(index.constant)
    for atom, c in index.terms:
        if isinstance(atom, Dynamic):
            if atom not in reads:
                reads[atom] = Dynamic(new.get(id(atom.expr), atom.expr), atom.size)
            out += as_index(reads[atom]) * c
        elif isinstance(atom, Quotient):
            out += (_with_reads(atom.of, new, reads) // atom.by) * c
        elif isinstance(atom, Remainder):
            out += (_with_reads(atom.of, new, reads) % atom.by) * c
        else:
            out += as_index(atom) * c
    return out


def _node(
    expr: Expr, new: dict[int, Expr], index: Callable[[Index], Index], apply: Callable[[Apply], Expr], move: _Move
) -> Expr:
    if isinstance(expr, Load):
        buffer, at = move(expr.buffer, index(expr.index))
        guard = new[id(expr.guard)] if expr.guard is not None else None
        same = buffer is expr.buffer and at is expr.index and guard is expr.guard
        return expr if same else Load(buffer, at, guard)
    if isinstance(expr, Coordinate):
        at = index(expr.index)
        return expr if at is expr.index else Coordinate(at, expr.dtype)
    if not isinstance(expr, Apply):
        return expr
    operands = tuple(new[id(a)] for a in expr.operands)
    same = all(a is b for a, b in zip(operands, expr.operands, strict=True))
    return apply(expr if same else Apply(expr.function, operands, expr.dtype))
