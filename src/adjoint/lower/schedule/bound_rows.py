"""Leave out the iterations of kernels that concern absent rows only, in batches of fewer rows.

It is legal because absent rows influence neither present ones nor what is combined from rows
(`adjoint.transforms.mask_batch`): an iteration is left out if everything that it stores for others is either an element
of an absent row, or an accumulation of terms of absent rows, which are neutral. Loops and units get an end that is
computed at run time, or a condition where they are not in the order of rows. With all rows present, kernels compute the
same in the same order.

What is left out stays undefined in memory. Reading it is harmless where the result is an element of an absent row
again, or is discarded by a selection. A kernel that would combine it with other rows has three ways out: rows are left
out in whole groups of as many as the kernel reads together; or terms of a sum get a guard; or the kernels that compute
what it needs keep all rows, and so do those before them. docs/design/partial-batches.md describes the whole.

Before::

    kernel y: computes %y
      4 units, on one thread; 48 flops, 384 bytes
      reads x f32[48] by 12; writes x1 f32[48] by 12
      for u in 0..4 units:
        for r in 0..2 unroll:
          for l in 0..6 vector:
            x1[u*12 + r*6 + l] = neg(x[u*12 + r*6 + l])

    kernel dw: computes %dw
      1 units, on one thread; 48 flops, 216 bytes
      reads x f32[48]; writes result0 f32[6]; registers acc f32[6]
      for u in 0..1 units:
        for l in 0..6 vector:
          acc[l] = 0.0
        for k in 0..8:
          for l in 0..6 vector:
            acc[l] = add(acc[l], x[k*6 + l])
        for l in 0..6 vector:
          result0[l] = acc[l]

After::

    kernel y: computes %y
      4 units, on one thread; 48 flops, 384 bytes
      reads rows i32[1], x f32[48] by 12; writes x1 f32[48] by 12
      for u in 0..min(4, ([min(max(cast(rows[0] as i64), 0), 8) in 0..9] + 1) // 2) units:
        for r in 0..2 unroll:
          for l in 0..6 vector:
            x1[u*12 + r*6 + l] = neg(x[u*12 + r*6 + l])

    kernel dw: computes %dw
      1 units, on one thread; 48 flops, 216 bytes
      reads rows i32[1], x f32[48]; writes result0 f32[6]; registers acc f32[6]
      for u in 0..1 units:
        for l in 0..6 vector:
          acc[l] = 0.0
        for k in 0..min(8, [min(max(cast(rows[0] as i64), 0), 8) in 0..9]):
          for l in 0..6 vector:
            acc[l] = add(acc[l], x[k*6 + l])
        for l in 0..6 vector:
          result0[l] = acc[l]
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from math import lcm

from adjoint.kernel.index import Index, Quotient, Var, as_index, uses
from adjoint.kernel.ir import (
    PRIVATE,
    Apply,
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
    walk,
)
from adjoint.kernel.rewrite import rewritten
from adjoint.kernel.structure import structures
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.schedule.row_layouts import Places, loads_with_rows, places, row_of, with_panels, with_parts
from adjoint.lower.schedule.row_reads import RowRead, row_reads
from adjoint.lower.schedule.rows import Batch, least, lowest
from adjoint.lower.schedule.webs import joined_webs, separate_webs

__all__ = ["BoundKernels", "bound_rows"]

#: Functions by which a reduction combines a term with what it has so far.
_COMBINE = frozenset(("add", "mul", "max", "min", "and", "or", "fma"))

#: Functions of which no operand that is 0 makes a NaN or an infinity.
_LINEAR = frozenset(("add", "sub", "neg", "mul", "fma"))


@dataclass(frozen=True, slots=True)
class BoundKernels:
    """Kernels that leave out absent rows.

    Parameters
    ----------
    kernels : tuple of Kernel
        In the given order.
    tiles : mapping of Buffer to int
        For each buffer with rows that a kernel reads: how many rows at most are read together, so that no absent row is
        read if the number of rows present is a multiple of it.
    """

    kernels: tuple[Kernel, ...]
    tiles: Mapping[Buffer, int]


def bound_rows(kernels: Sequence[Kernel], batch: Batch) -> BoundKernels:
    """Bound all kernels, except those that compute what others need in absent rows."""
    stores = {kernel: places(kernel) for kernel in kernels}
    batch = with_parts(stores, batch)
    like = _representatives(kernels, batch)
    own = {kernel: with_panels(stores[kernel], batch) for kernel in kernels if like[kernel] is kernel}
    made = {kernel: _bounded(kernel, stores[kernel], own[kernel]) for kernel in own}
    granule = lcm(*(read.tile for found in made.values() for read in found.needed if _fits(read, batch.most)))
    if granule > 1 and batch.most % granule == 0:
        batch = batch.in_granules(granule)
        made = {kernel: _bounded(kernel, stores[kernel], own[kernel].in_granules(granule)) for kernel in own}
    made |= {kernel: _renamed(made[like[kernel]], like[kernel], kernel) for kernel in kernels if kernel not in made}
    whole = frozenset(read.load.buffer for found in made.values() for read in found.needed)
    kept: set[Kernel] = set()
    while more := [k for k in kernels if k not in kept and whole.intersection(k.writes)]:
        kept.update(more)
        whole |= {b for k in more for b in k.reads if b in batch.layouts}
    tiles: dict[Buffer, int] = {}
    for kernel, found in made.items():
        for read in (r for r in found.reads if r.load.buffer in batch.layouts):
            size = lcm(read.tile, batch.granule) if read.aligned and kernel not in kept else batch.most
            tiles[read.load.buffer] = lcm(tiles.get(read.load.buffer, 1), size)
    return BoundKernels(tuple(k if k in kept else made[k].kernel for k in kernels), tiles)


def _representatives(kernels: Sequence[Kernel], batch: Batch) -> dict[Kernel, Kernel]:
    """For each kernel the first that differs from it in names only."""
    first: dict[Hashable, Kernel] = {}
    found: dict[Kernel, Kernel] = {}
    for kernel, same in zip(kernels, structures(kernels), strict=True):
        buffers = (*kernel.writes, *kernel.reads, *kernel.scratch)
        key = same, tuple((b is batch.rows, batch.layouts.get(b)) for b in buffers)
        found[kernel] = first.setdefault(key, kernel)
    return found


def _fits(read: RowRead, most: int) -> bool:
    """Whether a granule of as many rows as are read together is worth it: at most a quarter of all."""
    return read.aligned and 4 * read.tile <= most


@dataclass(frozen=True, slots=True)
class _Bounded:
    """A bounded kernel, what it reads of buffers with rows, and what of it the kernel needs in absent rows too."""

    kernel: Kernel
    reads: Sequence[RowRead]
    needed: Sequence[RowRead]


def _renamed(made: _Bounded, like: Kernel, kernel: Kernel) -> _Bounded:
    """What was made of a kernel, for another that differs from it in names only."""
    own, others = ((*k.writes, *k.reads, *k.private) for k in (kernel, like))
    buffers = dict(zip(others, own, strict=True))

    def name(buffer: Buffer) -> Buffer:
        return buffers.get(buffer, buffer)

    def read(of: RowRead) -> RowRead:
        return replace(of, load=Load(name(of.load.buffer), of.load.index, of.load.guard))

    reads, needed = list(map(read, made.reads)), list(map(read, made.needed))
    if made.kernel is like:
        return _Bounded(kernel, reads, needed)
    tiles = tuple((buffers[buffer], size) for buffer, size in made.kernel.tiles)
    body = rewritten(made.kernel.body, move=lambda buffer, at: (name(buffer), at), across=name)
    return _Bounded(replace(made.kernel, name=kernel.name, values=kernel.values, body=body, tiles=tiles), reads, needed)


def _bounded(kernel: Kernel, stores: Places, batch: Batch) -> _Bounded:
    """Bound a kernel, with a name for each web of its panels if it needs absent rows of what they are packed from."""
    found = _bounded_as_named(kernel, stores, batch)
    panels = dict.fromkeys(buffer for read in found.needed for buffer in _packed(read.store))
    apart, names = separate_webs(kernel, stores, panels)
    if not names:
        return found
    stores = places(apart)
    found = _bounded_as_named(apart, stores, with_panels(stores, batch))
    made = kernel if found.kernel is apart else joined_webs(found.kernel, names)
    return _Bounded(made, found.reads, found.needed)


def _packed(store: Store) -> list[Buffer]:
    """The scratch buffers of which a store replaces what they hold."""
    read = {e.buffer for e in postorder(roots_of(store)) if isinstance(e, Load)}
    return [buffer for buffer, _, _ in store.targets if buffer.space == "scratch" and buffer not in read]


def _bounded_as_named(kernel: Kernel, stores: Places, batch: Batch) -> _Bounded:
    """Bound a kernel: panels whose absent rows it needs are no panels, and sums leave out absent terms by a guard."""
    found = _attempt(kernel, stores, batch)
    while panels := {b for read in found.needed if (b := read.load.buffer).space in PRIVATE}:
        batch = replace(batch, layouts={b: layout for b, layout in batch.layouts.items() if b not in panels})
        found = _attempt(kernel, stores, batch)
    guarded, exact = _with_guards(kernel, stores, frozenset(read.load for read in found.needed), batch)
    return _attempt(guarded, places(guarded), batch, exact) if exact else found


def _attempt(kernel: Kernel, stores: Places, batch: Batch, exact: frozenset[Load] = frozenset()) -> _Bounded:
    made, reads = _Bounder(kernel, stores, batch, exact).bounded()
    return _Bounded(made, reads, list(_needed(stores, reads, batch)))


def _with_guards(
    kernel: Kernel, stores: Places, loads: frozenset[Load], batch: Batch
) -> tuple[Kernel, frozenset[Load]]:
    """The kernel with a guard on those of some loads that are terms of a sum, and all loads that read no absent rows.

    A batch of all rows has a branch of its own without guards, which would cost as much as the loads.
    """
    made: dict[Load, Load] = {}
    loads &= _summed(stores)
    facts = {load: place.facts for place in stores.values() for load in place.loads}

    def guarded(expr: Expr) -> Expr:
        if not isinstance(expr, Load) or expr not in loads or expr.guard is not None:
            return expr
        if expr not in made:
            row = batch.row(expr.buffer, expr.index, facts[expr])
            if row is None:
                return expr
            made[expr] = Load(expr.buffer, expr.index, batch.guard(row))
        return made[expr]

    def apply(of: Apply) -> Apply:
        return replace(of, operands=tuple(map(guarded, of.operands))) if of.function == "add" else of

    fewer = rewritten(kernel.body, apply=apply) if loads else ()
    if not made:
        return kernel, frozenset()
    left = {e for s in walk(fewer) for e in postorder(roots_of(s))}
    body = When(batch.computed, batch.most, batch.most + 1, kernel.body, fewer)
    return replace(kernel, body=(body,)), frozenset(made.values()) | {load for load in made if load not in left}


def _summed(stores: Iterable[Store]) -> frozenset[Load]:
    """The loads that stored values depend on by sums and products alone, so that a 0 in place of one is harmless."""
    stack = [value for store in stores for _, _, value in store.targets]
    seen: set[Expr] = set()
    while stack:
        expr = stack.pop()
        if expr not in seen:
            seen.add(expr)
            stack += expr.operands if isinstance(expr, Apply) and expr.function in _LINEAR else ()
    return frozenset(expr for expr in seen if isinstance(expr, Load))


def _needed(stores: Places, reads: Sequence[RowRead], batch: Batch) -> Iterator[RowRead]:
    """The reads of absent rows that a bounded kernel combines with present ones."""
    rows = _of_rows(stores, batch)
    for read in reads:
        fits = read.aligned and batch.granule % read.tile == 0
        if not (fits or read.selected or all(buffer in rows for buffer, _, _ in read.store.targets)):
            yield read


def _of_rows(stores: Places, batch: Batch) -> set[Buffer]:
    """The buffers of which each element belongs to a row, and those private to a thread that only such depend on."""
    rows = {buffer for buffer, layout in batch.layouts.items() if layout.step == 1 and buffer.space not in PRIVATE}
    rows |= {buffer for place in stores.values() for buffer in place.private}
    while True:
        others = [place for store, place in stores.items() if not all(buffer in rows for buffer, _, _ in store.targets)]
        read = {buffer for place in others for buffer in place.read if buffer.space in PRIVATE}
        if not read & rows:
            return rows
        rows -= read


@dataclass
class _Bounder:
    """Bounds one kernel."""

    kernel: Kernel
    places: Places
    batch: Batch
    #: Loads with a guard that leaves out absent rows.
    exact: frozenset[Load]
    #: The row that an iteration of a bounded loop begins with, or that a condition is for.
    begins: dict[Stmt, Index] = field(default_factory=dict)
    #: The results of `loads`, which every loop around a store asks for.
    found: dict[StoreTarget, list[Load]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.uses = self.private(self.kernel.body)

    def bounded(self) -> tuple[Kernel, list[RowRead]]:
        """The kernel, and what it reads of buffers with rows."""
        unit = frozenset((self.kernel.unit,))
        # What is private to a thread is undefined at the start of a unit, so no other unit uses it.
        row = self.first_row(self.kernel.body, unit, self.uses)
        # A batch has at least one row.
        known = frozenset((as_index(0), *((row,) if row is not None and row.variables() else ())))
        body = self.body(self.kernel.body, unit, known)
        until = None
        if row is not None and row.variables():
            until = _until(row, self.kernel.unit, self.batch.computed)
            body = (self.when(row, body),) if until is None else body
        bounded = self.begins or until is not None
        made = replace(self.kernel, body=body, until=until) if bounded else self.kernel
        return made, list(row_reads(body, self.batch, self.begins, self.places, self.exact, tuple(known)))

    def body(self, body: Sequence[Stmt], outer: frozenset[Var], known: frozenset[Index]) -> tuple[Stmt, ...]:
        return tuple(self.statement(s, outer, known) for s in body)

    def statement(self, of: Stmt, outer: frozenset[Var], known: frozenset[Index]) -> Stmt:
        """The statement without iterations for absent rows; the `known` rows are present."""
        if isinstance(of, When):
            then, other = self.body(of.then, outer, known), self.body(of.other, outer, known)
            return When(of.index, of.low, of.high, then, other)
        if not isinstance(of, For) or of.kind == "vector":
            return of
        inner = outer | {of.var}
        row = self.first_row(of.body, inner, self.private(of.body)) if of.kind == "serial" else None
        if row is None or row in known:
            return For(of.var, self.body(of.body, inner, known), of.kind)
        body = self.body(of.body, inner, known | {row})
        if of.var not in row.variables():
            return self.when(row, (For(of.var, body, of.kind),))
        until = _until(row, of.var, self.batch.computed)
        if until is None:
            return For(of.var, (self.when(row, body),), of.kind)
        made = For(of.var, body, of.kind, until)
        self.begins[made] = row
        return made

    def private(self, body: Sequence[Stmt]) -> Counter[Buffer]:
        """How often statements mention each buffer that is private to a thread."""
        found: Counter[Buffer] = Counter()
        for statement in walk(tuple(body)):
            if isinstance(statement, Store):
                found.update(self.places[statement].private)
        return found

    def when(self, row: Index, body: tuple[Stmt, ...]) -> When:
        """The statements if a row is computed."""
        left = self.batch.computed - row
        made = When(left, 1, left.high + 1, body)
        self.begins[made] = row
        return made

    def first_row(self, body: Sequence[Stmt], kept: frozenset[Var], private: Counter[Buffer]) -> Index | None:
        """The first row that statements store or accumulate, given the variables around them.

        None if they may not be left out where that row is absent. `private` counts their uses of private buffers.
        """
        rows: list[Index | None] = []
        stores = [s for s in walk(tuple(body)) if isinstance(s, Store)]
        for store in stores:
            for target in store.targets:
                buffer, index, _ = target
                facts = self.places[store].facts
                if buffer in self.batch.layouts:
                    row = self.batch.row(buffer, index, facts)
                    rows.append(None if row is None else lowest(row, kept))
                elif buffer.space not in PRIVATE or private[buffer] < self.uses[buffer]:
                    rows.append(row_of(self.loads(target), self.batch, facts, kept))
        found = [row for row in rows if row is not None]
        return least(found) if len(found) == len(rows) else None

    def loads(self, target: StoreTarget) -> list[Load]:
        """The loads that tell which row the terms of an accumulation belong to."""
        if target not in self.found:
            self.found[target] = loads_with_rows(_terms(target), self.batch)
        return self.found[target]


def _terms(target: StoreTarget) -> list[Expr]:
    """The operands that a store combines with what its place holds; none if it does anything else."""
    buffer, index, value = target
    terms: list[Expr] = []
    while not (isinstance(value, Load) and value.buffer is buffer and value.index == index):
        if not isinstance(value, Apply) or value.function not in _COMBINE:
            return []
        partial = [e for e in value.operands if any(isinstance(p, Load) and p.buffer is buffer for p in postorder([e]))]
        if len(partial) != 1 or (value.function == "fma" and partial[0] is not value.operands[2]):
            return []
        terms += [e for e in value.operands if e is not partial[0]]
        value = partial[0]
    return terms


def _until(row: Index, var: Var, computed: Index) -> Index | None:
    """The least value of a variable for which a row is not present; None if it has no simple form."""
    left, by = computed - row, row
    if row.coefficient(var) is None:
        found = [(atom, c) for atom, c in row.terms if uses(atom, var)]
        quotient, c = found[0]
        if len(found) > 1 or c != 1 or not isinstance(quotient, Quotient):
            return None
        # of // by < n is of < n * by
        left = (left + Index(0, frozenset(((quotient, 1),)))) * quotient.by - quotient.of
        by = quotient.of
    step = by.coefficient(var)
    if not step or step < 0:
        return None
    return (left + Index(0, frozenset(((var, step),))) + (step - 1)) // step
