"""The kernel verifier: the rules of kernel IR that code generators rely on.

- Every variable is bound by exactly one enclosing loop.
- Every access is inside its buffer, according to the ranges of its variables. An enclosing `When` narrows the ranges;
  loads with a guard are exempt.
- Vector loops contain only stores, and every lane stores to a different location. Only a serial loop has an end that is
  computed at run time, from variables of the loops around it.
- A unit accesses no elements of a buffer but its own tile, if units partition the buffer into tiles.
- Registers have no addresses: they are indexed by constants and by variables of loops that are not serial.
- Functions have the right number of operands, of the same dtype and a supported kind; stored values have the buffer's
  dtype. Literals are never written.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import get_args

import numpy as np

from adjoint.errors import VerifyError
from adjoint.kernel.guards import guarded_index
from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import (
    Across,
    Apply,
    Buffer,
    Const,
    Coordinate,
    Expr,
    For,
    Kernel,
    Load,
    LoopKind,
    Prefetch,
    Stmt,
    Store,
    When,
    dynamics,
    postorder,
)
from adjoint.kernel.regions import Nested
from adjoint.kernel.scalars import SCALARS
from adjoint.lazy_dataclass import dataclass

__all__ = ["verify_kernel"]

_BOOL = np.dtype(np.bool_)
_COMBINE = ("add", "mul", "max", "min", "and", "or", "xor")


def verify_kernel(kernel: Kernel) -> None:
    """Check a kernel against the rules of kernel IR.

    Parameters
    ----------
    kernel : Kernel
        The kernel to check.

    Raises
    ------
    VerifyError
        For the first violation, with the kernel, the rule and what was found.
    """
    if isinstance(kernel, Nested):
        for part in kernel.parts:
            for inner in part.kernels:
                verify_kernel(inner)
        return
    if kernel.until is not None:
        before = _Scope(kernel.name, {}, kernel.unit, {})
        _expressions(list(dynamics(kernel.until)), before)
        _bound(kernel.until, before)
    if kernel.unit.extent:
        _body(kernel.body, _Scope(kernel.name, {kernel.unit: "serial"}, kernel.unit, dict(kernel.tiles)))


@dataclass(frozen=True, slots=True)
class _Scope:
    """The context of a statement: the enclosing loops, and the ranges implied by conditions."""

    kernel: str
    loops: dict[Var, str]
    unit: Var
    tiles: dict[Buffer, int]
    facts: tuple[tuple[Index, int, int], ...] = ()

    def refuse(self, message: str) -> VerifyError:
        return VerifyError(f"kernel {self.kernel}: {message}")

    def inside(self, statement: For) -> _Scope:
        loops = {**self.loops, statement.var: statement.kind}
        return _Scope(self.kernel, loops, self.unit, self.tiles, self.facts)

    def given(self, index: Index, low: int, high: int) -> _Scope:
        """The scope with the additional condition ``low <= index <= high``."""
        facts = [*self.facts, (index, low, high)]
        ((atom, step), *others) = index.terms or ((None, 0),)
        if isinstance(atom, Remainder) and step == 1 and not others and not index.constant:
            # Exclude the limits of the dividend if their remainders are out of range.
            before, behind = atom.of.low, atom.of.high
            before += atom.by - before % atom.by if before % atom.by > high else 0
            behind -= behind % atom.by + 1 if behind % atom.by < low else 0
            facts.append((atom.of, before + max(low - before % atom.by, 0), behind - max(behind % atom.by - high, 0)))
        return replace(self, facts=tuple(facts))

    def impossible(self) -> bool:
        """Whether an enclosing condition can never hold, so that the statement never runs."""
        return any(max(low, index.low) > min(high, index.high) for index, low, high in self.facts)


def _body(body: Sequence[Stmt], scope: _Scope) -> None:
    for statement in body:
        if isinstance(statement, Store):
            _store(statement, scope)
        elif isinstance(statement, For):
            _loop(statement, scope)
        elif isinstance(statement, Prefetch):
            # A prefetch is a hint, and may be outside the buffer.
            _expressions(list(dynamics(statement.index)), scope)
            _bound(statement.index, scope)
        else:
            _when(statement, scope)


def _loop(statement: For, scope: _Scope) -> None:
    var = statement.var
    if var in scope.loops:
        raise scope.refuse(f"a variable is bound by one loop, but {var} is bound again inside its own; use a new one")
    if statement.kind not in get_args(LoopKind):
        raise scope.refuse(f"a loop is serial, unroll, vector or interleave, got {statement.kind!r}")
    if statement.until is not None:
        if statement.kind != "serial":
            raise scope.refuse(f"only a serial loop ends at run time, but that over {var} is {statement.kind}")
        _expressions(list(dynamics(statement.until)), scope)
        _bound(statement.until, scope)
    if statement.kind == "vector" and not all(isinstance(s, Store) for s in statement.body):
        raise scope.refuse(f"a vector loop holds stores alone, but that over {var} holds loops or conditions")
    if statement.kind == "interleave" and not _holds_one_loop(statement):
        raise scope.refuse(
            f"an interleave loop holds one vector or interleave loop, but that over {var} holds something else"
        )
    if var.extent > 0:
        _body(statement.body, scope.inside(statement))


def _holds_one_loop(loop: For) -> bool:
    return len(loop.body) == 1 and isinstance(loop.body[0], For) and loop.body[0].kind in ("interleave", "vector")


def _when(statement: When, scope: _Scope) -> None:
    _expressions(list(dynamics(statement.index)), scope)
    _bound(statement.index, scope)
    index, low, high = statement.index, statement.low, statement.high
    branches = [(statement.then, scope.given(index, low, high - 1))]
    # If the index cannot be too small, it is too large in `other`, and vice versa.
    if index.low >= low:
        branches.append((statement.other, scope.given(index, high, index.high)))
    elif index.high < high:
        branches.append((statement.other, scope.given(index, index.low, low - 1)))
    else:
        branches.append((statement.other, scope))
    for body, inner in branches:
        if not inner.impossible():
            _body(body, inner)


def _store(statement: Store, scope: _Scope) -> None:
    places: set[tuple[Buffer, Index]] = set()
    roots = [value for _, _, value in statement.targets]
    _expressions(roots + [e for _, index, _ in statement.targets for e in dynamics(index)], scope)
    for buffer, index, value in statement.targets:
        if buffer.space == "literal":
            raise scope.refuse(f"a literal is never written, but {buffer} is stored to; copy it first")
        if value.dtype != buffer.dtype:
            raise scope.refuse(f"{buffer} holds {buffer.dtype} and is given {value.dtype}; cast the value")
        if (buffer, index) in places:
            raise scope.refuse(f"one statement stores each place once, but {buffer}[{index}] twice")
        places.add((buffer, index))
        _access(buffer, index, scope)
        for var, kind in scope.loops.items():
            if kind == "vector" and var.extent > 1 and var not in index.variables():
                raise scope.refuse(
                    f"lanes store to places of their own, but all of {var} store to {buffer}[{index}]; "
                    "store it outside the vector loop"
                )


def _expressions(roots: list[Expr], scope: _Scope) -> None:
    for expr in postorder(roots):
        if isinstance(expr, Apply):
            _apply(expr, scope)
        elif isinstance(expr, Load):
            if expr.guard is not None and expr.guard.dtype != _BOOL:
                raise scope.refuse(f"a guard is bool, got {expr.guard.dtype} for {expr.buffer}; compare it with 0")
            _access(expr.buffer, expr.index, scope, expr if expr.guard is not None else None)
        elif isinstance(expr, Coordinate):
            _bound(expr.index, scope)
        elif isinstance(expr, Across):
            _across(expr, scope)
        elif not isinstance(expr, Const):
            raise scope.refuse(f"kernel IR has no expression {type(expr).__name__}")


def _apply(expr: Apply, scope: _Scope) -> None:
    name, given = expr.function, [a.dtype for a in expr.operands]
    if name == "select":
        fits = len(given) == 3 and given[0] == _BOOL and given[1] == given[2] == expr.dtype
    elif name == "cast":
        fits = len(given) == 1
    elif name == "bitcast":
        fits = len(given) == 1 and given[0].itemsize == expr.dtype.itemsize
    elif name in SCALARS:
        function = SCALARS[name]
        fits = len(given) == function.arity and all(dtype == given[0] for dtype in given)
        fits = fits and given[0].kind in function.operands
        fits = fits and expr.dtype == (_BOOL if function.result == "bool" else given[0])
    else:
        raise scope.refuse(f"{name} is no scalar function; adjoint.kernel.scalars lists those there are")
    if not fits:
        raise scope.refuse(f"{_rule(name)}, got {name}({', '.join(map(str, given))}) to {expr.dtype}")


def _rule(name: str) -> str:
    """What a function takes, in words."""
    if name == "select":
        return "select takes a bool and two values of the result's dtype"
    if name == "cast":
        return "cast takes one value"
    if name == "bitcast":
        return "bitcast takes one value of the result's size"
    function = SCALARS[name]
    return f"{name} takes {function.arity} values of one dtype of kind {' or '.join(function.operands)}"


def _across(expr: Across, scope: _Scope) -> None:
    if expr.buffer.space != "register":
        raise scope.refuse(f"across combines registers, but {expr.buffer} is in space {expr.buffer.space}")
    if expr.width < 1 or expr.width & (expr.width - 1):
        raise scope.refuse(f"across has a power of two lanes, got {expr.width} for {expr.buffer}")
    if not 0 <= expr.count <= min(expr.width, expr.buffer.size):
        raise scope.refuse(
            f"across combines elements that are there, got {expr.count} of {expr.buffer} "
            f"with {expr.buffer.size} in {expr.width} lanes"
        )
    if expr.function not in _COMBINE:
        raise scope.refuse(f"across combines by {', '.join(_COMBINE)}, got {expr.function}")


def _access(buffer: Buffer, index: Index, scope: _Scope, guarded: Load | None = None) -> None:
    _bound(index, scope)
    _tile(buffer, index if guarded is None else guarded_index(guarded), scope)
    if buffer.space == "register":
        _register(buffer, index, scope)
    if guarded is not None:
        return
    low, high = _range(index, scope.facts)
    if low < 0 or high >= buffer.size:
        low, high = _range(index, scope.facts, thorough=True)
    if low < 0 or high >= buffer.size:
        raise scope.refuse(
            f"an access is inside its buffer, but {buffer}[{index}] of {buffer.size} elements reaches "
            f"from {low} to {high}; guard it"
        )


def _tile(buffer: Buffer, index: Index, scope: _Scope) -> None:
    """Check that an access is in the tile of its unit, if units partition the buffer."""
    size = scope.tiles.get(buffer)
    if size is None:
        return
    low, high = _range(index - as_index(scope.unit) * size, scope.facts)
    if low < 0 or high >= size:
        raise scope.refuse(
            f"a unit accesses its own tile, but {buffer}[{index}] reaches from {low} to {high} in a tile of {size}; "
            "leave the buffer out of the tiles"
        )


def _register(buffer: Buffer, index: Index, scope: _Scope) -> None:
    loose = [str(v) for v in index.variables() if scope.loops.get(v) in (None, "serial")]
    if loose or any(True for _ in dynamics(index)):
        raise scope.refuse(
            f"registers are indexed by constants and variables of unroll, vector and interleave loops, "
            f"got {buffer}[{index}]; unroll the loop"
        )


def _bound(index: Index, scope: _Scope) -> None:
    """Check that every variable of the index belongs to an enclosing loop."""
    for atom, _ in index.terms:
        if isinstance(atom, Var) and atom not in scope.loops:
            raise scope.refuse(f"a variable is bound by a loop around its use, but {atom} in {index} is not")
        if isinstance(atom, Quotient | Remainder):
            _bound(atom.of, scope)
        if isinstance(atom, Dynamic) and atom.expr.dtype.kind not in "iu":
            raise scope.refuse(f"a coordinate is an integer, got {atom.expr.dtype} in {index}; cast it")


def _range(index: Index, facts: Sequence[tuple[Index, int, int]], thorough: bool = False) -> tuple[int, int]:
    """Bounds of an index, from the ranges of its atoms and from conditions on parts of it.

    If ``low <= part <= high`` is known and ``index == c * part + rest``, then the index is also within c times that
    range plus the range of the rest. Each condition is used once, so the recursion terminates. With `thorough`, the
    variants of `_respelled` are also used to bound rests.
    """
    low = high = index.constant
    for atom, c in index.terms:
        ends = tuple(c * end for end in _atom_range(atom, facts, thorough))
        low, high = low + min(ends), high + max(ends)
    for i, (part, part_low, part_high) in enumerate(facts):
        part_low, part_high = max(part_low, part.low), min(part_high, part.high)
        known = dict(part.terms)
        for factor in {c // known[atom] for atom, c in index.terms if atom in known and c % known[atom] == 0}:
            ends = (factor * part_low, factor * part_high)
            rest = index - part * factor
            for spelling in (rest, *(_respelled(rest) if thorough else ())):
                rest_low, rest_high = _range(spelling, (*facts[:i], *facts[i + 1 :]), thorough)
                low, high = max(low, rest_low + min(ends)), min(high, rest_high + max(ends))
    return low, high


def _respelled(index: Index) -> Iterator[Index]:
    """The index with ``x - x % n`` rewritten as ``x // n * n``, for each remainder whose `x` disappears.

    A condition on ``x % n`` leaves such terms in an index that contains `x`.
    """
    for atom, c in index.terms:
        if isinstance(atom, Remainder):
            whole = index + (atom.of - as_index(atom)) * c
            if not dict(whole.terms).keys() & dict(atom.of.terms).keys():
                yield whole - (atom.of // atom.by) * (c * atom.by)


def _atom_range(atom: Atom, facts: Sequence[tuple[Index, int, int]], thorough: bool) -> tuple[int, int]:
    """Bounds of an atom; those of a quotient or remainder follow from the bounds of the dividend."""
    if not isinstance(atom, Quotient | Remainder):
        return atom.low, atom.high
    low, high = _range(atom.of, facts, thorough)
    if isinstance(atom, Quotient):
        return low // atom.by, high // atom.by
    return (low, high) if low >= 0 and high < atom.by else (0, atom.by - 1)
