"""Rewriting of a kernel's statements, indices and expressions that preserves sharing."""

from collections.abc import Callable, Iterable
from dataclasses import replace

from adjoint.kernel.index import Dynamic, Index, as_index
from adjoint.kernel.ir import Across, Apply, Buffer, Coordinate, Expr, For, Load, Prefetch, Stmt, Store, When, postorder

__all__ = ["rewritten"]

#: Maps a location in memory to another.
_Move = Callable[[Buffer, Index], tuple[Buffer, Index]]


def rewritten(
    body: Iterable[Stmt],
    index: Callable[[Index], Index] = lambda same: same,
    apply: Callable[[Apply], Expr] = lambda same: same,
    move: _Move = lambda buffer, at: (buffer, at),
    across: Callable[[Buffer], Buffer] = lambda same: same,
) -> tuple[Stmt, ...]:
    """Apply `index` to every index, and `apply` to every function application, operands first.

    `move` is applied, after `index`, to every location that is read, written or prefetched, and `across` to the
    registers that `Across` combines. Numbers that indices read from memory (`Dynamic`) are rewritten like any other
    expression.
    """
    read: dict[Dynamic, Index] = {}
    # By identity, for all statements, as several may share an expression.
    new: dict[int, Expr] = {}

    def place(at: Index) -> Index:
        changed = {}
        for number in at.dynamic():
            if number not in read:
                (expr,) = expressions([number.expr])
                read[number] = as_index(number if expr is number.expr else Dynamic(expr, number.size))
            if read[number].terms != as_index(number).terms:
                changed[number] = read[number]
        return index(at.substitute(changed) if changed else at)

    def expressions(roots: list[Expr]) -> list[Expr]:
        for expr in postorder(roots):
            if id(expr) not in new:
                new[id(expr)] = _node(expr, new, place, apply, move, across)
        return [new[id(root)] for root in roots]

    def statement(of: Stmt) -> Stmt:
        if isinstance(of, For):
            until = place(of.until) if of.until is not None else None
            return For(of.var, tuple(map(statement, of.body)), of.kind, until)
        if isinstance(of, When):
            then, other = tuple(map(statement, of.then)), tuple(map(statement, of.other))
            return When(place(of.index), of.low, of.high, then, other)
        if isinstance(of, Prefetch):
            return Prefetch(*move(of.buffer, place(of.index)), of.write)
        values = expressions([value for _, _, value in of.targets])
        return Store(tuple((*move(b, place(i)), v) for (b, i, _), v in zip(of.targets, values, strict=True)))

    return tuple(map(statement, body))


def _node(
    expr: Expr,
    new: dict[int, Expr],
    index: Callable[[Index], Index],
    apply: Callable[[Apply], Expr],
    move: _Move,
    across: Callable[[Buffer], Buffer],
) -> Expr:
    if isinstance(expr, Load):
        buffer, at = move(expr.buffer, index(expr.index))
        guard = new[id(expr.guard)] if expr.guard is not None else None
        same = buffer is expr.buffer and at is expr.index and guard is expr.guard
        return expr if same else Load(buffer, at, guard)
    if isinstance(expr, Coordinate):
        at = index(expr.index)
        return expr if at is expr.index else Coordinate(at, expr.dtype)
    if isinstance(expr, Across):
        buffer = across(expr.buffer)
        return expr if buffer is expr.buffer else replace(expr, buffer=buffer)
    if not isinstance(expr, Apply):
        return expr
    operands = tuple(new[id(a)] for a in expr.operands)
    same = all(a is b for a, b in zip(operands, expr.operands, strict=True))
    return apply(expr if same else Apply(expr.function, operands, expr.dtype))
