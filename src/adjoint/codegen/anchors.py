"""Anchors: the part of an address that a nest of loops does not change, computed before it and opaque to LLVM.

A register tile reads dozens of elements in each step of nested loops. LLVM's loop strength reduction compares ways to
compute all of these addresses in all of the loops; with many it cuts the search short, and may then keep a pointer for
each element, in memory, that every loop increments. It does not look behind `freeze`. So the loops see one pointer for
each operand, and elements at constant distances from it::

                                                      x0 = freeze(&x[u*219])
    for k1 in 0..5:                                   for k1 in 0..5:
      for k2 in 0..5:                          ->       for k2 in 0..5:
        for i in 0..23 unroll:                            for i in 0..23 unroll:
          .. x[u*219 + k1*73 + k2 + i] ..                   .. x0[k1*73 + k2 + i] ..

The nest is the outermost loop that stores to registers alone, with the loops inside it. Loops that store to memory have
no anchors: LLVM would no longer know that stores leave what such a pointer reads alone. A loop of one iteration inside
the nest gets anchors of its own: straight-line code that reads an element several times would keep it in a register,
and with as many sums as there are registers, on the stack. The name is that of GCC's
section anchors, from which it addresses objects that lie close to each other.
"""

from collections.abc import Iterator
from dataclasses import field

from adjoint.kernel.index import Atom, Dynamic, Index, Var
from adjoint.kernel.ir import Buffer, For, Load, Store, postorder, walk
from adjoint.lazy_dataclass import dataclass

__all__ = ["Anchors", "Terms", "reads_only"]

#: Some terms of an index.
Terms = frozenset[tuple[Atom, int]]


@dataclass(frozen=True, slots=True)
class Anchors:
    """The anchors of a nest of loops.

    Parameters
    ----------
    inside : frozenset of Var
        The variables of the loop and of those inside it.
    pointers : dict
        The name of each anchor, by buffer and by the terms of indices that it covers.
    """

    inside: frozenset[Var] = frozenset()
    pointers: dict[tuple[Buffer, Terms], str] = field(default_factory=dict)
    _fixed: dict[Terms, Terms] = field(default_factory=dict)

    @classmethod
    def inside_of(cls, loop: For) -> "Anchors":
        """No anchors yet, for a loop."""
        return cls(frozenset((loop.var, *(s.var for s in walk(loop.body) if isinstance(s, For)))))

    def fixed(self, index: Index) -> Terms:
        """The terms of an index that do not change in the loop."""
        found = self._fixed.get(index.terms)
        if found is None:
            found = frozenset(term for term in index.terms if self._is_fixed(term[0]))
            self._fixed[index.terms] = found
        return found

    def _is_fixed(self, atom: Atom) -> bool:
        if isinstance(atom, Var):
            return atom not in self.inside
        return not isinstance(atom, Dynamic) and all(self._is_fixed(inner) for inner, _ in atom.of.terms)

    def wanted(self, loop: For) -> Iterator[tuple[Buffer, Terms]]:
        """What to anchor: buffers and terms of the loads in a loop that `reads_only`."""
        stored = [value for s in walk(loop.body) if isinstance(s, Store) for _, _, value in s.targets]
        loads = [e for e in postorder(stored) if isinstance(e, Load) and e.buffer.space != "register"]
        found = dict.fromkeys((e.buffer, self.fixed(e.index)) for e in loads)
        return ((buffer, terms) for buffer, terms in found if terms)


def reads_only(loop: For) -> bool:
    """Whether a loop stores to registers alone."""
    stores = (s for s in walk(loop.body) if isinstance(s, Store))
    return all(buffer.space == "register" for store in stores for buffer, _, _ in store.targets)
