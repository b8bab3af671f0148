"""Strength reduction of addresses: pointers that the loops around a register tile advance.

A register tile reads dozens of elements in each step of nested loops. They are at constant distances from one pointer
for each operand, which each loop advances by a constant::

    for k1 in 0..5:                                x1 = &x[u*219]
      for k2 in 0..5:                              for k1 in 0..5:
        for i in 0..23 unroll:              ->       x2 = x1
          .. x[u*219 + k1*73 + k2 + i] ..            for k2 in 0..5:
                                                       for i in 0..23 unroll:
                                                         .. x2[i] ..
                                                       x2 += 1
                                                     x1 += 73

The nest is the outermost loop that stores to registers alone, with the loops inside it. Loops that store to memory read
and write several arrays at equal distances from their starts: for them, one distance is computed from the counter, and
added to pointers that do not change in the loop (`values.ValueEmitter.address`). A loop of one iteration inside the
nest gets pointers of its own: straight-line code that reads an element several times would keep it in a register,
and with as many sums as there are registers, on the stack.

LLVM has a pass of this name. It compares ways to compute all addresses in all loops of a kernel, which took a fifth of
the time of generating code; with many it cuts the search short, and may then keep a pointer for each element, in
memory, that every loop increments. So increments are opaque to it (`Writer.opaque`), and it does nothing.
"""

from collections.abc import Iterator
from dataclasses import field

from adjoint.kernel.index import Atom, Dynamic, Index, Var
from adjoint.kernel.ir import Buffer, For, Load, Store, postorder, walk
from adjoint.lazy_dataclass import dataclass

__all__ = ["Nest", "Terms", "reads_only"]

#: Some terms of an index.
Terms = frozenset[tuple[Atom, int]]


@dataclass(frozen=True, slots=True)
class Nest:
    """What is known of addresses at a place in a nest of loops.

    Parameters
    ----------
    inside : frozenset of Var
        The variables of the loops further inside the nest; none outside of nests.
    pointers : dict
        The name of each pointer, by buffer and by the terms of indices that it covers.
    """

    inside: frozenset[Var] = frozenset()
    pointers: dict[tuple[Buffer, Terms], str] = field(default_factory=dict)
    _fixed: dict[Terms, Terms] = field(default_factory=dict)

    @classmethod
    def around(cls, loop: For) -> "Nest":
        """The place before the outermost loop of a nest."""
        return cls(frozenset((loop.var, *(s.var for s in walk(loop.body) if isinstance(s, For)))))

    def body(self, loop: For) -> "Nest":
        """The place inside a loop, with no further pointers yet."""
        return Nest(self.inside - {loop.var}, dict(self.pointers))

    def fixed(self, index: Index) -> Terms:
        """The terms of an index that do not change in the loops further inside."""
        found = self._fixed.get(index.terms)
        if found is None:
            found = frozenset(term for term in index.terms if self._is_fixed(term[0]))
            self._fixed[index.terms] = found
        return found

    def _is_fixed(self, atom: Atom) -> bool:
        if isinstance(atom, Var):
            return atom not in self.inside
        return not isinstance(atom, Dynamic) and all(self._is_fixed(inner) for inner, _ in atom.of.terms)

    def read(self, loop: For) -> Iterator[tuple[Buffer, Terms]]:
        """Buffers that a loop reads, each with the terms of an index that do not change further inside."""
        stored = [value for s in walk(loop.body) if isinstance(s, Store) for _, _, value in s.targets]
        loads = [e for e in postorder(stored) if isinstance(e, Load) and e.buffer.space != "register"]
        found = dict.fromkeys((e.buffer, self.fixed(e.index)) for e in loads)
        return ((buffer, terms) for buffer, terms in found if terms)

    def advanced(self, loop: For) -> Iterator[tuple[Buffer, Terms, int]]:
        """Of what a loop reads, that which each iteration advances by a constant, and this constant."""
        for buffer, terms in self.body(loop).read(loop):
            changing = terms - self.fixed(Index(0, terms))
            strides = [stride for atom, stride in changing if atom is loop.var]
            if strides and len(changing) == 1:
                yield buffer, terms, strides[0]


def reads_only(loop: For) -> bool:
    """Whether a loop stores to registers alone."""
    stores = (s for s in walk(loop.body) if isinstance(s, Store))
    return all(buffer.space == "register" for store in stores for buffer, _, _ in store.targets)
