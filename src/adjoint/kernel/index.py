"""Integer expressions over loop variables: the positions in flat buffers at which a kernel reads and writes.

An `Index` has the canonical form ``constant + sum(coefficient * atom)``, where an atom is a loop variable, a quotient
or remainder that could not be simplified, or a number read from memory. The range of every atom is known, so ``(i*12 +
j) // 12`` with ``0 <= j < 12`` *is* ``i``: reshapes disappear during construction, without a separate pass.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, Any

from adjoint.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from adjoint.kernel.ir import Expr

__all__ = [
    "Atom",
    "Dynamic",
    "Index",
    "Quotient",
    "Remainder",
    "Var",
    "as_index",
    "flatten",
    "is_injective",
    "unflatten",
    "uses",
]


@dataclass(frozen=True, slots=True, eq=False)
class Var:
    """A loop variable, ``0 <= var < extent``. Variables compare by identity."""

    name: str
    extent: int

    @property
    def low(self) -> int:
        """Smallest value."""
        return 0

    @property
    def high(self) -> int:
        """Largest value."""
        return max(self.extent - 1, 0)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Quotient:
    """``of // by``, rounded down."""

    of: Index
    by: int

    @property
    def low(self) -> int:
        """Smallest value."""
        return self.of.low // self.by

    @property
    def high(self) -> int:
        """Largest value."""
        return self.of.high // self.by

    def __str__(self) -> str:
        return f"{_operand(self.of)} // {self.by}"


@dataclass(frozen=True, slots=True)
class Remainder:
    """``of % by``, never negative."""

    of: Index
    by: int

    @property
    def low(self) -> int:
        """Smallest value."""
        return 0

    @property
    def high(self) -> int:
        """Largest value."""
        return self.by - 1

    def __str__(self) -> str:
        return f"{_operand(self.of)} % {self.by}"


@dataclass(frozen=True, slots=True, eq=False)
class Dynamic:
    """An integer element read at run time, guaranteed to be in ``[0, size)``."""

    expr: Expr
    size: int

    @property
    def low(self) -> int:
        """Smallest value."""
        return 0

    @property
    def high(self) -> int:
        """Largest value."""
        return max(self.size - 1, 0)

    def __str__(self) -> str:
        return f"[{self.expr}]"


Atom = Var | Quotient | Remainder | Dynamic


@dataclass(frozen=True, init=False)
class Index:
    """``constant + sum(coefficient * atom)``.

    Supports ``+``, ``-`` with indices and integers, ``*``, ``//`` and ``%`` with integers.
    """

    constant: int
    terms: frozenset[tuple[Atom, int]]

    def __init__(self, constant: int, terms: frozenset[tuple[Atom, int]]) -> None:
        # The constructor that a frozen class gets is several times slower, and a large step has a million indices.
        made = self.__dict__
        made["constant"] = constant
        made["terms"] = terms

    @cached_property
    def low(self) -> int:
        """Smallest value over the ranges of the atoms (treated as independent)."""
        return self.constant + sum(c * (a.low if c > 0 else a.high) for a, c in self.terms)

    @cached_property
    def high(self) -> int:
        """Largest value over the ranges of the atoms (treated as independent)."""
        return self.constant + sum(c * (a.high if c > 0 else a.low) for a, c in self.terms)

    def coefficient(self, var: Var) -> int | None:
        """The change of the index when `var` increases by one; None if that is not constant."""
        found = 0
        for atom, c in self.terms:
            if atom is var:
                found = c
            elif uses(atom, var):
                return None
        return found

    def without(self, var: Var) -> Index:
        """The index at ``var = 0``; it must be affine in `var`."""
        return Index(self.constant, frozenset((a, c) for a, c in self.terms if a is not var))

    def variables(self) -> set[Var]:
        """All loop variables that it depends on, including those in quotients, remainders and memory reads."""
        found: set[Var] = set()
        for atom, _ in self.terms:
            found |= _variables(atom)
        return found

    @cached_property
    def ordered(self) -> tuple[tuple[Atom, int], ...]:
        """The terms, those with the largest coefficients first, and equal ones by their text."""
        if len(self.terms) < 2:
            return tuple(self.terms)
        return tuple(sorted(self.terms, key=lambda term: (-abs(term[1]), str(term[0]))))

    def dynamic(self) -> Iterator[Dynamic]:
        """The elements read at run time that occur in it, but not those that they depend on in turn."""
        for atom, _ in self.terms:
            if isinstance(atom, Dynamic):
                yield atom
            elif isinstance(atom, Quotient | Remainder):
                yield from atom.of.dynamic()

    def substitute(self, values: Mapping[Var, Index] | Mapping[Dynamic, Index]) -> Index:
        """The index with variables, or elements read at run time, replaced.

        Variables within such elements stay; `adjoint.kernel.rewrite.rewritten` replaces them.
        """
        at: Mapping[Any, Index] = values
        out = as_index(self.constant)
        for atom, c in self.terms:
            if isinstance(atom, Quotient):
                out += (atom.of.substitute(values) // atom.by) * c
            elif isinstance(atom, Remainder):
                out += (atom.of.substitute(values) % atom.by) * c
            else:
                out += at.get(atom, as_index(atom)) * c
        return out

    def __add__(self, other: Index | int) -> Index:
        if isinstance(other, int):
            return Index(self.constant + other, self.terms) if other else self
        if not other.terms:
            return self + other.constant
        if not self.terms:
            return other + self.constant
        total = dict(self.terms)
        for atom, c in other.terms:
            total[atom] = total.get(atom, 0) + c
        return _make(self.constant + other.constant, total)

    __radd__ = __add__

    def __mul__(self, by: int) -> Index:
        if by == 1:
            return self
        if by == 0:
            return as_index(0)
        return Index(self.constant * by, frozenset((a, c * by) for a, c in self.terms))

    __rmul__ = __mul__

    def __neg__(self) -> Index:
        return self * -1

    def __sub__(self, other: Index | int) -> Index:
        return self + (-other)

    def __rsub__(self, other: int) -> Index:
        return -self + other

    def __floordiv__(self, by: int) -> Index:
        if by == 1:
            return self
        whole, rest = self._split(by)
        if rest.low >= 0 and rest.high < by:
            return whole
        if rest.constant == 0 and len(rest.terms) == 1:
            ((atom, c),) = rest.terms
            if c == 1 and isinstance(atom, Quotient):
                return whole + atom.of // (atom.by * by)
        common, many, _ = rest._cancel(by)
        if common > 1:
            return whole + many // (by // common)
        return whole + _single(Quotient(rest, by))

    def __mod__(self, by: int) -> Index:
        _, rest = self._split(by)
        if rest.low >= 0 and rest.high < by:
            return rest
        common, many, few = rest._cancel(by)
        if common > 1:
            return many % (by // common) * common + few
        return _single(Remainder(rest, by))

    def _cancel(self, by: int) -> tuple[int, Index, Index]:
        """A common factor of the divisor and most terms that cancels, given the range of the other terms, or 1.

        Returns ``(f, q, r)`` with ``self == q * f + r`` and ``0 <= r < f``.
        """
        common = by
        for _, c in self.terms:
            common = gcd(common, c) if gcd(common, c) > 1 else common
        if 1 < common < by:
            many, few = self._split(common)
            if few.low >= 0 and few.high < common:
                return common, many, few
        return 1, self, as_index(0)

    def _split(self, by: int) -> tuple[Index, Index]:
        """``(q, r)`` with ``self == q * by + r``, term by term."""
        whole = Index(self.constant // by, frozenset((a, c // by) for a, c in self.terms if c % by == 0))
        return whole, Index(self.constant % by, frozenset((a, c) for a, c in self.terms if c % by))

    def __str__(self) -> str:
        def term(atom: Atom, c: int) -> str:
            text = str(atom) if isinstance(atom, Var | Dynamic) or abs(c) == 1 else f"({atom})"
            return text if c == 1 else f"{text}*{c}"

        parts = [term(a, c) for a, c in self.ordered]
        if self.constant or not parts:
            parts.append(str(self.constant))
        return " + ".join(parts)


def _operand(index: Index) -> str:
    text = str(index)
    return f"({text})" if " " in text else text


def _single(atom: Atom) -> Index:
    return Index(0, frozenset(((atom, 1),)))


def as_index(value: int | Atom | Index) -> Index:
    """Convert an integer or an atom to an index."""
    if isinstance(value, Index):
        return value
    if isinstance(value, int):
        return Index(value, frozenset())
    return _single(value) if value.high > 0 else Index(0, frozenset())


def _make(constant: int, total: dict[Atom, int]) -> Index:
    """Drop zero terms and simplify ``(x // c) * c + x % c`` to ``x``."""
    for atom, c in list(total.items()):
        if isinstance(atom, Remainder) and c:
            quotient = atom.of // atom.by
            if quotient.constant or len(quotient.terms) != 1:
                continue
            ((partner, one),) = quotient.terms
            if one == 1 and total.get(partner) == c * atom.by:
                del total[partner], total[atom]
                return _make(constant, total) + atom.of * c
    return Index(constant, frozenset((a, c) for a, c in total.items() if c))


def _variables(atom: Atom) -> set[Var]:
    if isinstance(atom, Var):
        return {atom}
    if isinstance(atom, Dynamic):
        return set(atom.expr.variables())
    return atom.of.variables()


def uses(atom: Atom, var: Var) -> bool:
    """Whether the atom depends on the variable."""
    return var in _variables(atom)


def flatten(index: Iterable[Index], shape: Iterable[int]) -> Index:
    """Row-major position of a multidimensional index in a tensor of that shape."""
    flat = as_index(0)
    for i, size in zip(index, shape, strict=True):
        flat = flat * size + i
    return flat


def unflatten(flat: Index, shape: Sequence[int]) -> tuple[Index, ...]:
    """The multidimensional index whose row-major position is `flat`."""
    if 0 in shape:  # an empty tensor: no position exists, and the code for it never runs
        return (as_index(0),) * len(shape)
    out: list[Index] = []
    outermost = next((axis for axis, extent in enumerate(shape) if extent != 1), 0)
    for axis in range(len(shape) - 1, -1, -1):
        # The outermost axis needs no remainder, because flat is within the tensor.
        inside = flat % shape[axis] if axis > outermost else flat
        out.append(inside if shape[axis] != 1 else as_index(0))
        flat = flat // shape[axis]
    return tuple(reversed(out))


def is_injective(index: Index, variables: Collection[Var]) -> bool:
    """Whether an index is another one for any other values of those of some variables that it depends on.

    It is known only of sums of multiples: each stride must exceed what all smaller ones reach.
    """
    moving = [(abs(c), atom) for atom, c in index.terms if any(uses(atom, v) for v in variables)]
    reach = 0
    for stride, atom in sorted(moving, key=lambda found: found[0]):
        if stride <= reach or not isinstance(atom, Var):
            return False
        reach += stride * (atom.extent - 1)
    return True
