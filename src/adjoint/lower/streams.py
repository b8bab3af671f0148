"""Products whose left factor is never stored: attention and its gradients.

A `Stream` is ``result[row, column] = sum over n of weight(row, n) * values(n, column)``, where a weight is an
elementwise function of dot products of something of the row with something of step n. A unit of work is as many rows
as two vectors have lanes, and lanes run along rows throughout::

    for each dot product:  panel[d, rows] = row factors, squares turned in registers
    for each block of steps, as far as some row counts it:
      for each dot product:  weights[n, rows] = sum over d of step[n, d] * panel[d, rows]
      weights = elementwise
      sums[column, rows] += values[n, column] * weights[n, rows]
    result[rows, columns] = sums, turned

So factors of steps are read in place, an element at a time for all lanes, whatever their strides; nothing is combined
across lanes; and masks, maxima and sums of rows are vectors. A block of weights stays in the first-level cache.

Of ``softmax`` and ``log_sum_exp`` each row keeps the greatest weight so far and the sum of exponentials, relative to
it; what was summed before is scaled when a greater one comes (Milakov and Gimelshein, "Online normalizer calculation
for softmax", 2018; Dao et al., "FlashAttention", 2022).
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import ceil, prod

import numpy as np

from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.kernel.target import Target
from adjoint.lower.emit import Context, finish, group_puller, pieces, stores, vector_loops
from adjoint.lower.fuse import Group
from adjoint.lower.pull import BOOL, Puller, Stream, compute_dtype

__all__ = ["stream_kernel"]

#: Vectors of rows in a unit: each element of a step is read for both.
_VECTORS = 2
#: Steps in a block: a block of weights takes 16 KiB of f32 at most.
_BLOCK = 64
#: Operations of a weight beside its dot products, about those of an exponential.
_WEIGHT_FLOPS = 20


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rows of a unit: where they are, and the memory that they use.

    Parameters
    ----------
    at : tuple of Index
        Coordinates of the batch axes.
    first : Index
        The first row.
    count : int
        How many there are.
    lanes, vectors : int
        Lanes of a vector, and vectors that hold all rows; the last may have lanes to spare, which compute and are
        not stored.
    block : int
        Steps in a block.
    dtype : numpy.dtype
        What is computed in.
    dots : tuple of int
        Depths of the dot products.
    columns : int
        Columns of the result, rounded up to whole vectors.
    """

    at: tuple[Index, ...]
    first: Index
    count: int
    lanes: int
    vectors: int
    block: int
    dtype: np.dtype
    dots: tuple[int, ...]
    columns: int
    panels: tuple[Buffer, ...] = field(init=False)
    weights: tuple[Buffer, ...] = field(init=False)
    sums: Buffer = field(init=False)
    turned: Buffer = field(init=False)
    top: Buffer = field(init=False)
    total: Buffer = field(init=False)
    scale: Buffer = field(init=False)

    def __post_init__(self) -> None:
        def scratch(name: str, size: int) -> Buffer:
            return Buffer(name, self.dtype, size * self.width, "scratch")

        def keep(name: str, value: object) -> None:
            object.__setattr__(self, name, value)

        keep("panels", tuple(scratch(f"panel{n}", depth) for n, depth in enumerate(self.dots)))
        keep("weights", tuple(scratch(f"weights{n}", self.block) for n, _ in enumerate(self.dots)))
        for name in ("sums", "turned"):
            keep(name, scratch(name, self.columns))
        for name in ("top", "total", "scale"):
            keep(name, scratch(name, 1))

    @property
    def width(self) -> int:
        """Lanes of all vectors."""
        return self.lanes * self.vectors

    def registers(self, name: str, count: int = 1) -> Buffer:
        """Registers for `count` elements of each row."""
        return Buffer(name, self.dtype, count * self.width, "register")

    def each(self, body: Callable[[Index], Store], count: int = 1) -> tuple[Stmt, ...]:
        """Unrolled: `body` at ``element * width + row`` for the rows of each of `count` elements."""
        i, vector, lane = Var("i", count), Var("v", self.vectors), Var("l", self.lanes)
        spot = as_index(i) * self.width + as_index(vector) * self.lanes + as_index(lane)
        loop = For(vector, (For(lane, (body(spot),), "vector"),), "unroll")
        return (For(i, (loop,), "unroll"),) if count > 1 else (loop,)


def stream_kernel(context: Context, group: Group, stream: Stream) -> Kernel:
    """The kernel of a group whose root is a stream."""
    return _Builder(context, group, stream).kernel()


def _tile(target: Target) -> int:
    """Elements of each row that are summed at once: with two vectors each, sums take half of the registers."""
    return max(target.vector_registers // (2 * _VECTORS), 1)


@dataclass(frozen=True, slots=True)
class _Builder:
    context: Context
    group: Group
    stream: Stream

    def kernel(self) -> Kernel:
        """Each unit is some rows of the result."""
        assert self.group.root is not None
        shape = self.group.root.shape
        columns = shape[-1] if self.stream.values is not None else 0
        *batch, rows = shape[:-1] if columns else shape
        dtype = compute_dtype(self.group.root.dtype)
        lanes = self.context.target.lanes(dtype)
        width = _VECTORS * lanes
        unit = Var("u", prod(batch) * ceil(rows / width))
        place, at = as_index(unit) % ceil(rows / width), unflatten(as_index(unit) // ceil(rows / width), batch)
        dots = tuple(dot.depth for dot in self.stream.dots)

        def body(count: int, first: Index) -> tuple[Stmt, ...]:
            sizes = min(_BLOCK, self.stream.count), dtype, dots, ceil(columns / lanes) * lanes
            return self._unit(_Rows(at, first, count, lanes, ceil(count / lanes), *sizes), columns)

        made = pieces(place, rows, width, body) if unit.extent else ()
        points = prod(batch) * rows * self.stream.count
        flops = points * (2 * (sum(dots) + columns) + _WEIGHT_FLOPS)
        return finish(self.context, self.context.name_of(self.group), self.group.members, unit, made, flops)

    # What the operator says, at a row and a column

    def _described(self, rows: _Rows, row: Index, column: Index | int = 0) -> tuple[Puller, Stream]:
        assert self.group.root is not None
        puller = group_puller(self.context, self.group)
        index = (*rows.at, row) if self.stream.values is None else (*rows.at, row, as_index(column))
        made = puller.describe(self.group.root, index)
        assert isinstance(made, Stream)
        return puller, made

    def _guarded(self, rows: _Rows, row: Index, spare: bool = True) -> tuple[Puller, Stream]:
        """The same for a row that is a lane: nothing is read for lanes to spare."""
        puller, made = self._described(rows, rows.first + row)
        inside = puller.inside(row, 0, rows.count)
        puller.guard = inside if spare and not isinstance(inside, Const) else None
        return puller, made

    # A unit

    def _unit(self, rows: _Rows, columns: int) -> tuple[Stmt, ...]:
        many, rest = divmod(self.stream.count, rows.block)
        body = [*self._begin(rows)]
        for number in range(len(self.stream.dots)):
            body.extend(self._pack(rows, number))
        if many:
            turn = Var("block", many)
            body.append(For(turn, self._block(rows, as_index(turn) * rows.block, rows.block, columns)))
        if rest:
            body.extend(self._block(rows, as_index(many * rows.block), rest, columns))
        return (*body, *self._end(rows, columns))

    def _begin(self, rows: _Rows) -> tuple[Stmt, ...]:
        zero = Const(0.0, rows.dtype)
        out: list[Stmt] = []
        if rows.columns:
            column = Var("c", rows.columns)
            clear = rows.each(lambda spot: Store(((rows.sums, as_index(column) * rows.width + spot, zero),)))
            out.append(For(column, clear))
        if self.stream.kind != "sum":
            # Not minus infinity: the distance from it to itself is no number.
            lowest = Const(float(np.finfo(rows.dtype).min), rows.dtype)
            out.extend(rows.each(lambda spot: Store(((rows.top, spot, lowest), (rows.total, spot, zero)))))
        return tuple(out)

    def _pack(self, rows: _Rows, number: int) -> tuple[Stmt, ...]:
        """Copy the rows' factors of a dot product, lanes along rows: square by square, where d is contiguous."""
        depth, panel, lanes = rows.dots[number], rows.panels[number], rows.lanes

        def element(d: Index, row: Index, spare: bool) -> Expr:
            made: Expr = self._guarded(rows, row, spare)[1].dots[number].row(d)
            return made

        def copy(d: Index, row: Index, spare: bool) -> Store:
            return Store(((panel, d * rows.width + row, element(d, row, spare)),))

        probe_d, probe_row = Var("d", depth), Var("r", rows.count)
        probe = element(as_index(probe_d), as_index(probe_row), spare=False)
        turned = isinstance(probe, Load) and probe.guard is None and probe.index.coefficient(probe_d) == 1
        whole = rows.count // lanes
        out: list[Stmt] = []
        done = depth // lanes * lanes if turned and whole else 0
        if done:
            square, vector, inner, lane = Var("s", done // lanes), Var("v", whole), Var("i", lanes), Var("l", lanes)
            d, row = as_index(square) * lanes + as_index(inner), as_index(vector) * lanes + as_index(lane)
            loop = For(inner, (For(lane, (copy(d, row, spare=False),), "vector"),), "unroll")
            out.append(For(square, (For(vector, (loop,)),)))
        for first, last, start in ((0, whole, done), (whole, rows.vectors, 0)):
            if first < last and start < depth:
                step, vector, lane = Var("d", depth - start), Var("v", last - first), Var("l", lanes)
                row = (as_index(vector) + first) * lanes + as_index(lane)
                store = copy(as_index(step) + start, row, spare=first == whole)
                out.append(For(step, (For(vector, (For(lane, (store,), "vector"),), "unroll"),)))
        return tuple(out)

    # A block of steps

    def _block(self, rows: _Rows, start: Index, steps: int, columns: int) -> tuple[Stmt, ...]:
        body: list[Stmt] = []
        for number in range(len(self.stream.dots)):
            body.extend(self._dots(rows, number, start, steps))
        body.extend(self._weights(rows, start, steps))
        if columns:
            body.extend(self._add(rows, start, steps, columns))
        return self._where_counted(rows, start, steps, tuple(body))

    def _where_counted(self, rows: _Rows, start: Index, steps: int, body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        """Leave out blocks that no row counts: spans of rows do not fall."""
        first, last = (self._described(rows, rows.first + r)[1].span for r in (0, rows.count - 1))
        if first is None or last is None:
            return body
        for distance, least in ((last[1] - start, 1), (start + (steps - 1) - first[0], 0)):
            if distance.low < least:
                body = (When(distance, least, max(distance.high, least) + 1, body),)
        return body

    def _dots(self, rows: _Rows, number: int, start: Index, steps: int) -> tuple[Stmt, ...]:
        """Dot products of a block of steps with all rows."""
        _, made = self._described(rows, rows.first)
        weights, panel = rows.weights[number], rows.panels[number]

        def tile(count: int, first: Index) -> tuple[Stmt, ...]:
            acc, d = rows.registers("acc", count), Var("d", rows.dots[number])

            def multiply(spot: Index) -> Store:
                factor = made.dots[number].step(start + first + spot // rows.width, as_index(d))
                row = Load(panel, as_index(d) * rows.width + spot % rows.width)
                return Store(((acc, spot, Apply("fma", (factor, row, Load(acc, spot)), acc.dtype)),))

            def put(spot: Index) -> Store:
                return Store(((weights, first * rows.width + spot, Load(acc, spot)),))

            clear = rows.each(lambda spot: Store(((acc, spot, Const(0.0, acc.dtype)),)), count)
            return (*clear, For(d, rows.each(multiply, count)), *rows.each(put, count))

        return self._tiles(steps, tile)

    def _tiles(self, count: int, body: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Tiles of steps or columns: whole ones, and a shorter one."""
        size = _tile(self.context.target)
        many, rest = divmod(count, size)
        turn = Var("t", many)
        out: list[Stmt] = [For(turn, body(size, as_index(turn) * size))] if many else []
        return (*out, *body(rest, as_index(many * size))) if rest else tuple(out)

    def _weights(self, rows: _Rows, start: Index, steps: int) -> tuple[Stmt, ...]:
        """Weights of a block of steps, in place of their first dot products."""
        step, place = Var("n", steps), rows.weights[0]

        def each(body: Callable[[Index, Index], Store]) -> Stmt:
            """`body` at every place of the block and its row."""
            return For(step, rows.each(lambda row: body(as_index(step) * rows.width + row, row)))

        if self.stream.kind == "sum":
            return (each(lambda at, row: Store(((place, at, self._weight(rows, start, at, row, 0.0)),))),)
        best, part = rows.registers("best"), rows.registers("part")

        def compare(at: Index, row: Index) -> Store:
            # What is no number is never the greatest; its exponential says so all the same.
            weight, old = self._weight(rows, start, at, row, -np.inf), Load(best, row)
            greater = Apply("select", (Apply("gt", (weight, old), BOOL), weight, old), best.dtype)
            return Store(((place, at, weight), (best, row, greater)))

        def advance(row: Index) -> Store:
            top, new = Load(rows.top, row), Load(best, row)
            return Store(((rows.scale, row, _call("exp", _call("sub", top, new))), (rows.top, row, new)))

        def exponential(at: Index, row: Index) -> Store:
            made = _call("exp", _call("sub", Load(place, at), Load(best, row)))
            return Store(((place, at, made), (part, row, _call("add", Load(part, row), made))))

        def total(row: Index) -> Store:
            scaled = _call("fma", Load(rows.total, row), Load(rows.scale, row), Load(part, row))
            return Store(((rows.total, row, scaled),))

        return (
            *rows.each(lambda row: Store(((best, row, Load(rows.top, row)),))),
            each(compare),
            *rows.each(advance),
            *rows.each(lambda row: Store(((part, row, Const(0.0, part.dtype)),))),
            each(exponential),
            *rows.each(total),
        )

    def _weight(self, rows: _Rows, start: Index, at: Index, row: Index, other: float) -> Expr:
        """The weight from the dot products at a place; `other` where the row does not count the step."""
        puller, made = self._guarded(rows, row)
        step = start + at // rows.width
        weight = made.weight(step, [Load(w, at) for w in rows.weights])
        if made.span is None:
            return weight
        since, left = step - made.span[0], made.span[1] - step
        counted = puller.call(
            "and", puller.inside(since, 0, max(since.high, 0) + 1), puller.inside(left, 1, max(left.high, 1) + 1)
        )
        if isinstance(counted, Const):
            return weight if counted.value else Const(other, rows.dtype)
        return puller.select(counted, weight, Const(other, rows.dtype))

    def _add(self, rows: _Rows, start: Index, steps: int, columns: int) -> tuple[Stmt, ...]:
        """Add a block of steps to the sums of all columns."""

        def tile(count: int, first: Index) -> tuple[Stmt, ...]:
            acc, step = rows.registers("acc", count), Var("n", steps)

            def fetch(spot: Index) -> Store:
                held: Expr = Load(rows.sums, first * rows.width + spot)
                if self.stream.kind != "sum":
                    held = _call("mul", held, Load(rows.scale, spot % rows.width))
                return Store(((acc, spot, held),))

            def multiply(spot: Index) -> Store:
                _, made = self._described(rows, rows.first, first + spot // rows.width)
                assert made.values is not None
                weight = Load(rows.weights[0], as_index(step) * rows.width + spot % rows.width)
                product = _call("fma", made.values(start + as_index(step)), weight, Load(acc, spot))
                return Store(((acc, spot, product),))

            def put(spot: Index) -> Store:
                return Store(((rows.sums, first * rows.width + spot, Load(acc, spot)),))

            return (*rows.each(fetch, count), For(step, rows.each(multiply, count)), *rows.each(put, count))

        return self._tiles(columns, tile)

    # The end

    def _end(self, rows: _Rows, columns: int) -> tuple[Stmt, ...]:
        if not columns:

            def logarithm(at: Index, _: Index) -> tuple[Stmt, ...]:
                result = _call("add", Load(rows.top, at), _call("log", Load(rows.total, at)))
                return (self._store((*rows.at, rows.first + at), result),)

            return vector_loops(rows.count, rows.lanes, logarithm)
        square, vector, inner, lane = (
            Var(name, extent)
            for name, extent in (
                ("c", rows.columns // rows.lanes),
                ("v", rows.vectors),
                ("i", rows.lanes),
                ("l", rows.lanes),
            )
        )
        column = as_index(square) * rows.lanes + as_index(lane)
        row = as_index(vector) * rows.lanes + as_index(inner)
        turn = Store(((rows.turned, row * rows.columns + column, Load(rows.sums, column * rows.width + row)),))
        loop = For(inner, (For(lane, (turn,), "vector"),), "unroll")
        out: list[Stmt] = [For(square, (For(vector, (loop,)),))]
        softmax, line = self.stream.kind == "softmax", Var("row", rows.count)
        if softmax:
            one = Const(1.0, rows.dtype)
            out.extend(rows.each(lambda at: Store(((rows.scale, at, _call("div", one, Load(rows.total, at))),))))

        def finished(at: Index, _: Index) -> tuple[Stmt, ...]:
            result: Expr = Load(rows.turned, as_index(line) * rows.columns + at)
            if softmax:
                result = _call("mul", result, Load(rows.scale, as_index(line)))
            return (self._store((*rows.at, rows.first + as_index(line), at), result),)

        return (*out, For(line, vector_loops(columns, rows.lanes, finished)))

    def _store(self, index: tuple[Index, ...], result: Expr) -> Store:
        """The result at an index, and what comes after it."""
        assert self.group.root is not None
        puller = group_puller(self.context, self.group)
        puller.hold(self.group.root, result)
        return stores(self.context, self.group, puller, index)


def _call(function: str, *operands: Expr) -> Expr:
    """A scalar function of floats."""
    return Apply(function, operands, operands[0].dtype)
