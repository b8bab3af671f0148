"""Copies of kernels over other buffers: the same loops, with variables and private buffers of their own."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var
from adjoint.kernel.ir import (
    Across,
    Apply,
    Buffer,
    Coordinate,
    Expr,
    For,
    Kernel,
    Load,
    Prefetch,
    Stmt,
    Store,
    When,
    postorder,
)

__all__ = ["Renaming"]


class Renaming:
    """One copy of several kernels that belong together.

    Parameters
    ----------
    buffers : mapping of Buffer to Buffer
        What is in place of some buffers.
    name : callable
        The name in place of a kernel's, or of a buffer's that is not among `buffers`: such a buffer is a new one in the
        copy, the same in all its kernels, unless it is a literal.
    """

    def __init__(self, buffers: Mapping[Buffer, Buffer], name: Callable[[str], str]) -> None:
        self._buffers = dict(buffers)
        self._name = name
        self._vars: dict[Var, Var] = {}
        # By identity: what is copied outlives the copying.
        self._indices: dict[int, Index] = {}
        self._dynamics: dict[int, Dynamic] = {}
        self._exprs: dict[int, Expr] = {}

    def kernel(self, kernel: Kernel, values: Iterable[str]) -> Kernel:
        """The copy of a kernel, which computes the graph values of these names."""
        return Kernel(
            self._name(kernel.name),
            self._var(kernel.unit),
            self._body(kernel.body),
            tuple(values),
            kernel.flops,
            kernel.bytes,
            kernel.parallel,
            tuple((self.buffer(buffer), size) for buffer, size in kernel.tiles),
            None if kernel.until is None else self._index(kernel.until),
        )

    def buffer(self, buffer: Buffer) -> Buffer:
        """What is in place of a buffer."""
        found = self._buffers.get(buffer)
        if found is None:
            shared = buffer.space == "literal"
            found = buffer if shared else Buffer(self._name(buffer.name), buffer.dtype, buffer.size, buffer.space)
            self._buffers[buffer] = found
        return found

    def _var(self, var: Var) -> Var:
        found = self._vars.get(var)
        if found is None:
            found = self._vars[var] = Var(var.name, var.extent)
        return found

    def _index(self, index: Index) -> Index:
        found = self._indices.get(id(index))
        if found is None:
            terms = frozenset([(self._atom(atom), c) for atom, c in index.terms])
            found = self._indices[id(index)] = Index(index.constant, terms)
        return found

    def _atom(self, atom: Any) -> Any:
        if isinstance(atom, Var):
            return self._var(atom)
        if isinstance(atom, Dynamic):
            found = self._dynamics.get(id(atom))
            if found is None:
                found = self._dynamics[id(atom)] = Dynamic(self._expr(atom.expr), atom.size)
            return found
        made: type[Quotient | Remainder] = type(atom)
        return made(self._index(atom.of), atom.by)

    def _expr(self, expr: Expr) -> Expr:
        new = self._exprs
        if id(expr) not in new:
            for part in postorder([expr]):
                if id(part) not in new:
                    new[id(part)] = self._node(part)
        return new[id(expr)]

    def _node(self, expr: Expr) -> Expr:
        """The copy of an expression whose operands have been copied."""
        new = self._exprs
        if isinstance(expr, Load):
            guard = None if expr.guard is None else new[id(expr.guard)]
            return Load(self.buffer(expr.buffer), self._index(expr.index), guard)
        if isinstance(expr, Apply):
            return Apply(expr.function, tuple([new[id(operand)] for operand in expr.operands]), expr.dtype)
        if isinstance(expr, Coordinate):
            return Coordinate(self._index(expr.index), expr.dtype)
        if isinstance(expr, Across):
            return Across(expr.function, self.buffer(expr.buffer), expr.count, expr.width)
        return expr

    def _body(self, body: Iterable[Stmt]) -> tuple[Stmt, ...]:
        return tuple([self._statement(statement) for statement in body])

    def _statement(self, of: Stmt) -> Stmt:
        if isinstance(of, For):
            until = None if of.until is None else self._index(of.until)
            return For(self._var(of.var), self._body(of.body), of.kind, until)
        if isinstance(of, When):
            return When(self._index(of.index), of.low, of.high, self._body(of.then), self._body(of.other))
        if isinstance(of, Prefetch):
            return Prefetch(self.buffer(of.buffer), self._index(of.index), of.write)
        targets = [(self.buffer(b), self._index(i), self._expr(value)) for b, i, value in of.targets]
        return Store(tuple(targets))
