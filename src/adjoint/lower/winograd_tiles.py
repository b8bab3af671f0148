"""Convolutions whose windows have three rows, with half of the products: see `adjoint.lower.winograd`.

A unit is some rows of some images, all their channels; what passes between the three steps stays in the second-level
cache::

    for c, row of tiles t, column x:                      image -> scratch
      v[0..6, c, t, x] = data @ image[c, 4 * t + 0..6, x]
    for each block of output channels:
      for p in 0..6:                                      a product of matrices, in register tiles
        sums[p, o, t, x] = sum over c, s of u[p, o, c, s] * v[p, c, t, x + s]
      for o, t, x:                                        and the epilogue
        out[o, 4 * t + 0..4, x] = result @ sums[0..6, o, t, x]

The transformed weights `u` come from a kernel of their own. Rows of `v` lie one behind the other, each with what
windows read beyond it, so that lanes may run over the ends of rows: where rows do not fill vectors, a few results that
nobody wants cost less than lanes that idle.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, prod

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Expr, For, Kernel, Load, Prefetch, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.ahead import FAR, Stretch, spread, stretch
from adjoint.lower.contractions import GATHERED, UNITS, Contraction, Plan, tiles_by_cost
from adjoint.lower.emit import Context, finish, group_puller, nest, pieces, ravel, stores, unravel, vector_loops
from adjoint.lower.fuse import Group
from adjoint.lower.match import join_rows
from adjoint.lower.tiles import TileBuilder
from adjoint.lower.walks import SLOTS, Asks, far_places
from adjoint.lower.winograd import TAPS, algorithm, combined
from adjoint.lower.winograd_rows import Roles, Rows, divisors, step

__all__ = ["WinogradPlan", "plan_winograd", "winograd_kernels"]

#: Bytes of transformed rows in a unit: they stay in a second-level cache beside weights and sums.
_ROOM = 384 * 1024
#: Bytes of them at most, on a thread's stack.
_MOST = 2 * 1024 * 1024
#: Bytes of transformed weights that come from beyond the first-level cache in a cycle: each unit reads all of them.
_STREAMED = 24.0
#: Units after which transformed weights need what is asked for.
_SOON = 8
#: Products in a sum that are worth transforming for.
_DEPTH = 16
#: Cycles to transform a vector of each row that meets, at either end.
_TRANSFORM = 16.0


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """How such a contraction runs.

    Parameters
    ----------
    roles : Roles
        What its axes are.
    images, rows : int
        How many images a unit takes, and how many rows of tiles.
    groups : int
        Parts of the output channels, each of which transforms the images anew, so that threads have enough to share.
    joined : bool
        Whether lanes run over the ends of rows.
    tile : tuple of int
        Rows, vectors and neighbours of the register tile.
    cycles : float
        What all of it is estimated to take one core.
    """

    roles: Roles
    images: int
    rows: int
    groups: int
    joined: bool
    tile: tuple[int, int, int]
    cycles: float


def plan_winograd(target: Target, c: Contraction) -> WinogradPlan | None:
    """The plan with the fewest estimated cycles, or None where a contraction is of another kind."""
    if c.m is None or c.left.dtype.itemsize != 4 or c.right.index.coefficient(c.n) != 1:
        return None
    roles = _roles(c)
    if roles is None or roles.depth < _DEPTH:
        return None
    plans = [
        _plan(target, c, roles, images, rows, joined) for images, rows in _units(c, roles) for joined in (False, True)
    ]
    return min(plans, key=lambda plan: plan.cycles, default=None)


def _units(c: Contraction, roles: Roles) -> Iterator[tuple[int, int]]:
    """How many images and rows of tiles a unit may take: all rows of one image before a second one."""
    line = roles.by.products * roles.lines * (c.columns + roles.beyond) * c.right.dtype.itemsize
    every = roles.tiles
    # Where weights are large, reading them once for more columns is worth more than the second-level cache.
    weights = roles.by.products * roles.depth * c.rows * c.left.dtype.itemsize
    room = max(_ROOM, min(weights // 8, _MOST))
    many = roles.images.extent if roles.images is not None else 1
    for images in divisors(many):
        for rows in divisors(every) if images == 1 else (every,):
            if images * rows * line <= (_MOST if images == rows == 1 else room):
                yield images, rows


def _plan(target: Target, c: Contraction, roles: Roles, images: int, rows: int, joined: bool) -> WinogradPlan:
    """The plan with the best register tile for such units."""
    product = _Product(Rows.of(c.right.dtype, roles, c.columns, images, rows), joined)
    weights = Buffer("u", c.left.dtype, roles.by.products * roles.depth * c.rows, "arena")
    small = product.contraction(target, c.rows, weights, as_index(0), c.rows)
    multiply, tile = tiles_by_cost(target, small, 0, packed=False)[0]
    lanes = target.lanes(c.left.dtype)
    lines = prod(v.extent for v in c.batch) // roles.high.extent * roles.tiles
    turns = lines // (images * rows)
    blocks = ceil(c.rows / tile[0])
    groups = next((d for d in divisors(blocks) if d * turns >= UNITS), blocks)
    before = groups * roles.lines * ceil((c.columns + roles.beyond) / lanes)
    transforms = lines * (before + c.rows * ceil(c.columns / lanes)) * _TRANSFORM * roles.by.products / 6
    made = c.rows * c.depth * prod(v.extent for v in roles.batch if c.left.index.coefficient(v)) * GATHERED
    streamed = turns * weights.nbytes / _STREAMED
    cycles = turns * roles.by.products * multiply + transforms + made + streamed
    return WinogradPlan(roles, images, rows, groups, joined, tile, cycles)


def _roles(c: Contraction) -> Roles | None:
    """What the axes are, or None where some are missing."""
    across = next((v for v in reversed(c.k) if step(c.right, v) == 1), None)
    for tap in c.k:
        down = step(c.right, tap)
        alike = [v for v in c.batch if down > 1 and step(c.right, v) == down and not c.left.index.coefficient(v)]
        if across is None or tap is across or tap.extent != TAPS or not alike:
            continue
        by = algorithm(alike[0].extent)
        rest = tuple(v for v in c.batch if v is not alike[0])
        several = bool(rest) and not c.left.index.coefficient(rest[-1])
        channels = tuple(v for v in c.k if v is not tap and v is not across)
        batch, images = (rest[:-1], rest[-1]) if several else (rest, None)
        return None if by is None else Roles(by, alike[0], tap, across, channels, batch, images)
    return None


@dataclass(frozen=True, slots=True)
class _Product:
    """The product at one point, from transformed rows to sums: ``[point, output channel, row of tiles, column]``.

    Parameters
    ----------
    rows : Rows
        The transformed rows.
    joined : bool
        Whether lanes run over the ends of rows.
    """

    rows: Rows
    joined: bool

    @property
    def sums(self) -> int:
        """Sums at one point for one output channel."""
        rows = self.rows
        return rows.count * rows.pitch - rows.roles.beyond if self.joined else rows.count * rows.columns

    def sum_at(self, column: Index) -> Index:
        """Where a sum of the current row of tiles is among them."""
        return self.rows.line * (self.rows.pitch if self.joined else self.rows.columns) + column

    def contraction(self, target: Target, count: int, weights: Buffer, base: Index, height: int) -> Contraction:
        """The product with `count` of the `height` rows of weights that lie side by side from `base`."""
        rows, across = self.rows, self.rows.roles.across
        k = (*rows.channels, Var(across.name, across.extent))
        m, line, n = Var("m", count), Var("t", rows.count), Var("x", self.sums if self.joined else rows.columns)
        column = as_index(n) + as_index(k[-1])
        at = as_index(0 if self.joined else line)
        before = as_index(rows.point) * rows.roles.depth + ravel(k, {v: as_index(v) for v in k})
        left = Load(weights, base + before * height + as_index(m))
        right = Load(rows.memory, as_index(rows.point) * rows.plane + rows.at(at, column))
        batch = () if self.joined or line.extent == 1 else (line,)
        place = (as_index(m), at * rows.columns + as_index(n))
        k = tuple(v for v in k if v.extent > 1)
        return join_rows(target, Contraction(left, right, m, n, batch, k, (m, *batch, n), place))


def winograd_kernels(context: Context, group: Group, c: Contraction, plan: WinogradPlan) -> list[Kernel]:
    """The transformed weights, and the product with the epilogue."""
    roles = plan.roles
    height, blocks = plan.tile[0], ceil(c.rows / plan.tile[0])
    of_left = tuple(v for v in roles.batch if c.left.index.coefficient(v))
    size = prod(v.extent for v in of_left) * blocks * roles.by.products * roles.depth * height
    weights = Buffer(f"{context.name_of(group)}_weights", c.left.dtype, size, "arena")
    product = _Product(Rows.of(c.right.dtype, roles, c.columns, plan.images, plan.rows), plan.joined)
    builder = _Builder(context, group, c, plan, weights, of_left, product)
    return [builder.transformed_weights(), builder.kernel()]


@dataclass(frozen=True, slots=True)
class _Builder:
    """Builds both kernels; `of_left` are the axes of the result that units walk and the weights have."""

    context: Context
    group: Group
    c: Contraction
    plan: WinogradPlan
    weights: Buffer
    of_left: tuple[Var, ...]
    product: _Product

    @property
    def _m(self) -> Var:
        assert self.c.m is not None
        return self.c.m

    @property
    def _blocks(self) -> int:
        return ceil(self.c.rows / self.plan.tile[0])

    def _base(self, at: dict[Var, Index], block: Index) -> Index:
        """Where a block of transformed weights begins."""
        roles = self.plan.roles
        return (ravel(self.of_left, at) * self._blocks + block) * (roles.by.products * roles.depth * self.plan.tile[0])

    # The weights

    def transformed_weights(self) -> Kernel:
        """A unit is a block of rows at one channel: ``[block, point, channel, column of the window, row]``."""
        roles, c, height = self.plan.roles, self.c, self.plan.tile[0]
        k = (*roles.channels, roles.across)
        unit = Var("u", prod(v.extent for v in (*self.of_left, *roles.channels)) * self._blocks)
        blocks = Var("block", self._blocks)
        axes = (*self.of_left, blocks, *roles.channels)
        at = unravel(axes, as_index(unit))
        soon = unravel(axes, (as_index(unit) + _SOON) % unit.extent)
        block, later = at.pop(blocks), soon.pop(blocks) * height
        at[roles.across] = as_index(roles.across)
        base = self._base(at, block)

        def transform(rows: int, first: Index) -> tuple[Stmt, ...]:
            def body(row: Index, _: Index) -> tuple[Stmt, ...]:
                where = {**at, self._m: first + row}
                taps = [c.element(c.left, {**where, roles.tap: as_index(r)}) for r in range(TAPS)]
                places = [base + (ravel(k, at) + p * roles.depth) * height + row for p in range(roles.by.products)]
                made = combined(roles.by.weight, taps)
                return (Store(tuple((self.weights, i, u) for i, u in zip(places, made, strict=True))),)

            return vector_loops(rows, self.context.target.lanes(c.left.dtype), body)

        body = nest([roles.across], pieces(block, c.rows, height, transform))
        if c.left.buffer.nbytes >= FAR and c.rows % height == 0:
            # Windows of one channel lie far from those of the next: nothing fetches them ahead by itself.
            row, corner = Var("i", height), {roles.tap: as_index(0), roles.across: as_index(0)}
            ask = Prefetch(c.left.buffer, c.left.index.substitute({**soon, **corner, self._m: later + as_index(row)}))
            body = (For(row, (ask,), "unroll"), *body)
        flops = 2.0 * self.weights.size * TAPS
        return finish(self.context, self.weights.name, self.group.members[:1], unit, body, flops)

    # The product

    def kernel(self) -> Kernel:
        """A unit is some rows of some images."""
        plan, roles, c, data = self.plan, self.plan.roles, self.c, self.product.rows
        unit = Var("u", prod(v.extent for v in self._turns()))
        at, soon = self._at(as_index(unit)), self._at((as_index(unit) + 1) % unit.extent)
        turn = Var("b", self._blocks // plan.groups)
        block = as_index(unit) % plan.groups * turn.extent + as_index(turn)

        def rows(count: int, first: Index) -> tuple[Stmt, ...]:
            memory = Buffer("sums", c.left.dtype, roles.by.products * count * self.product.sums, "scratch")
            ahead = self._ahead(count, first, at, as_index(turn), turn.extent, soon)
            multiply = self._multiply(memory, count, self._base(at, block), ahead)
            return (For(data.point, multiply), *self._end(memory, count, first, at))

        body = pieces(block, c.rows, plan.tile[0], rows)
        lanes = self.context.target.lanes(c.right.dtype)
        body = (*data.fill(lanes, c.right, at, c.n), *nest([turn], body))
        points = c.batches * c.rows * c.columns
        return finish(
            self.context, self.context.name_of(self.group), self.group.members, unit, body, 2.0 * points * c.depth
        )

    def _turns(self) -> tuple[Var, ...]:
        """The axes that units walk."""
        plan, roles = self.plan, self.plan.roles
        many = roles.images.extent // plan.images if roles.images is not None else 1
        lines = Var("rows", roles.tiles // plan.rows)
        return (*roles.batch, Var("images", many), lines, Var("group", plan.groups))

    def _at(self, unit: Index) -> dict[Var, Index]:
        """A unit's current image, and its row of tiles in place of `high`."""
        plan, roles, data = self.plan, self.plan.roles, self.product.rows
        axes = self._turns()
        at = unravel(axes, unit)
        line, image = at.pop(axes[-2]), at.pop(axes[-3])
        del at[axes[-1]]
        at[roles.high] = line * plan.rows + as_index(data.row)
        if roles.images is not None:
            at[roles.images] = image * plan.images + as_index(data.image)
        return at

    def _ahead(
        self, count: int, first: Index, at: dict[Var, Index], turn: Index, turns: int, soon: dict[Var, Index]
    ) -> list[Stretch]:
        """What is asked for while a block is multiplied: what its epilogue needs, and a share of the next images."""
        plan, roles, c, data = self.plan, self.plan.roles, self.c, self.product.rows
        here = {data.row: as_index(0), data.image: as_index(0)}

        def start(where: dict[Var, Index]) -> dict[Var, Index]:
            corner = {v: i.substitute(here) for v, i in where.items()}
            corner[roles.high] = corner[roles.high] * roles.by.outputs
            return {**{v: as_index(0) for v in (*c.axes, *c.k)}, **corner}

        box = {roles.high: min(plan.rows * roles.by.outputs, roles.high.extent), c.n: c.columns}
        if roles.images is not None:
            box[roles.images] = plan.images
        places = far_places(self.context, self.group, c, {})
        results = [stretch(b, i, {**box, self._m: count}, {**start(at), self._m: first}, w) for b, i, w in places]
        whole = {**box, **{v: v.extent for v in c.k}}
        image = stretch(c.right.buffer, c.right.index, whole, start(soon))
        return [s for s in (*results, image and image.share(turn, turns)) if s is not None]

    def _multiply(self, memory: Buffer, count: int, base: Index, ahead: list[Stretch]) -> tuple[Stmt, ...]:
        """The product with a block of weights, at one point."""
        plan, product = self.plan, self.product
        height, vectors, stack = plan.tile
        target = self.context.target
        small = product.contraction(target, count, self.weights, base, height)
        lanes = min(target.lanes(small.left.dtype), 1 << (small.columns - 1).bit_length())
        own = Plan(height, vectors, lanes, stack, False, False, False, 1, small.depth, 1, 0.0)
        neighbour = Var("s", stack)
        tiles = TileBuilder(self.context, self.group, small, own, neighbour)
        batch: dict[Var, Index] = {}
        turns: list[Var] = []
        for line in small.batch:
            turns.append(Var(line.name, line.extent // stack))
            batch[line] = as_index(turns[-1]) * stack + as_index(neighbour)

        def keep(acc: Buffer, spot: Index, row: Index, column: Index) -> Store:
            place = small.place[1].substitute({**batch, small.n: column})
            return Store(
                ((memory, (as_index(product.rows.point) * count + row) * product.sums + place, Load(acc, spot)),)
            )

        panel = Var("panel", ceil(small.columns / own.columns))

        slots = min(small.k[0].extent, SLOTS)
        step = ravel((product.rows.point, *turns, panel), {v: as_index(v) for v in (product.rows.point, *turns, panel)})
        steps = product.rows.point.extent * prod(v.extent for v in (*turns, panel)) * slots
        asks = Asks(slots, lambda slot: spread(ahead, step * slots + slot, steps))

        def tile(columns: int, column: Index) -> tuple[Stmt, ...]:
            return tiles.tile((count, columns), as_index(0), column, batch, keep, asks)

        return nest((*turns, panel), pieces(as_index(panel), small.columns, own.columns, tile))

    def _end(self, memory: Buffer, count: int, first: Index, at: dict[Var, Index]) -> tuple[Stmt, ...]:
        """The results of a block of weights, and what comes after the contraction."""
        roles, c, product = self.plan.roles, self.c, self.product
        row = Var("o", count)

        def lines(some: int, line: Index) -> tuple[Stmt, ...]:
            def body(column: Index, _: Index) -> tuple[Stmt, ...]:
                before = [(as_index(row) + p * count) * product.sums for p in range(roles.by.products)]
                terms = [Load(memory, place + product.sum_at(column)) for place in before]
                where = {**{v: as_index(0) for v in c.axes}, **at, c.n: column, self._m: first + as_index(row)}
                targets: list[tuple[Buffer, Index, Expr]] = []
                for number, result in enumerate(combined(roles.by.result[:some], terms)):
                    targets += self._epilogue({**where, roles.high: line + number}, result).targets
                return (Store(tuple(targets)),)

            return vector_loops(c.columns, self.context.target.lanes(c.left.dtype), body)

        loops = pieces(at[roles.high], roles.high.extent, roles.by.outputs, lines)
        return nest((row, product.rows.image, product.rows.row), loops)

    def _epilogue(self, where: dict[Var, Index], result: Expr) -> Store:
        assert self.group.root is not None
        puller = group_puller(self.context, self.group)
        puller.hold(self.group.root, result)
        return stores(self.context, self.group, puller, self.c.index(where))
