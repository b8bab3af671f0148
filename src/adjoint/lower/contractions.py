"""Kernels of contractions: sums of products of two tensors, on register tiles.

A tile of the result stays in vector registers while the summed axis runs: `rows` broadcast elements of the left
operand against `vectors` vectors of the right one, one fused multiply-add each. What joins the group as an
epilogue (bias, activation, its mask, an optimizer's update) is computed on the registers before they are stored.
Operands are read in place through their strides, so a transpose costs nothing where lanes stay contiguous; where
they do not, the operand is packed beforehand into panels as wide as a tile.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.kernel.target import Target
from adjoint.lower.emit import Context, finish, group_puller, stores, tiles, vector_loops
from adjoint.lower.facts import flops_of
from adjoint.lower.fuse import Group
from adjoint.lower.pull import Reduction

__all__ = ["Contraction", "Tile", "choose_tile", "contraction_kernels", "match_contraction"]

#: What a tile does at one of its points: accumulators, place in them, row and column of the result.
_Point = Callable[[Buffer, Index, Index, Index], Store]

#: Bytes of the first-level cache that operands of a tile may count on.
_L1 = 32 * 1024


@dataclass(frozen=True, slots=True)
class Contraction:
    """``out[b.., m, n] = sum over k of left[b.., m, k] * right[b.., k, n]``, by variables of the two loads.

    Parameters
    ----------
    left, right : Load
        The factors. `right` is the one whose lanes are contiguous or made so by packing.
    batch : tuple of Var
        Axes of the result that both factors have.
    m : Var or None
        The axis of the result that only `left` has.
    n : Var
        The innermost axis of the result, which only `right` has.
    k : tuple of Var
        Summed axes.
    """

    left: Load
    right: Load
    batch: tuple[Var, ...]
    m: Var | None
    n: Var
    k: tuple[Var, ...]

    @property
    def rows(self) -> int:
        """Extent of m."""
        return self.m.extent if self.m is not None else 1

    @property
    def depth(self) -> int:
        """Number of products in a sum."""
        return prod(v.extent for v in self.k)


@dataclass(frozen=True, slots=True)
class Tile:
    """A register tile: `rows` by `vectors` accumulators of `lanes` elements."""

    rows: int
    vectors: int
    lanes: int

    @property
    def columns(self) -> int:
        """Columns of the result that it covers."""
        return self.vectors * self.lanes


def match_contraction(description: Reduction, out: Sequence[Var]) -> Contraction | None:
    """The contraction that a reduction is, or None where it is some other reduction."""
    body = description.body
    if description.kind != "add" or not isinstance(body, Apply) or body.function != "mul":
        return None
    if body.dtype.kind != "f" or not all(isinstance(x, Load) and x.guard is None for x in body.operands):
        return None
    if any(v.extent == 0 for v in (*out, *description.vars)):
        return None
    left, right = body.operands
    assert isinstance(left, Load)
    assert isinstance(right, Load)
    red = tuple(v for v in description.vars if v.extent > 1)
    axes = [v for v in out if v.extent > 1]
    if any(load.index.coefficient(v) is None for load in (left, right) for v in (*axes, *red)):
        return None
    only_left = [v for v in axes if not right.index.coefficient(v) and left.index.coefficient(v)]
    only_right = [v for v in axes if not left.index.coefficient(v) and right.index.coefficient(v)]
    batch = tuple(v for v in axes if v not in only_left and v not in only_right)
    if len(only_right) != 1 or len(only_left) > 1 or axes != [*batch, *only_left, *only_right]:
        return None
    return Contraction(left, right, batch, only_left[0] if only_left else None, only_right[0], red)


def choose_tile(target: Target, contraction: Contraction) -> Tile:
    """The tile with the fewest estimated cycles over the whole product, edges included.

    Per step of k, a tile costs its multiply-adds (two vectors a cycle), its loads (two a cycle), the latency of a
    dependent addition, and the bytes of the right operand where they do not stay in the first-level cache.
    """
    itemsize = contraction.left.dtype.itemsize
    lanes = min(target.lanes(contraction.left.dtype), 1 << (contraction.n.extent - 1).bit_length())
    columns = ceil(contraction.n.extent / lanes)
    broadcast = 0 if target.vector_bytes >= 64 else 1  # AVX-512 broadcasts from memory inside the multiply-add

    def cycles(tile: Tile) -> float:
        total = 0.0
        for rows, many_rows in _parts(contraction.rows, tile.rows):
            for vectors, many in _parts(columns, tile.vectors):
                compute = rows * vectors / 2
                loads = (rows + vectors) / 2
                panel = vectors * lanes * itemsize * contraction.depth
                stream = vectors * lanes * itemsize / 32 if panel * 2 > _L1 else 0.0
                total += many_rows * many * (max(compute, loads, stream, 4.0) * contraction.depth + 6)
        return total

    candidates = [
        Tile(rows, vectors, lanes)
        for vectors in range(1, min(columns, 6) + 1)
        for rows in range(1, min(contraction.rows, 14) + 1)
        if rows * vectors + vectors + broadcast <= target.vector_registers
    ]
    return min(candidates, key=lambda t: (cycles(t), -t.rows * t.vectors))


def _parts(extent: int, tile: int) -> list[tuple[int, int]]:
    """``(size, how many)`` of the pieces that tiling makes."""
    full, rest = divmod(extent, tile)
    return [(tile, full)] * (full > 0) + [(rest, 1)] * (rest > 0)


def contraction_kernels(context: Context, group: Group, contraction: Contraction, out: Sequence[Var]) -> list[Kernel]:
    """The kernels of a contraction group: the product, after packing where lanes are not contiguous."""
    tile = choose_tile(context.target, contraction)
    kernels = []
    if contraction.right.index.coefficient(contraction.n) != 1:
        packing, contraction = _pack(context, group, contraction, tile)
        kernels.append(packing)
    kernels.append(_Builder(context, group, contraction, tile, tuple(out)).kernel())
    return kernels


def _pack(context: Context, group: Group, c: Contraction, tile: Tile) -> tuple[Kernel, Contraction]:
    """Copy the right operand to panels of the tile's columns, where lanes are contiguous."""
    batch = tuple(v for v in c.batch if c.right.index.coefficient(v))
    panels = ceil(c.n.extent / tile.columns)
    size = prod(v.extent for v in batch) * panels * c.depth * tile.columns
    name = f"{context.name_of(group)}_packed"
    packed = Buffer(name, c.right.buffer.dtype, size, "arena")
    context.scratch.append(packed)
    copies = [Var(v.name, v.extent) for v in (*batch, *c.k)]
    unit = Var("u", prod(v.extent for v in copies) * panels)
    rest, panel = as_index(unit) // panels, as_index(unit) % panels
    at: dict[Var, Index] = {}
    for var in reversed((*batch, *c.k)):
        at[var] = rest % var.extent
        rest = rest // var.extent
    place = _packed_index(c, batch, at, panels, tile.columns, panel, as_index(0))

    def copy(columns: int) -> tuple[Stmt, ...]:
        def body(column: Index, _: Index) -> tuple[Stmt, ...]:
            source = c.right.index.substitute({**at, c.n: panel * tile.columns + column})
            return (Store(((packed, place + column, Load(c.right.buffer, source)),)),)

        return vector_loops(columns, tile.lanes, body)

    edge = c.n.extent % tile.columns
    body = copy(tile.columns)
    if edge:
        body = (When(panel, 0, panels - 1, body, copy(edge)),) if panels > 1 else copy(edge)
    kernel = finish(context, name, group.members[:1], unit, body, 0)
    column = as_index(c.n)
    index = _packed_index(
        c, batch, {v: as_index(v) for v in (*batch, *c.k)}, panels, tile.columns,
        column // tile.columns, column % tile.columns,
    )  # fmt: skip
    return kernel, replace(c, right=Load(packed, index))


def _packed_index(
    c: Contraction,
    batch: Sequence[Var],
    at: dict[Var, Index],
    panels: int,
    columns: int,
    panel: Index,
    column: Index,
) -> Index:
    """Place in the packed operand: batch, panel, k, column."""
    index = as_index(0)
    for var in batch:
        index = index * var.extent + at[var]
    index = index * panels + panel
    for var in c.k:
        index = index * var.extent + at[var]
    return index * columns + column


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds the loop nest of one contraction."""

    context: Context
    group: Group
    c: Contraction
    tile: Tile
    out: tuple[Var, ...]

    def kernel(self) -> Kernel:
        row_blocks = ceil(self.c.rows / self.tile.rows)
        panels = ceil(self.c.n.extent / self.tile.columns)
        batches = prod(v.extent for v in self.c.batch)
        unit = Var("u", batches * row_blocks * panels)
        # Threads take contiguous units: let the larger operand be the one that they split.
        right_is_larger = self.c.n.extent >= self.c.rows
        inner = row_blocks if right_is_larger else panels
        rest, low = as_index(unit) // inner, as_index(unit) % inner
        if right_is_larger:
            block, panel, batch = low, rest % panels, rest // panels
        else:
            panel, block, batch = low, rest % row_blocks, rest // row_blocks
        at: dict[Var, Index] = {}
        for var in reversed(self.c.batch):
            at[var] = batch % var.extent if var is not self.c.batch[0] else batch
            batch = batch // var.extent
        body = self._split_rows(at, block, panel, row_blocks, panels)
        points = batches * self.c.rows * self.c.n.extent
        work = 2.0 * points * self.c.depth + self._epilogue_flops() * points
        name = self.context.name_of(self.group)
        return finish(self.context, name, self.group.members, unit, body, work)

    def _split_rows(
        self, at: dict[Var, Index], block: Index, panel: Index, blocks: int, panels: int
    ) -> tuple[Stmt, ...]:
        """Full tiles and the shorter ones at the edges, each with code of its own."""

        def across(rows: int, first_row: Index) -> tuple[Stmt, ...]:
            rest = self.c.n.extent % self.tile.columns
            edge = self._tile(at, first_row, as_index((panels - 1) * self.tile.columns), rows, rest) if rest else ()
            if self.c.n.extent < self.tile.columns:
                return edge
            full = self._tile(at, first_row, panel * self.tile.columns, rows, self.tile.columns)
            return (When(panel, 0, panels - 1, full, edge),) if rest else full

        rest = self.c.rows % self.tile.rows
        if self.c.rows < self.tile.rows:
            return across(rest, as_index(0))
        full = across(self.tile.rows, block * self.tile.rows)
        if not rest:
            return full
        return (When(block, 0, blocks - 1, full, across(rest, as_index((blocks - 1) * self.tile.rows))),)

    def _tile(self, at: dict[Var, Index], row: Index, column: Index, rows: int, columns: int) -> tuple[Stmt, ...]:
        lanes = self.tile.lanes
        runs = tiles(columns, columns, lanes)
        stride = -(-columns // lanes) * lanes
        acc = Buffer("acc", self.c.left.dtype, rows * stride, "register")
        k = {v: Var(v.name.replace("r", "k"), v.extent) for v in self.c.k}
        summed = {v: as_index(w) for v, w in k.items()}

        def sweep(point: _Point) -> tuple[Stmt, ...]:
            loops = []
            for start, vectors, extent in runs:
                i, vector, lane = Var("i", rows), Var("j", vectors), Var("l", extent)
                inside = as_index(vector) * lanes + as_index(lane) + start
                spot = as_index(i) * stride + inside
                body = For(lane, (point(acc, spot, row + as_index(i), column + inside),), "vector")
                loops.append(For(i, (For(vector, (body,), "unroll"),), "unroll"))
            return tuple(loops)

        def clear(acc: Buffer, spot: Index, _m: Index, _n: Index) -> Store:
            return Store(((acc, spot, Const(0.0, acc.dtype)),))

        def step(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
            where = {**at, **summed, self.c.n: n}
            if self.c.m is not None:
                where[self.c.m] = m
            a = Load(self.c.left.buffer, self.c.left.index.substitute(where))
            b = Load(self.c.right.buffer, self.c.right.index.substitute(where))
            return Store(((acc, spot, Apply("fma", (a, b, Load(acc, spot)), acc.dtype)),))

        def end(acc: Buffer, spot: Index, m: Index, n: Index) -> Store:
            return self._epilogue(at, m, n, Load(acc, spot))

        loop = sweep(step)
        for var in reversed(self.c.k):
            loop = (For(k[var], loop),)
        return (*sweep(clear), *loop, *sweep(end))

    def _epilogue(self, at: dict[Var, Index], m: Index, n: Index, result: Expr) -> Store:
        assert self.group.root is not None
        where = {**at, self.c.n: n}
        if self.c.m is not None:
            where[self.c.m] = m
        puller = group_puller(self.context, self.group)
        puller.hold(self.group.root, result)
        return stores(self.context, self.group, puller, tuple(where.get(v, as_index(0)) for v in self.out))

    def _epilogue_flops(self) -> float:
        zero = {v: as_index(0) for v in self.c.batch}
        after = self._epilogue(zero, as_index(0), as_index(0), Const(0.0, self.c.left.dtype))
        return flops_of([v for _, _, v in after.targets])
