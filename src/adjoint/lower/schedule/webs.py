"""Tell apart what a scratch buffer holds at different times: its webs, as register allocation calls them.

A panel is often packed anew for each block of k, in several places: for the first block, in a loop, and for the last
one. With a name for each, one can say of every panel which rows it holds.

Before::

    kernel y: computes %y
      2 units, on one thread; 0 flops, 0 bytes
      reads x f32[32]; writes y f32[2]; scratch panel f32[4]
      for u in 0..2 units:
        for l in 0..4 vector:
          panel[l] = x[u*16 + l]
        y[u] = panel[0]
        for b in 0..3:
          for l in 0..4 vector:
            panel[l] = x[u*16 + b*4 + l + 4]
          y[u] = add(y[u], panel[0])

After::

    kernel y: computes %y
      2 units, on one thread; 0 flops, 0 bytes
      reads x f32[32]; writes y f32[2]; scratch panel.0 f32[4], panel.1 f32[4]
      for u in 0..2 units:
        for l in 0..4 vector:
          panel.0[l] = x[u*16 + l]
        y[u] = panel.0[0]
        for b in 0..3:
          for l in 0..4 vector:
            panel.1[l] = x[u*16 + b*4 + l + 4]
          y[u] = add(y[u], panel.1[0])
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from typing import NamedTuple

from adjoint.kernel.index import Index
from adjoint.kernel.ir import Buffer, For, Kernel, Load, Prefetch, Stmt, Store, When, postorder, roots_of, walk
from adjoint.kernel.rewrite import rewritten
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.schedule.row_layouts import Places

__all__ = ["joined_webs", "separate_webs"]


def separate_webs(kernel: Kernel, stores: Places, buffers: Iterable[Buffer]) -> tuple[Kernel, dict[Buffer, Buffer]]:
    """The kernel with a buffer for each web of some buffers that have several; and for each of them, that buffer.

    Parameters
    ----------
    kernel : Kernel
        The kernel.
    stores : mapping of Store to Place
        Its stores.
    buffers : iterable of Buffer
        Some of its scratch buffers.
    """
    webs: dict[Stmt, dict[Buffer, Buffer]] = {}
    names: dict[Buffer, Buffer] = {}
    for buffer in buffers:
        found = _Webs(buffer, stores).found(kernel.body)
        made = [replace(buffer, name=f"{buffer.name}.{number}") for number in range(len(set(found.values())))]
        names |= dict.fromkeys(made, buffer)
        for statement, number in found.items():
            webs.setdefault(statement, {})[buffer] = made[number]
    return (replace(kernel, body=_renamed(kernel.body, webs)), names) if names else (kernel, names)


def joined_webs(kernel: Kernel, names: Mapping[Buffer, Buffer]) -> Kernel:
    """The kernel with the buffers that it had before `separate_webs`."""

    def move(buffer: Buffer, at: Index) -> tuple[Buffer, Index]:
        return names.get(buffer, buffer), at

    return replace(kernel, body=rewritten(kernel.body, move=move))


def _renamed(body: Sequence[Stmt], webs: Mapping[Stmt, Mapping[Buffer, Buffer]]) -> tuple[Stmt, ...]:
    """The statements with other buffers in those that belong to webs."""

    def statement(of: Stmt) -> Stmt:
        if isinstance(of, For):
            return For(of.var, tuple(map(statement, of.body)), of.kind, of.until)
        if isinstance(of, When):
            return When(of.index, of.low, of.high, tuple(map(statement, of.then)), tuple(map(statement, of.other)))
        if of not in webs:
            return of
        own = webs[of]
        (made,) = rewritten((of,), move=lambda buffer, index: (own.get(buffer, buffer), index))
        return made

    return tuple(map(statement, body))


class _State(NamedTuple):
    """What a buffer may hold: what the fills of these numbers stored, and whether that was read since."""

    fills: frozenset[int] = frozenset()
    read: bool = False

    def or_else(self, other: "_State") -> "_State":
        return _State(self.fills | other.fills, self.read or other.read)


@dataclass
class _Webs:
    """Finds the webs of a scratch buffer: fills of it that reach the same reads are one.

    A statement that stores to the buffer on every path, and does not read it, is a fill. After a read, it replaces all
    that the buffer held; that it stores all that is read next is checked by the range of the places.
    """

    buffer: Buffer
    stores: Places
    #: For each fill, another one of its web; itself for one of them.
    same: list[int] = field(default_factory=list)
    #: The fill that each store that mentions the buffer belongs to.
    of: dict[Stmt, int] = field(default_factory=dict)
    #: Whether each statement stores to the buffer, and whether it reads it.
    accesses: dict[Stmt, tuple[bool, bool]] = field(default_factory=dict)

    def found(self, body: Sequence[Stmt]) -> dict[Stmt, int]:
        """The number of the web of each store that mentions the buffer, counted from 0; none if there is one web."""
        self._visit(body, _State())
        members: dict[int, list[Stmt]] = {}
        for statement, fill in self.of.items():
            members.setdefault(self._web(fill), []).append(statement)
        if len(members) < 2 or not all(map(self._fills_what_is_read, members.values())) or self._steers(body):
            return {}
        return {statement: number for number, web in enumerate(members.values()) for statement in web}

    def _visit(self, body: Sequence[Stmt], state: _State) -> _State:
        for statement in body:
            stores, reads = self._access(statement)
            if self._is_fill(statement):
                state = _State(frozenset((self._join(statement, frozenset() if state.read else state.fills),)))
            elif isinstance(statement, For) and (stores or reads):
                after = state.or_else(self._visit(statement.body, state))
                if set(map(self._web, after.fills)) != set(map(self._web, state.fills)):
                    # What an iteration leaves reaches reads in the next one.
                    after = after.or_else(self._visit(statement.body, after))
                state = after
            elif isinstance(statement, When) and (stores or reads):
                state = self._visit(statement.then, state).or_else(self._visit(statement.other, state))
            elif reads:
                state = _State(frozenset((self._join(statement, state.fills),)), read=True)
        return state

    def _is_fill(self, of: Stmt) -> bool:
        stores, reads = self._access(of)
        if reads or not stores:
            return False
        if isinstance(of, For):
            return of.until is None and any(map(self._is_fill, of.body))
        return not isinstance(of, When) or all(any(map(self._is_fill, branch)) for branch in (of.then, of.other))

    def _access(self, of: Stmt) -> tuple[bool, bool]:
        """Whether a statement, with all that are in it, stores to the buffer, and whether it reads it."""
        if of not in self.accesses:
            inner = of.body if isinstance(of, For) else (*of.then, *of.other) if isinstance(of, When) else ()
            found = [self._access(s) for s in inner]
            if isinstance(of, Store):
                found.append((any(b is self.buffer for b, _, _ in of.targets), self.buffer in self.stores[of].read))
            self.accesses[of] = any(stores for stores, _ in found), any(reads for _, reads in found)
        return self.accesses[of]

    def _join(self, statement: Stmt, fills: frozenset[int]) -> int:
        """Put the stores of a statement and some fills into one web."""
        stores = [s for s in walk((statement,)) if isinstance(s, Store) and any(self._access(s))]
        known = [*fills, *(self.of[s] for s in stores if s in self.of)]
        if not known:
            known = [len(self.same)]
            self.same += known
        first = min(map(self._web, known))
        for number in known:
            self.same[self._web(number)] = first
        self.of |= dict.fromkeys(stores, first)
        return first

    def _web(self, number: int) -> int:
        while self.same[number] != number:
            number = self.same[number]
        return number

    def _fills_what_is_read(self, web: Sequence[Stmt]) -> bool:
        """Whether the places that are read are between the first and the last that are stored."""
        members = [s for s in web if isinstance(s, Store)]
        stored = [at for s in members for b, at, _ in s.targets if b is self.buffer]
        read = [e.index for s in members for e in self.stores[s].loads if e.buffer is self.buffer]
        low, high = min((at.low for at in stored), default=0), max((at.high for at in stored), default=-1)
        return all(low <= at.low and at.high <= high for at in read)

    def _steers(self, body: Sequence[Stmt]) -> bool:
        """Whether a condition, the end of a loop or a prefetch mentions the buffer."""
        others = [s for s in walk(tuple(body)) if not isinstance(s, Store)]
        read = {e.buffer for s in others for e in postorder(roots_of(s)) if isinstance(e, Load)}
        return self.buffer in read or any(isinstance(s, Prefetch) and s.buffer is self.buffer for s in others)
