"""Kernel IR: loop nests over flat buffers.

The whole grammar, on one screen::

    Program = buffers, kernels in order                  one entry point: what one native call does
    Kernel  = params: Buffer*, unit: Var, body: Stmt*    units [0, unit.extent) are shared out to threads

    Stmt = For(var, body, kind)                          kind: serial | unroll | vector (innermost only)
         | When(index, low, high, then, other)           if low <= index < high
         | Store((buffer, index, value)*)                all values are computed, then all are stored
         | Prefetch(buffer, index, write)                a hint: will be read or written soon
    Expr = Const(value, dtype)
         | Load(buffer, index, guard)                    0 where the guard does not hold; then nothing is read
         | Apply(function, args, dtype)                  scalar functions, see scalars.py; select, cast too
         | Coordinate(index, dtype)                      an index as a number
         | Across(function, buffer, width)               combines `width` elements of a register buffer, as a tree

Meaning is that of the scalar program: ``vector`` and ``unroll`` only say how to run a loop whose iterations are
independent of each other. Buffers in the spaces "register" and "scratch" exist once per thread.
Expressions are graphs: a shared object is computed once for each execution of the statement around it.

Subnormal numbers of float32 and float64 are flushed: every scalar function but ``neg`` and ``abs``, every ``cast`` but
those from and to bfloat16, and ``across`` read a zero of the same sign in place of a subnormal operand and give one in
place of a subnormal result. Loads, stores, ``select`` and ``bitcast`` move bits as they are; only a ``select`` of one
of the two numbers that its condition compares may flush it, as x86-64 has that in one instruction. float16 keeps its
subnormal numbers: they are normal in float32, where its arithmetic happens. A program may be compiled without
flushing, and one for an architecture without such a mode (RISC-V) is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from adjoint.kernel.index import Dynamic, Index, Quotient, Remainder, Var

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
    "Prefetch",
    "Space",
    "Stmt",
    "Store",
    "StoreTarget",
    "When",
    "postorder",
]

#: Where a buffer lives: handed over by the caller, in the arena, in a literal of the program; or, a thread's own
#: and undefined when a unit starts, in registers (indexed by constants once loops are unrolled) or in its part of the
#: arena.
Space = Literal["external", "arena", "literal", "register", "scratch"]

#: Spaces that exist once per thread.
PRIVATE = frozenset(("register", "scratch"))


@dataclass(frozen=True, slots=True, eq=False)
class Buffer:
    """A flat run of elements. Identity is its identity: two buffers never overlap while both are live."""

    name: str
    dtype: np.dtype
    size: int
    space: Space

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return self.name


class Expr:
    """Base of expressions; they compare by identity."""

    dtype: np.dtype

    @property
    def args(self) -> tuple[Expr, ...]:
        """The expressions that it is made of."""
        return ()

    def variables(self) -> frozenset[Var]:
        """Every loop variable that its value depends on."""
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
    """An element of a buffer; 0, reading nothing, where `guard` is there and does not hold."""

    buffer: Buffer
    index: Index
    guard: Expr | None = None

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The buffer's."""
        return self.buffer.dtype

    @property
    def args(self) -> tuple[Expr, ...]:
        """The guard and what the index reads from memory."""
        found = list(dynamics(self.index))
        return (*found, self.guard) if self.guard is not None else tuple(found)

    @cached_property
    def _variables(self) -> frozenset[Var]:
        own = frozenset(self.index.variables())
        return own | self.guard.variables() if self.guard is not None else own

    def variables(self) -> frozenset[Var]:
        """Those of the index and the guard."""
        return self._variables

    def __str__(self) -> str:
        when = f" if {self.guard}" if self.guard is not None else ""
        return f"{self.buffer}[{self.index}{when}]"


@dataclass(frozen=True, eq=False)
class Apply(Expr):
    """A scalar function of expressions."""

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
        """Those of the operands."""
        return self._variables

    def __str__(self) -> str:
        return f"{self.function}({', '.join(map(str, self.operands))})"


@dataclass(frozen=True, eq=False)
class Coordinate(Expr):
    """An index as a number."""

    index: Index
    dtype: np.dtype

    @property
    def args(self) -> tuple[Expr, ...]:
        """What the index reads from memory."""
        return tuple(dynamics(self.index))

    def variables(self) -> frozenset[Var]:
        """Those of the index."""
        return frozenset(self.index.variables())

    def __str__(self) -> str:
        return str(self.index)


@dataclass(frozen=True, eq=False)
class Across(Expr):
    """The elements ``[0, count)`` of a register buffer combined.

    As a tree over `width` lanes (a power of two; missing lanes are the function's identity): halves are combined
    until one is left. The order is part of the meaning, so that results are the same bits everywhere.
    """

    function: str
    buffer: Buffer
    count: int
    width: int

    @property
    def dtype(self) -> np.dtype:  # type: ignore[override]
        """The buffer's."""
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
    """Parallel assignment: every value is computed before any is stored."""

    targets: tuple[StoreTarget, ...]


@dataclass(frozen=True, slots=True, eq=False)
class For:
    """A loop of ``var.extent`` iterations.

    ``unroll`` and ``vector`` loops have independent iterations; a ``vector`` loop holds only stores and its
    extent is at most the target's lanes.
    """

    var: Var
    body: tuple[Stmt, ...]
    kind: Literal["serial", "unroll", "vector"] = "serial"


@dataclass(frozen=True, slots=True, eq=False)
class When:
    """``then`` where ``low <= index < high``, else ``other``; the index is the same for all lanes."""

    index: Index
    low: int
    high: int
    then: tuple[Stmt, ...]
    other: tuple[Stmt, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Prefetch:
    """Ask for an element ahead of its use; nothing changes. The kernel reads or writes the buffer elsewhere.

    A hint: the element may lie beyond the buffer.
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
        Unique in its program.
    unit : Var
        The outermost loop. Units are independent; threads take contiguous ranges of them.
    body : tuple of Stmt
        What a unit does.
    values : tuple of str
        Names of the graph values that it computes.
    flops : int
        Floating-point operations of all units together.
    bytes : int
        Bytes read and written by all units together, each element counted once.
    parallel : bool
        False where the work is too small to share: one thread does all units.
    """

    name: str
    unit: Var
    body: tuple[Stmt, ...]
    values: tuple[str, ...] = ()
    flops: int = 0
    bytes: int = 0
    parallel: bool = True

    @property
    def reads(self) -> tuple[Buffer, ...]:
        """Buffers that it reads and that are not a thread's own, in order of first use."""
        return tuple(b for b in self._loaded if b.space not in PRIVATE)

    @property
    def writes(self) -> tuple[Buffer, ...]:
        """Buffers that it writes and that are not a thread's own, in order of first use."""
        return tuple(b for b in self._stored if b.space not in PRIVATE)

    @property
    def scratch(self) -> tuple[Buffer, ...]:
        """Buffers in the space "scratch", in the order in which they are first written."""
        return tuple(b for b in {**self._stored, **self._loaded} if b.space == "scratch")

    @cached_property
    def _loaded(self) -> dict[Buffer, None]:
        found: dict[Buffer, None] = {}
        for statement in walk(self.body):
            if isinstance(statement, Store):
                roots = [v for _, _, v in statement.targets]
                roots += [e for _, i, _ in statement.targets for e in dynamics(i)]
                found.update((e.buffer, None) for e in postorder(roots) if isinstance(e, Load))
        return found

    @cached_property
    def _stored(self) -> dict[Buffer, None]:
        stores = (s for s in walk(self.body) if isinstance(s, Store))
        return {buffer: None for store in stores for buffer, _, _ in store.targets}


def walk(body: tuple[Stmt, ...]) -> Iterator[Stmt]:
    """Every statement, outer before inner."""
    for statement in body:
        yield statement
        if isinstance(statement, For):
            yield from walk(statement.body)
        elif isinstance(statement, When):
            yield from walk(statement.then)
            yield from walk(statement.other)


def postorder(roots: list[Expr]) -> list[Expr]:
    """Every expression that the roots are made of, operands first, each once. Iterative."""
    order: list[Expr] = []
    seen: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(r, False) for r in reversed(roots)]
    while stack:
        expr, done = stack.pop()
        if done:
            order.append(expr)
        elif id(expr) not in seen:
            seen.add(id(expr))
            stack.append((expr, True))
            stack.extend((a, False) for a in reversed(expr.args) if id(a) not in seen)
    return order
