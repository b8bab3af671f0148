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
    return tuple(map(_Rewriter(index, apply, move, across).statement, body))


class _Rewriter:
    """The functions of `rewritten`, and what they have made of the expressions that statements share."""

    def __init__(
        self,
        index: Callable[[Index], Index],
        apply: Callable[[Apply], Expr],
        move: _Move,
        across: Callable[[Buffer], Buffer],
    ) -> None:
        self._index, self._apply, self._move, self._across = index, apply, move, across
        self._read: dict[Dynamic, Index] = {}
        #: By identity.
        self._new: dict[int, Expr] = {}

    def statement(self, of: Stmt) -> Stmt:
        if isinstance(of, For):
            until = self._place(of.until) if of.until is not None else None
            return For(of.var, tuple(map(self.statement, of.body)), of.kind, until)
        if isinstance(of, When):
            then, other = tuple(map(self.statement, of.then)), tuple(map(self.statement, of.other))
            return When(self._place(of.index), of.low, of.high, then, other)
        if isinstance(of, Prefetch):
            return Prefetch(*self._move(of.buffer, self._place(of.index)), of.write)
        values = self._expressions([value for _, _, value in of.targets])
        places = [self._move(buffer, self._place(at)) for buffer, at, _ in of.targets]
        return Store(tuple((*place, value) for place, value in zip(places, values, strict=True)))

    def _place(self, at: Index) -> Index:
        changed = {}
        for number in at.dynamic():
            if number not in self._read:
                (expr,) = self._expressions([number.expr])
                self._read[number] = as_index(number if expr is number.expr else Dynamic(expr, number.size))
            if self._read[number].terms != as_index(number).terms:
                changed[number] = self._read[number]
        return self._index(at.substitute(changed) if changed else at)

    def _expressions(self, roots: list[Expr]) -> list[Expr]:
        for expr in postorder(roots):
            if id(expr) not in self._new:
                self._new[id(expr)] = self._node(expr)
        return [self._new[id(root)] for root in roots]

    def _node(self, expr: Expr) -> Expr:
        if isinstance(expr, Load):
            buffer, at = self._move(expr.buffer, self._place(expr.index))
            guard = self._new[id(expr.guard)] if expr.guard is not None else None
            same = buffer is expr.buffer and at is expr.index and guard is expr.guard
            return expr if same else Load(buffer, at, guard)
        if isinstance(expr, Coordinate):
            at = self._place(expr.index)
            return expr if at is expr.index else Coordinate(at, expr.dtype)
        if isinstance(expr, Across):
            buffer = self._across(expr.buffer)
            return expr if buffer is expr.buffer else replace(expr, buffer=buffer)
        if not isinstance(expr, Apply):
            return expr
        operands = tuple(self._new[id(a)] for a in expr.operands)
        same = all(a is b for a, b in zip(operands, expr.operands, strict=True))
        return self._apply(expr if same else Apply(expr.function, operands, expr.dtype))
