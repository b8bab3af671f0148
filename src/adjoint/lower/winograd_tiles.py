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
from adjoint.kernel.ir import Buffer, Expr, For, Kernel, Load, Stmt, Store
from adjoint.kernel.target import Target
from adjoint.lower.contractions import GATHERED, UNITS, Contraction, Plan, tiles_by_cost
from adjoint.lower.emit import Context, finish, group_puller, nest, pieces, ravel, stores, unravel, vector_loops
from adjoint.lower.fuse import Group
from adjoint.lower.match import join_rows
from adjoint.lower.tiles import TileBuilder
from adjoint.lower.winograd import TAPS, Algorithm, algorithm, combined

__all__ = ["WinogradPlan", "plan_winograd", "winograd_kernels"]

#: Bytes of transformed rows in a unit: they stay in a second-level cache beside weights and sums.
_ROOM = 384 * 1024
#: Bytes of transformed weights that come from beyond the first-level cache in a cycle: each unit reads all of them.
_STREAMED = 24.0
#: Products in a sum that are worth transforming for.
_DEPTH = 16
#: Cycles to transform a vector of each row that meets, at either end.
_TRANSFORM = 16.0


@dataclass(frozen=True, slots=True)
class _Roles:
    """What the axes of a contraction are.

    Parameters
    ----------
    by : Algorithm
        Of the axis `high`.
    high, tap : Var
        Rows of the result, and of the window.
    across : Var or None
        Columns of the window.
    channels : tuple of Var
        The other summed axes.
    batch : tuple of Var
        Axes of the result of which a unit is at one place.
    images : Var or None
        The axis of the result of which a unit takes several.
    """

    by: Algorithm
    high: Var
    tap: Var
    across: Var | None
    channels: tuple[Var, ...]
    batch: tuple[Var, ...]
    images: Var | None

    @classmethod
    def of(cls, c: Contraction) -> "_Roles | None":
        """The roles, or None where some are missing."""
        across = next((v for v in reversed(c.k) if _step(c.right, v) == 1), None)
        for tap in c.k:
            step = _step(c.right, tap)
            alike = [v for v in c.batch if step > 1 and _step(c.right, v) == step and not c.left.index.coefficient(v)]
            if tap is across or tap.extent != TAPS or not alike:
                continue
            by = algorithm(alike[0].extent)
            rest = tuple(v for v in c.batch if v is not alike[0])
            several = bool(rest) and not c.left.index.coefficient(rest[-1])
            channels = tuple(v for v in c.k if v is not tap and v is not across)
            batch, images = (rest[:-1], rest[-1]) if several else (rest, None)
            return None if by is None else cls(by, alike[0], tap, across, channels, batch, images)
        return None

    @property
    def depth(self) -> int:
        """Products in a sum at one point."""
        return self.lines * (self.across.extent if self.across is not None else 1)

    @property
    def lines(self) -> int:
        """Rows of an image, over all channels, that one row of the result needs at one row of the window."""
        return prod(v.extent for v in self.channels)

    @property
    def beyond(self) -> int:
        """Elements that windows read beyond a row of the result."""
        return self.across.extent - 1 if self.across is not None else 0


def _step(load: Load, var: Var) -> int:
    return load.index.coefficient(var) or 0


@dataclass(frozen=True, slots=True)
class WinogradPlan:
    """How such a contraction runs.

    Parameters
    ----------
    roles : _Roles
        What its axes are.
    images, rows : int
        How many images a unit takes, and how many rows of tiles.
    joined : bool
        Whether lanes run over the ends of rows.
    tile : tuple of int
        Rows, vectors and neighbours of the register tile.
    cycles : float
        What all of it is estimated to take one core.
    """

    roles: _Roles
    images: int
    rows: int
    joined: bool
    tile: tuple[int, int, int]
    cycles: float


def plan_winograd(target: Target, c: Contraction) -> WinogradPlan | None:
    """The plan with the fewest estimated cycles, or None where a contraction is of another kind."""
    if c.m is None or c.left.dtype.itemsize != 4 or c.right.index.coefficient(c.n) != 1:
        return None
    roles = _Roles.of(c)
    if roles is None or roles.depth < _DEPTH:
        return None
    plans = [
        _plan(target, c, roles, images, rows, joined) for images, rows in _units(c, roles) for joined in (False, True)
    ]
    return min(plans, key=lambda plan: plan.cycles)


def _units(c: Contraction, roles: _Roles) -> Iterator[tuple[int, int]]:
    """How many images and rows of tiles a unit may take: all rows of one image before a second one."""
    line = roles.by.products * roles.lines * (c.columns + roles.beyond) * c.right.dtype.itemsize
    every = roles.high.extent // roles.by.outputs
    many = roles.images.extent if roles.images is not None else 1
    for images in _divisors(many):
        for rows in _divisors(every) if images == 1 else (every,):
            units = prod(v.extent for v in roles.batch) * (many // images) * (every // rows)
            if images == rows == 1 or (images * rows * line <= _ROOM and units >= UNITS):
                yield images, rows


def _divisors(extent: int) -> list[int]:
    return [d for d in range(1, extent + 1) if extent % d == 0]


def _plan(target: Target, c: Contraction, roles: _Roles, images: int, rows: int, joined: bool) -> WinogradPlan:
    """The plan with the best register tile for such units."""
    data = _Data.of(c, roles, images, rows, joined)
    weights = Buffer("u", c.left.dtype, roles.by.products * roles.depth * c.rows, "arena")
    small = data.product(target, c.rows, weights, as_index(0), c.rows)
    multiply, tile = tiles_by_cost(target, small, 0, packed=False)[0]
    lanes = target.lanes(c.left.dtype)
    lines = prod(v.extent for v in c.batch) // roles.by.outputs
    ends = roles.lines * ceil((c.columns + roles.beyond) / lanes) + c.rows * ceil(c.columns / lanes)
    transforms = lines * ends * _TRANSFORM * roles.by.products / 6
    turns = lines // (images * rows)
    made = c.rows * c.depth * prod(v.extent for v in roles.batch if c.left.index.coefficient(v)) * GATHERED
    streamed = turns * weights.nbytes / _STREAMED
    cycles = turns * roles.by.products * multiply + transforms + made + streamed
    return WinogradPlan(roles, images, rows, joined, tile, cycles)


@dataclass(frozen=True, slots=True)
class _Data:
    """The transformed rows of a unit: ``[point, channel, image, row of tiles, column]``, and the product with them.

    Parameters
    ----------
    memory : Buffer
        Scratch.
    roles : _Roles
        Of the contraction.
    point, image, row : Var
        The first and the inner axes.
    channels : tuple of Var
        The channels' own variables.
    columns, pitch : int
        Columns of the result, and elements of a row.
    joined : bool
        Whether the product has one long row.
    """

    memory: Buffer
    roles: _Roles
    point: Var
    image: Var
    row: Var
    channels: tuple[Var, ...]
    columns: int
    pitch: int
    joined: bool

    @classmethod
    def of(cls, c: Contraction, roles: _Roles, images: int, rows: int, joined: bool) -> "_Data":
        """For units of so many images and rows."""
        pitch = c.columns + roles.beyond
        size = roles.by.products * roles.lines * images * rows * pitch
        memory = Buffer("v", c.right.dtype, size, "scratch")
        channels = tuple(Var(v.name, v.extent) for v in roles.channels)
        axes = Var("p", roles.by.products), Var("i", images), Var("t", rows)
        return cls(memory, roles, *axes, channels, c.columns, pitch, joined)

    @property
    def sums(self) -> int:
        """Sums at one point for one row of weights."""
        rows = self.image.extent * self.row.extent
        return rows * self.pitch - self.roles.beyond if self.joined else rows * self.columns

    def at(self, row: Index, column: Index) -> Index:
        """Where a transformed element of the current channel is, at point 0."""
        channel = ravel(self.channels, {v: as_index(v) for v in self.channels})
        return (channel * (self.image.extent * self.row.extent) + row) * self.pitch + column

    def sum_at(self, column: Index) -> Index:
        """Where a sum of the current image and row of tiles is, among those at one point for one row of weights."""
        return self.line * (self.pitch if self.joined else self.columns) + column

    @property
    def line(self) -> Index:
        """The row of tiles in the unit."""
        return as_index(self.image) * self.row.extent + as_index(self.row)

    def product(self, target: Target, rows: int, weights: Buffer, base: Index, height: int) -> Contraction:
        """At one point, the product with `rows` of the `height` rows of weights that lie side by side from `base`."""
        across = self.roles.across
        k = (*self.channels, Var(across.name, across.extent)) if across is not None else self.channels
        m, line = Var("m", rows), Var("t", self.image.extent * self.row.extent)
        n = Var("x", self.sums if self.joined else self.columns)
        column = as_index(n) + as_index(k[-1]) if across is not None else as_index(n)
        start = as_index(self.point) * (self.memory.size // self.point.extent)
        step = as_index(self.point) * self.roles.depth + ravel(k, {v: as_index(v) for v in k})
        left = Load(weights, base + step * height + as_index(m))
        right = Load(self.memory, start + self.at(as_index(0) if self.joined else as_index(line), column))
        batch = () if self.joined or line.extent == 1 else (line,)
        place = (as_index(m), as_index(line if not self.joined else 0) * self.columns + as_index(n))
        k = tuple(v for v in k if v.extent > 1)
        return join_rows(target, Contraction(left, right, m, n, batch, k, (m, *batch, n), place))


def winograd_kernels(context: Context, group: Group, c: Contraction, plan: WinogradPlan) -> list[Kernel]:
    """The transformed weights, and the product with the epilogue."""
    roles = plan.roles
    height, blocks = plan.tile[0], ceil(c.rows / plan.tile[0])
    of_left = tuple(v for v in roles.batch if c.left.index.coefficient(v))
    size = prod(v.extent for v in of_left) * blocks * roles.by.products * roles.depth * height
    weights = Buffer(f"{context.name_of(group)}_weights", c.left.dtype, size, "arena")
    data = _Data.of(c, roles, plan.images, plan.rows, plan.joined)
    builder = _Builder(context, group, c, plan, weights, of_left, data)
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
    data: _Data

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
        k = (*roles.channels, roles.across) if roles.across is not None else roles.channels
        unit = Var("u", prod(v.extent for v in (*self.of_left, *roles.channels)) * self._blocks)
        channels = unravel(roles.channels, as_index(unit) % roles.lines)
        block = as_index(unit) // roles.lines % self._blocks
        at = {**channels, **unravel(self.of_left, as_index(unit) // (roles.lines * self._blocks))}
        if roles.across is not None:
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

        body = pieces(block, c.rows, height, transform)
        body = nest([roles.across], body) if roles.across is not None else body
        flops = 2.0 * self.weights.size * TAPS
        return finish(self.context, self.weights.name, self.group.members[:1], unit, body, flops)

    # The product

    def kernel(self) -> Kernel:
        """A unit is some rows of some images."""
        plan, roles, c, data = self.plan, self.plan.roles, self.c, self.data
        turns = Var("rows", roles.high.extent // (roles.by.outputs * plan.rows))
        many = roles.images.extent // plan.images if roles.images is not None else 1
        some = Var("images", many)
        axes = (*roles.batch, some, turns)
        unit = Var("u", prod(v.extent for v in axes))
        at = unravel(axes, as_index(unit))
        line = at.pop(turns) * plan.rows + as_index(data.row)
        image = at.pop(some) * plan.images + as_index(data.image)
        if roles.images is not None:
            at[roles.images] = image
        block = Var("b", self._blocks)

        def rows(count: int, first: Index) -> tuple[Stmt, ...]:
            memory = Buffer("sums", c.left.dtype, roles.by.products * count * data.sums, "scratch")
            multiply = self._multiply(memory, count, self._base(at, as_index(block)))
            return (For(data.point, multiply), *self._end(memory, count, first, at, line))

        body = pieces(as_index(block), c.rows, plan.tile[0], rows)
        body = (*self._begin(at, line), *nest([block], body))
        points = c.batches * c.rows * c.columns
        return finish(
            self.context, self.context.name_of(self.group), self.group.members, unit, body, 2.0 * points * c.depth
        )

    def _begin(self, at: dict[Var, Index], line: Index) -> tuple[Stmt, ...]:
        """Transform rows of the image."""
        roles, c, data = self.plan.roles, self.c, self.data
        zero = {roles.across: as_index(0)} if roles.across is not None else {}
        channels = {v: as_index(own) for v, own in zip(roles.channels, data.channels, strict=True)}
        plane = data.memory.size // roles.by.products

        def body(column: Index, _: Index) -> tuple[Stmt, ...]:
            where = {**at, **zero, **channels, roles.high: line * roles.by.outputs, c.n: column}
            rows = [c.element(c.right, {**where, roles.tap: as_index(r)}) for r in range(roles.by.products)]
            made = combined(roles.by.data, rows)
            place = data.at(data.line, column)
            return (Store(tuple((data.memory, place + p * plane, v) for p, v in enumerate(made))),)

        loops = vector_loops(data.pitch, self.context.target.lanes(c.right.dtype), body)
        return nest((*data.channels, data.image, data.row), loops)

    def _multiply(self, memory: Buffer, count: int, base: Index) -> tuple[Stmt, ...]:
        """The product with a block of weights, at one point."""
        plan, data = self.plan, self.data
        height, vectors, stack = plan.tile
        target = self.context.target
        small = data.product(target, count, self.weights, base, height)
        lanes = min(target.lanes(small.left.dtype), 1 << (small.columns - 1).bit_length())
        own = Plan(height, vectors, lanes, stack, False, False, False, small.depth, 1, 0.0)
        neighbour = Var("s", stack)
        tiles = TileBuilder(self.context, self.group, small, own, neighbour)
        batch, turns = {}, []
        for line in small.batch:
            turns.append(Var(line.name, line.extent // stack))
            batch[line] = as_index(turns[-1]) * stack + as_index(neighbour)

        def keep(acc: Buffer, spot: Index, row: Index, column: Index) -> Store:
            place = small.place[1].substitute({**batch, small.n: column})
            return Store(((memory, (as_index(data.point) * count + row) * data.sums + place, Load(acc, spot)),))

        panel = Var("panel", ceil(small.columns / own.columns))

        def tile(columns: int, column: Index) -> tuple[Stmt, ...]:
            return tiles.tile((count, columns), as_index(0), column, batch, keep)

        return nest([*turns, panel], pieces(as_index(panel), small.columns, own.columns, tile))

    def _end(self, memory: Buffer, count: int, first: Index, at: dict[Var, Index], line: Index) -> tuple[Stmt, ...]:
        """The results of a block of weights, and what comes after the contraction."""
        roles, c, data = self.plan.roles, self.c, self.data
        row = Var("o", count)

        def body(column: Index, _: Index) -> tuple[Stmt, ...]:
            places = [(as_index(row) + p * count) * data.sums + data.sum_at(column) for p in range(roles.by.products)]
            results = combined(roles.by.result, [Load(memory, place) for place in places])
            targets: list[tuple[Buffer, Index, Expr]] = []
            for number, result in enumerate(results):
                where = {**{v: as_index(0) for v in c.axes}, **at, c.n: column, self._m: first + as_index(row)}
                where[roles.high] = line * roles.by.outputs + number
                targets += self._epilogue(where, result).targets
            return (Store(tuple(targets)),)

        loops = vector_loops(c.columns, self.context.target.lanes(c.left.dtype), body)
        return nest((row, data.image, data.row), loops)

    def _epilogue(self, where: dict[Var, Index], result: Expr) -> Store:
        assert self.group.root is not None
        puller = group_puller(self.context, self.group)
        puller.hold(self.group.root, result)
        return stores(self.context, self.group, puller, self.c.index(where))
