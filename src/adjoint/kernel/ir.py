"""Kernel IR: loop nests over flat buffers.

The complete grammar::

    Program = buffers, kernels in order                  an entry point, executed by one native call
    Kernel  = params: Buffer*, unit: Var, body: Stmt*    units [0, unit.extent) are distributed to threads; with until,
                                                         those from it on are left out

    Stmt = For(var, body, kind, until)                   kind: serial | unroll | vector (innermost only)
         | When(index, low, high, then, other)           if low <= index < high
         | Store((buffer, index, value)*)                all values are computed, then all are stored
         | Prefetch(buffer, index, write)                a hint: will soon be read or written
    Expr = Const(value, dtype)
         | Load(buffer, index, guard)                    0 if the guard does not hold; then nothing is read
         | Apply(function, args, dtype)                  scalar functions, see scalars.py; also select, cast
         | Coordinate(index, dtype)                      an index as a number
         | Across(function, buffer, width)               combines `width` elements of a register buffer, as a tree

The semantics are those of the scalar program; ``vector`` and ``unroll`` only specify how to run a loop whose iterations
are independent. Buffers in the spaces "register" and "scratch" exist once per thread. Expressions are DAGs: a shared
object is computed once per execution of the enclosing statement.

Subnormal numbers of float32 and float64 are flushed: every scalar function except ``neg`` and ``abs``, every ``cast``
except those from and to bfloat16, and ``across`` treat a subnormal operand as a zero of the same sign, and return one
in place of a subnormal result. Loads, stores, ``select`` and ``bitcast`` preserve all bits, except that a ``select`` of
one of the two numbers compared by its condition may flush it, because x86-64 has a single instruction for that. float16
keeps its subnormal numbers, because they are normal in float32, in which it is computed. A program can be compiled
without flushing; for an architecture without such a mode (RISC-V), it always is.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Literal

import numpy as np

from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var
from adjoint.lazy_dataclass import dataclass

__all__ = [
    "PRIVATE",
    "Across",
    "Apply",
    "Buffer",
    "Const",
    "Coordinate",
    "Expr",
    "For",
    "Kernel",
    "Load",
    "LoopKind",
    "Prefetch",
    "Space",
    "Stmt",
    "Store",
    "StoreTarget",
    "When",
    "apply",
    "postorder",
    "roots_of",
]

#: Where a buffer is located: passed by the caller, in the arena, or in a literal of the program. Or, private to a
#: thread and undefined at the start of a unit, in registers (indexed by constants after unrolling) or in the thread's
#: part of the arena.
Space = Literal["external", "arena", "literal", "register", "scratch"]

#: How the iterations of a loop run: one after the other, as straight-line code, as the lanes of vectors, or each
#: operation for all of them before the next.
LoopKind = Literal["serial", "unroll", "vector", "interleave"]

#: Spaces that exist once per thread.
PRIVATE = frozenset(("register", "scratch"))


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A flat array of elements. Buffers compare by identity; two of them never overlap while both are live."""

    name: str
    dtype: np.dtype
    size: int
    space: Space

    @property
    def nbytes(self) -> int:
        """Size in bytes."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return self.name


class Expr:
    """Base class of expressions, which compare by identity."""

    dtype: np.dtype

    @property
    def args(self) -> tuple[Expr, ...]:
        """The operands."""
        return ()

    def variables(self) -> frozenset[Var]:
        """All loop variables that its value depends on."""
        return frozenset().union(*(a.variables() for a in self.args))


@dataclass(frozen=True, eq=False)
class Const(Expr):
    """A constant."""

    value: float | int | bool
    dtype: np.dtype

    def __str__(self) -> str:
        return repr(self.value)


@dataclass(frozen=True, eq=False)
class Load(Expr):
    """An element of a buffer; 0, without a read, if there is a `guard` and it does not hold."""

    buffer: Buffer
    index: Index
    guard: Expr | None = None

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The dtype of the buffer."""
        return self.buffer.dtype

    @cached_property
    def args(self) -> tuple[Expr, ...]:
        """The guard, and expressions that the index reads from memory."""
        found = tuple(dynamics(self.index))
        return (*found, self.guard) if self.guard is not None else found

    @cached_property
    def _variables(self) -> frozenset[Var]:
        own = frozenset(self.index.variables())
        return own | self.guard.variables() if self.guard is not None else own

    def variables(self) -> frozenset[Var]:
        """The variables of the index and the guard."""
        return self._variables

    def __str__(self) -> str:
        when = f" if {self.guard}" if self.guard is not None else ""
        return f"{self.buffer}[{self.index}{when}]"


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A scalar function applied to expressions."""

    function: str
    operands: tuple[Expr, ...]
    dtype: np.dtype

    @property
    def args(self) -> tuple[Expr, ...]:
        """The operands."""
        return self.operands

    @cached_property
    def _variables(self) -> frozenset[Var]:
        return frozenset().union(*(a.variables() for a in self.operands))

    def variables(self) -> frozenset[Var]:
        """The variables of the operands."""
        return self._variables

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.operands))})"


def apply(function: str, *operands: Expr) -> Apply:
    """A scalar function whose result has the dtype of its operands."""
    return Apply(function, operands, operands[0].dtype)


@dataclass(frozen=True, eq=False)
class Coordinate(Expr):
    """An index as a number."""

    index: Index
    dtype: np.dtype

    @property
    def args(self) -> tuple[Expr, ...]:
        """Expressions that the index reads from memory."""
        return tuple(dynamics(self.index))

    def variables(self) -> frozenset[Var]:
        """The variables of the index."""
        return frozenset(self.index.variables())

    def __str__(self) -> str:
        return str(self.index)


@dataclass(frozen=True, eq=False)
class Across(Expr):
    """The elements ``[0, count)`` of a register buffer, combined.

    The order is that of a tree over `width` lanes (a power of two; missing lanes are the function's identity): halves
    are combined until one is left. It is part of the semantics, so that results are bitwise identical everywhere.
    """

    function: str
    buffer: Buffer
    count: int
    width: int

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The dtype of the buffer."""
        return self.buffer.dtype

    def __str__(self) -> str:
        return f"across({self.function}, {self.buffer}[:{self.count}])"


def dynamics(index: Index) -> Iterator[Expr]:
    """The expressions that an index reads from memory."""
    for atom, _ in index.terms:
        if isinstance(atom, Dynamic):
            yield atom.expr
        elif isinstance(atom, Quotient | Remainder):
            yield from dynamics(atom.of)


StoreTarget = tuple[Buffer, Index, Expr]


@dataclass(frozen=True, slots=True, eq=False)
class Store:
    """Parallel assignment: all values are computed before any is stored."""

    targets: tuple[StoreTarget, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """A loop of ``var.extent`` iterations; with `until`, which only a serial loop has, of at most that many.

    An ``unroll`` loop is a serial one as straight-line code. The iterations of the other two kinds are independent. A
    ``vector`` loop contains only stores, and its extent is at most the number of lanes of the target. An ``interleave``
    loop contains only a ``vector`` loop or another ``interleave`` loop. `until` is computed before the first iteration;
    none runs if it is not positive.
    """

    var: Var
    body: tuple[Stmt, ...]
    kind: LoopKind = "serial"
    until: Index | None = None


@dataclass(frozen=True, slots=True, eq=False)
class When:
    """``then`` if ``low <= index < high``, otherwise ``other``; the index is uniform across lanes."""

    index: Index
    low: int
    high: int
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """A software prefetch of an element of a buffer that the kernel also reads or writes elsewhere.

    It has no effect on results, and the element may be outside the buffer.
    """

    buffer: Buffer
    index: Index
    write: bool = False


Stmt = For | When | Store | Prefetch


@dataclass(frozen=True, eq=False)
class Kernel:
    """One loop nest.

    Parameters
    ----------
    name : str
        Unique within a program.
    unit : Var
        The outermost loop. Units are independent; each thread runs a contiguous range of them.
    body : tuple of Stmt
        The statements of a unit.
    values : tuple of str
        Names of the graph values that it computes.
    flops : int
        Number of floating-point operations of all units.
    bytes : int
        Number of bytes read and written by all units, counting each element once.
    parallel : bool
        False if the work is too small to be distributed: one thread runs all units.
    tiles : tuple of (Buffer, int)
        Buffers that units partition into tiles, and the elements of a tile: unit `u` accesses the elements from
        ``u * size`` to ``(u + 1) * size`` and no others.
    until : Index or None
        Number of units that run and are distributed to threads, if it is less than `unit.extent`.
    """

    name: str
    unit: Var
    body: tuple[Stmt, ...]
    values: tuple[str, ...] = ()
    flops: int = 0
    bytes: int = 0
    parallel: bool = True
    tiles: tuple[tuple[Buffer, int], ...] = ()
    until: Index | None = None

    def tile(self, buffer: Buffer) -> int:
        """Elements of a buffer that each unit has to itself; 0 if units share the buffer."""
        return dict(self.tiles).get(buffer, 0)

    @cached_property
    def reads(self) -> tuple[Buffer, ...]:
        """Buffers that it reads, except those private to a thread, in order of first use."""
        return tuple(b for b in self._loaded if b.space not in PRIVATE)

    @cached_property
    def writes(self) -> tuple[Buffer, ...]:
        """Buffers that it writes, except those private to a thread, in order of first use."""
        return tuple(b for b in self._stored if b.space not in PRIVATE)

    @property
    def private(self) -> tuple[Buffer, ...]:
        """Buffers that are private to a thread, in the order in which they are first written."""
        return tuple(b for b in {**self._stored, **self._loaded} if b.space in PRIVATE)

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """Buffers in the space "scratch", in the order in which they are first written."""
        return tuple(b for b in self.private if b.space == "scratch")

    @cached_property
    def _loaded(self) -> dict[Buffer, None]:
        roots = list(dynamics(self.until)) if self.until is not None else []
        for statement in walk(self.body):
            roots += roots_of(statement)
        return {e.buffer: None for e in postorder(roots) if isinstance(e, Load)}

    @cached_property
    def _stored(self) -> dict[Buffer, None]:
        stores = (s for s in walk(self.body) if isinstance(s, Store))
        return {buffer: None for store in stores for buffer, _, _ in store.targets}


def roots_of(statement: Stmt) -> list[Expr]:
    """The expressions that a statement computes itself: values to store, and what its indices read from memory."""
    if isinstance(statement, Store):
        values = [value for _, _, value in statement.targets]
        return values + [expr for _, index, _ in statement.targets for expr in dynamics(index)]
    if isinstance(statement, For):
        return list(dynamics(statement.until)) if statement.until is not None else []
    return list(dynamics(statement.index))


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """All statements, outer before inner."""
    stack = [*reversed(body)]
    while stack:
        statement = stack.pop()
        yield statement
        if isinstance(statement, For):
            stack.extend(reversed(statement.body))
        elif isinstance(statement, When):
            stack.extend(reversed(statement.other))
            stack.extend(reversed(statement.then))


def postorder(roots: list[Expr]) -> list[Expr]:
    """All expressions reachable from the roots, operands first, each once. Iterative."""
    order: list[Expr] = []
    seen: set[int] = set()
    # None says that the operands of the expression below it are done.
    stack: list[Expr | None] = [*reversed(roots)]
    while stack:
        expr = stack.pop()
        if expr is None:
            order.append(stack.pop())  # type: ignore[arg-type]
        elif id(expr) not in seen:
            seen.add(id(expr))
            args = expr.args
            if args:
                stack += (expr, None)
                stack.extend(reversed(args))
            else:
                order.append(expr)
    return order
