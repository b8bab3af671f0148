"""Buffers that hold something for each row because of how a kernel writes them, not because a value has a batch axis.

The parts of a two-stage reduction belong to the rows of the unit that computes them, and a packed operand, or a panel
of one in scratch memory, to the rows that are copied to it.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace

from adjoint.kernel.index import Atom, Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import (
    PRIVATE,
    Across,
    Buffer,
    Expr,
    For,
    Kernel,
    Load,
    Stmt,
    Store,
    StoreTarget,
    When,
    postorder,
    roots_of,
)
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.schedule.rows import Batch, Facts, RowLayout, least, lowest

__all__ = ["Place", "Places", "loads_with_rows", "places", "row_of", "with_panels", "with_parts"]


@dataclass(frozen=True, slots=True)
class Place:
    """Where a store is and what it reads.

    Parameters
    ----------
    loops : frozenset of Var
        The variables of the loops around it, and the unit.
    facts : mapping of Atom to (int, int)
        What the conditions around it say.
    loads : tuple of Load
        What it reads.
    private : Counter of Buffer
        How often it mentions buffers that are private to a thread.
    read : frozenset of Buffer
        The buffers that it reads.
    """

    loops: frozenset[Var]
    facts: Facts
    loads: tuple[Load, ...] = ()
    private: Counter[Buffer] = field(default_factory=Counter)
    read: frozenset[Buffer] = frozenset()


#: The stores of a kernel, in order.
Places = Mapping[Store, Place]


def places(kernel: Kernel) -> Places:
    """The place of every store of a kernel."""
    found: dict[Store, Place] = {}
    _add_places(found, kernel.body, Place(frozenset((kernel.unit,)), {}))
    return found


def _add_places(found: dict[Store, Place], body: Sequence[Stmt], place: Place) -> None:
    """Add those of the stores in a body, whose own place is given."""
    for statement in body:
        if isinstance(statement, Store):
            exprs = [e for e in postorder(roots_of(statement)) if isinstance(e, Load | Across)]
            read = [e.buffer for e in exprs]
            private = Counter(b for b in (*read, *(b for b, _, _ in statement.targets)) if b.space in PRIVATE)
            loads = tuple(e for e in exprs if isinstance(e, Load))
            found[statement] = Place(place.loops, place.facts, loads, private, frozenset(read))
        elif isinstance(statement, For):
            _add_places(found, statement.body, replace(place, loops=place.loops | {statement.var}))
        elif isinstance(statement, When):
            index, low, high = statement.index, statement.low, statement.high - 1
            _add_places(found, statement.then, _given(place, index, low, high))
            # If the index cannot be too small, it is too large in `other`.
            otherwise = _given(place, index, high + 1, index.high) if index.low >= low else place
            _add_places(found, statement.other, otherwise)


def _given(place: Place, index: Index, low: int, high: int) -> Place:
    """The place under a further condition on an index."""
    if not index.terms:
        return place
    known: Atom | Index = Index(0, index.terms)
    if len(index.terms) == 1:
        ((atom, c),) = index.terms
        known = atom if c == 1 else known
    low, high = max(low - index.constant, known.low), min(high - index.constant, known.high)
    return replace(place, facts={**place.facts, known: (low, high)})


def loads_with_rows(values: Sequence[Expr], batch: Batch) -> list[Load]:
    """The loads of expressions that tell which row they belong to.

    Where a load without a guard tells it, loads with one are not asked.
    """
    loads = [e for e in postorder(list(values)) if isinstance(e, Load) and e.buffer in batch.layouts]
    return [e for e in loads if e.guard is None] or loads


def row_of(loads: Sequence[Load], batch: Batch, facts: Facts, kept: frozenset[Var] | None = None) -> Index | None:
    """The row of what is loaded, or its lower bound over all variables but those `kept`; None if unknown."""
    rows = [batch.row(e.buffer, e.index, facts, e.guard is not None) for e in loads]
    found = [row if kept is None else lowest(row, kept) for row in rows if row is not None]
    return least(found) if len(found) == len(rows) else None


def with_parts(kernels: Mapping[Kernel, Places], batch: Batch) -> Batch:
    """The batch with the layouts of packed operands, to which rows are copied, and of parts.

    A part is what a unit computes from its own rows and stores in a place of its own.
    """
    found: dict[Buffer, RowLayout] = {}
    for kernel, stores in kernels.items():
        others = [b for b in kernel.writes if b not in batch.layouts and b.space == "arena"]
        first = _first_row(kernel, batch, stores) if others else None
        for buffer in others:
            layout = _copy([(t, place) for s, place in stores.items() for t in s.targets if t[0] is buffer], batch)
            if layout is None and first is not None:
                at = [i for s in stores for b, i, _ in s.targets if b is buffer]
                layout = _part(kernel.unit, at, first, buffer.size)
            if layout is not None:
                found[buffer] = layout
    return replace(batch, layouts={**batch.layouts, **found})


def _copy(targets: Sequence[tuple[StoreTarget, Place]], batch: Batch) -> RowLayout | None:
    """The layout of a buffer if every store to it copies from the row that belongs to its place.

    The buffer may consist of several panels, each of which has all rows.
    """
    rows = _copied_rows(targets, batch)
    for layout in _layouts(targets[0][0][1], rows[0], batch.most) if rows else ():
        if all(layout.row(i, place.facts) == row for ((_, i, _), place), row in zip(targets, rows, strict=True)):
            return layout
    return None


def _copied_rows(targets: Sequence[tuple[StoreTarget, Place]], batch: Batch) -> list[Index]:
    """The row that each store copies from, if each copies from one; or else nothing."""
    found = []
    for (_, _, value), place in targets:
        loads = loads_with_rows([value], batch)
        rows = {batch.row(e.buffer, e.index, place.facts, e.guard is not None) for e in loads}
        row = rows.pop() if len(rows) == 1 else None
        if row is None:
            return []
        found.append(row)
    return found


def _first_row(kernel: Kernel, batch: Batch, stores: Places) -> Index | None:
    """The first row that a unit reads, in terms of the unit; None if it is not known or the same for all units."""
    unit = frozenset((kernel.unit,))
    rows = []
    for place in stores.values():
        for load in place.loads:
            if load.buffer in batch.layouts:
                row = batch.row(load.buffer, load.index, place.facts, load.guard is not None)
                rows.append(None if row is None else lowest(row, unit))
    found = [row for row in rows if row is not None]
    first = least(found)
    return first if len(found) == len(rows) and first is not None and first.variables() == unit else None


def _part(unit: Var, at: Sequence[Index], first: Index | None, size: int) -> RowLayout | None:
    """The layout of a buffer in which each unit has places of its own, if the first row of a unit has a simple form."""
    inner = at[0].coefficient(unit)
    if first is None or first.constant or len(first.terms) != 1 or not inner or inner < 0:
        return None
    ((atom, step),) = first.terms
    count = 0
    if isinstance(atom, Quotient):
        inner *= atom.by
    elif isinstance(atom, Remainder):
        count = atom.by
    if not count and size > inner * (atom.high + 1):
        count = atom.high + 1
    groups = [i // inner % count if count else i // inner for i in at]
    return RowLayout(inner, count, step) if all(group == as_index(atom) for group in groups) else None


def with_panels(kernel: Places, batch: Batch) -> Batch:
    """The batch with the layouts of a kernel's panels, to which it copies rows."""
    stores: dict[Buffer, list[tuple[StoreTarget, Place]]] = {}
    readers: dict[Buffer, list[Place]] = {}
    for store, place in kernel.items():
        for target in store.targets:
            if target[0].space in PRIVATE:
                stores.setdefault(target[0], []).append((target, place))
        for load in place.loads:
            if load.buffer.space in PRIVATE:
                readers.setdefault(load.buffer, []).append(place)
    layouts = dict(batch.layouts)
    for buffer, targets in stores.items():
        layout = _panel(targets, batch)
        known = layout.first.variables() | layout.shift.variables() if layout else frozenset[Var]()
        if layout and all(known <= place.loops for place in readers.get(buffer, ())):
            layouts[buffer] = layout
    return replace(batch, layouts=layouts)


def _panel(targets: Sequence[tuple[StoreTarget, Place]], batch: Batch) -> RowLayout | None:
    """The layout of a private buffer if every store to it copies from the row that belongs to its place."""
    rows, found = _copied_rows(targets, batch), list[RowLayout]()
    for layout in _layouts(targets[0][0][1], rows[0], batch.most) if rows else ():
        own = zip(targets, rows, strict=True)
        firsts = {row - layout.row(i, place.facts) for ((_, i, _), place), row in own}
        if len(firsts) == 1:
            found.append(replace(layout, first=firsts.pop()))
            if not found[-1].first.variables():
                break
    # The first row of one of several tiles is that of all if rows are counted anew in each.
    return min(found, key=lambda layout: len(layout.first.variables()), default=None)


def _layouts(place: Index, row: Index, most: int) -> Iterator[RowLayout]:
    """Possible layouts, given a place and its row: rows one after the other, or again and again, in several tiles."""
    for atom, c in row.terms:
        if c == 1 and isinstance(atom, Var | Quotient):
            of, by = (as_index(atom), 1) if isinstance(atom, Var) else (atom.of, atom.by)
            for var in of.variables():
                step, each = place.coefficient(var), of.coefficient(var)
                if step and each and step > 0 and each > 0 and step * by % each == 0:
                    for count in dict.fromkeys((0, atom.high + 1, most)):
                        yield RowLayout(step * by // each, count)
                    missing = of - as_index(var) * each
                    if missing != as_index(0) and step % each == 0:
                        # The panel begins inside a row.
                        yield RowLayout(step * by // each, shift=missing * (step // each))
