"""Which row of a batch an access belongs to, in kernels that run on fewer rows than they are written for."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import field, replace
from functools import cached_property
from math import gcd

import numpy as np

from adjoint.ir import Value
from adjoint.kernel.index import Atom, Dynamic, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, Load
from adjoint.lazy_dataclass import dataclass

__all__ = ["Batch", "Facts", "GraphBatch", "RowLayout", "least", "lowest"]

#: Ranges of atoms, or of sums of several, both ends included, that follow from the conditions around a statement.
Facts = Mapping[Atom | Index, tuple[int, int]]

_I64 = np.dtype(np.int64)


@dataclass(frozen=True, slots=True)
class RowLayout:
    """Where the rows of a batch are in a flat buffer.

    Element `i` belongs to row ``(i + shift) // inner % count * step + first``.

    Parameters
    ----------
    inner : int
        Number of consecutive elements of a row, or of a group of rows; then follow those of the next one.
    count : int, default 0
        Number of rows or groups after which the first follows again, because the axis is not the outermost; 0 if none
        follows.
    step : int, default 1
        Number of rows of a group. The elements count as its first row's.
    first : Index, default 0
        The row of the first element, in a buffer that is private to a thread and holds the rows of a unit.
    shift : Index, default 0
        Number of elements of the first row that are missing, in a panel that begins inside a row.
    """

    inner: int
    count: int = 0
    step: int = 1
    first: Index = field(default_factory=lambda: as_index(0))
    shift: Index = field(default_factory=lambda: as_index(0))

    def row(self, index: Index, facts: Facts) -> Index:
        """The row that an element belongs to, under conditions."""
        group = _quotient(index + self.shift, self.inner, facts)
        return (group % self.count if self.count else group) * self.step + self.first


@dataclass(frozen=True, slots=True)
class GraphBatch:
    """The rows of a graph that takes batches of fewer rows.

    Parameters
    ----------
    rows : Value
        The i32 parameter that holds the number of rows that are present.
    most : int
        The number of rows that the graph is written for.
    layouts : mapping of Value to RowLayout
        The values that hold something for each row, and where.
    """

    rows: Value
    most: int
    layouts: Mapping[Value, RowLayout]

    def of(self, buffers: Mapping[Value, Buffer]) -> "Batch":
        """The rows of the program whose buffers hold the values."""
        return Batch(
            buffers[self.rows], self.most, {buffers[v]: layout for v, layout in self.layouts.items() if v in buffers}
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """The rows of a program that takes batches of fewer rows.

    Parameters
    ----------
    rows : Buffer
        The i32 scalar that holds the number of rows that are present. These come first.
    most : int
        The number of rows that the program is written for.
    layouts : mapping of Buffer to RowLayout
        The buffers that hold something for each row.
    granule : int, default 1
        Rows are left out in whole groups of that many, a divisor of `most`: those of which none is present. The others
        are computed.
    """

    rows: Buffer
    most: int
    layouts: Mapping[Buffer, RowLayout]
    granule: int = 1
    #: The results of `row`, which is asked for the same place in every loop around it.
    _found: dict[Hashable, Index | None] = field(default_factory=dict, init=False)

    @cached_property
    def computed(self) -> Index:
        """The number of rows that are computed, as an index: those that are present, and the rest of their granule."""
        wide = Apply("cast", (Load(self.rows, as_index(0)),), _I64)
        clamped = Apply("min", (Apply("max", (wide, Const(0, _I64)), _I64), Const(self.most, _I64)), _I64)
        present = as_index(Dynamic(clamped, self.most + 1))
        return (present + (self.granule - 1)) // self.granule * self.granule

    def in_granules(self, rows: int) -> "Batch":
        """The same batch, of which rows are left out in groups of as many."""
        made = replace(self, granule=rows)
        made._found.update(self._found)
        return made

    def row(self, buffer: Buffer, index: Index, facts: Facts, guarded: bool = False) -> Index | None:
        """The row that an element of a buffer belongs to, under conditions; None if it cannot be told.

        A guard keeps an access in its row: where a window leaves the row, nothing is read. So of the position of a
        guarded load, only the terms that move it by whole rows count.
        """
        key = buffer, index, id(facts), guarded
        if key not in self._found:
            self._found[key] = self._row(self.layouts[buffer], index, facts, guarded)
        return self._found[key]

    def _row(self, layout: RowLayout, index: Index, facts: Facts, guarded: bool) -> Index | None:
        if guarded and not layout.count:
            if layout.shift != as_index(0):
                return None
            whole = Index(0, frozenset((a, c // layout.inner) for a, c in index.terms if c % layout.inner == 0))
            return whole * layout.step + layout.first if abs(index.constant) < layout.inner else None
        return layout.row(index, facts)

    def guard(self, row: Index) -> Expr:
        """Whether a row is computed."""
        return Apply("lt", (Coordinate(row, _I64), Coordinate(self.computed, _I64)), np.dtype(np.bool_))


def _quotient(index: Index, by: int, facts: Facts) -> Index:
    """``index // by`` without the terms that never matter: what is less than a common factor of the others and of `by`.

    So the row of ``u*1536 + i*128 + k*10 + l`` in rows of 8192 elements does not depend on `k`, if ``k*10 + l < 128``.
    """
    terms = sorted(index.terms, key=lambda term: -abs(term[1]))
    factor = by
    for number in range(len(terms) + 1):
        rest = Index(index.constant % factor, frozenset(terms[number:]))
        if factor == 1:
            break
        if _within(rest, factor, facts):
            many = Index(index.constant // factor, frozenset((atom, c // factor) for atom, c in terms[:number]))
            return many // (by // factor)
        if number < len(terms):
            factor = gcd(factor, terms[number][1])
    return index // by


def _within(index: Index, size: int, facts: Facts) -> bool:
    """Whether an index is in ``[0, size)``, given ranges of its atoms or of sums of them."""
    low = high = index.constant
    for known, range_ in facts.items():
        if isinstance(known, Index) and (times := _times(index, known)):
            index -= known * times
            ends = [times * end for end in range_]
            low, high = low + min(ends), high + max(ends)
    for atom, c in index.terms:
        ends = [c * end for end in facts.get(atom, (atom.low, atom.high))]
        low, high = low + min(ends), high + max(ends)
    return low >= 0 and high < size


def _times(index: Index, known: Index) -> int:
    """How many times an index contains all terms of another; 0 if it does not."""
    terms = dict(index.terms)
    times = {divmod(terms.get(atom, 0), c) for atom, c in known.terms}
    whole, rest = times.pop()
    return whole if not times and not rest else 0


def lowest(index: Index, kept: frozenset[Var]) -> Index:
    """The smallest value of an index over all variables but those `kept`: a lower bound that depends on these only."""
    low = as_index(index.constant)
    for atom, c in index.terms:
        if isinstance(atom, Var) and atom in kept:
            low += as_index(atom) * c
        elif isinstance(atom, Quotient) and c > 0:
            low += lowest(atom.of, kept) // atom.by * c
        elif isinstance(atom, Remainder) and atom.of.variables() <= kept:
            low += atom.of % atom.by * c
        else:
            low += c * (atom.low if c > 0 else atom.high)
    return low


def least(rows: Iterable[Index]) -> Index | None:
    """The one of several rows that is never after another; None if there is none."""
    found = list(dict.fromkeys(rows))
    return next((row for row in found if all((other - row).low >= 0 for other in found)), None)
