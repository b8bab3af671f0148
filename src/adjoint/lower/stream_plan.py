"""How streams that pass by the same rows run as one kernel: what they share, and the memory of a unit of work.

Dot products that are the same element for element are computed once, and so are weights. Attention and the logarithm of
its sums share both; the gradients of keys and values share the product of query and key.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil

import numpy as np

from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, For, Load, Stmt, Store
from adjoint.lower.emit import Context, group_puller
from adjoint.lower.fuse import Group
from adjoint.lower.pull import Puller, Stream, compute_dtype, output_vars

__all__ = ["Part", "Rows", "StreamPlan", "describe", "plan_streams"]

#: Vectors of rows in a unit: each element of a step is read for both.
_VECTORS = 2
#: Steps in a block. Few, so that not much is computed of what causal attention leaves out, and that weights stay in
#: the first-level cache; enough to be worth fetching the sums.
_BLOCK = 32


@dataclass(frozen=True, slots=True)
class Part:
    """One of the streams of a kernel.

    Parameters
    ----------
    group : Group
        The group whose root it is.
    stream : Stream
        Its description, at some place.
    dots : tuple of int
        Numbers of its dot products among those of the kernel.
    weight : int
        Number of its weights among those of the kernel.
    columns : int
        Columns of its result; 0 where it has none.
    """

    group: Group
    stream: Stream
    dots: tuple[int, ...]
    weight: int
    columns: int


@dataclass(frozen=True, slots=True)
class StreamPlan:
    """How a kernel of streams runs.

    Parameters
    ----------
    parts : tuple of Part
        Its streams.
    batch : tuple of int
        Leading axes of all results.
    rows, count : int
        Rows of all results; steps.
    dtype : numpy.dtype
        What is computed in.
    dots : tuple of (Part number, dot number)
        A stream that has each dot product of the kernel.
    weights : tuple of Part number
        A stream that has each of the kernel's weights.
    depths : tuple of int
        The depth of each dot product.
    lanes, vectors, block, tile : int
        Lanes of a vector; vectors of rows in a unit; steps in a block; elements of each row that are summed at once.
    """

    parts: tuple[Part, ...]
    batch: tuple[int, ...]
    rows: int
    count: int
    dtype: np.dtype
    dots: tuple[tuple[int, int], ...]
    weights: tuple[int, ...]
    depths: tuple[int, ...]
    lanes: int
    vectors: int
    block: int
    tile: int

    @property
    def width(self) -> int:
        """Rows in a unit."""
        return self.lanes * self.vectors

    def is_relative(self, weight: int) -> bool:
        """Whether weights are exponents, of which the greatest of each row is kept."""
        return self.parts[self.weights[weight]].stream.kind != "sum"

    def whole_columns(self, part: Part) -> int:
        """Columns rounded up to whole vectors."""
        return ceil(part.columns / self.lanes) * self.lanes


def describe(context: Context, group: Group, index: Sequence[Index]) -> tuple[Puller, Stream]:
    """The stream of a group at an index, and the puller that made it."""
    assert group.root is not None
    puller = group_puller(context, group)
    made = puller.describe(group.root, tuple(index))
    assert isinstance(made, Stream)
    return puller, made


def plan_streams(context: Context, groups: Sequence[Group]) -> StreamPlan:
    """The plan of a kernel that computes the roots of all groups, which stream over the same rows and steps."""
    root = groups[0].root
    assert root is not None
    at = [as_index(v) for v in output_vars(root.shape)]
    first = describe(context, groups[0], at)[1]
    at = at[: len(root.shape) - (first.values is not None)]
    # Forms of dot products and of weights, each with the first place where it is found.
    dots: dict[Hashable, tuple[int, int]] = {}
    weights: dict[Hashable, int] = {}
    deep = {dot.depth: as_index(Var("d", dot.depth)) for group in groups for dot in _stream(context, group, at).dots}
    n, depths = as_index(Var("n", first.count)), []
    products: dict[int, Buffer] = {}
    dtype = compute_dtype(root.dtype)
    parts: list[Part] = []
    for number, group in enumerate(groups):
        made, found = _stream(context, group, at), []
        for place, dot in enumerate(made.dots):
            form = (dot.depth, _form(dot.row(deep[dot.depth])), _form(dot.step(n, deep[dot.depth])))
            if form not in dots:
                dots[form] = (number, place)
                depths.append(dot.depth)
            found.append(list(dots).index(form))
        loads = [Load(products.setdefault(k, Buffer(f"dot{k}", dtype, 1, "register")), as_index(0)) for k in found]
        weight = (made.kind == "sum", _form(made.weight(n, loads)))
        weights.setdefault(weight, number)
        columns = group.root.shape[-1] if group.root is not None and made.values is not None else 0
        parts.append(Part(group, made, tuple(found), list(weights).index(weight), columns))
    target, shape = context.target, root.shape[: len(at)]
    lanes = target.lanes(dtype)
    # With two vectors each, the sums of a tile take half of the registers.
    tile = max(target.vector_registers // (2 * _VECTORS), 1)
    sizes = lanes, _VECTORS, min(_BLOCK, first.count), tile
    places = tuple(dots.values()), tuple(weights.values()), tuple(depths)
    return StreamPlan(tuple(parts), shape[:-1], shape[-1], first.count, dtype, *places, *sizes)


def _stream(context: Context, group: Group, at: Sequence[Index]) -> Stream:
    """The stream of a group at a row, and its first column if it has columns."""
    assert group.root is not None
    return describe(context, group, (*at, as_index(0))[: len(group.root.shape)])[1]


def _form(expr: Expr) -> Hashable:
    """Equal for expressions that compute the same from the same elements."""
    if isinstance(expr, Load):
        return expr.buffer, expr.index, None if expr.guard is None else _form(expr.guard)
    if isinstance(expr, Coordinate):
        return expr.index, expr.dtype
    if isinstance(expr, Const):
        return repr(expr.value), expr.dtype
    assert isinstance(expr, Apply)
    return expr.function, expr.dtype, *map(_form, expr.operands)


@dataclass(frozen=True)
class Rows:
    """The rows of a unit of work, and the memory of the thread that works on them.

    Parameters
    ----------
    plan : StreamPlan
        The kernel's.
    at : tuple of Index
        Coordinates of the batch axes.
    first : Index
        The first row.
    count : int
        How many there are. The last vector may have lanes to spare, which compute and are not stored.
    """

    plan: StreamPlan
    at: tuple[Index, ...]
    first: Index
    count: int

    @property
    def vectors(self) -> int:
        """Vectors that hold all rows."""
        return ceil(self.count / self.plan.lanes)

    @property
    def width(self) -> int:
        """Lanes of all vectors."""
        return self.plan.lanes * self.vectors

    @cached_property
    def panels(self) -> tuple[Buffer, ...]:
        """The rows' factors of each dot product, ``[d, row]``."""
        return tuple(self._scratch(f"panel{n}", depth) for n, depth in enumerate(self.plan.depths))

    @cached_property
    def dots(self) -> tuple[Buffer, ...]:
        """Dot products of a block, ``[step, row]``."""
        return tuple(self._scratch(f"dots{n}", self.plan.block) for n, _ in enumerate(self.plan.depths))

    @cached_property
    def weights(self) -> tuple[Buffer, ...]:
        """Weights of a block, ``[step, row]``: in the place of dot products, as far as there are as many."""
        more = range(len(self.dots), len(self.plan.weights))
        made = *self.dots, *(self._scratch(f"weights{n}", self.plan.block) for n in more)
        return made[: len(self.plan.weights)]

    @cached_property
    def sums(self) -> tuple[Buffer, ...]:
        """Sums of each stream, ``[column, row]``."""
        parts = enumerate(self.plan.parts)
        return tuple(self._scratch(f"sums{n}", self.plan.whole_columns(part)) for n, part in parts)

    @cached_property
    def turned(self) -> Buffer:
        """Sums of one stream, ``[row, column]``."""
        return self._scratch("turned", max(map(self.plan.whole_columns, self.plan.parts)))

    @cached_property
    def top(self) -> tuple[Buffer, ...]:
        """The greatest of all weights so far, of each row, for weights that are exponents."""
        return self._each_weight("top")

    @cached_property
    def total(self) -> tuple[Buffer, ...]:
        """The sum of exponentials relative to the greatest weight."""
        return self._each_weight("total")

    @cached_property
    def scale(self) -> tuple[Buffer, ...]:
        """By what sums are to be multiplied."""
        return self._each_weight("scale")

    def _each_weight(self, name: str) -> tuple[Buffer, ...]:
        return tuple(self._scratch(f"{name}{n}", 1) for n, _ in enumerate(self.plan.weights))

    def _scratch(self, name: str, count: int) -> Buffer:
        return Buffer(name, self.plan.dtype, count * self.width, "scratch")

    def registers(self, name: str, count: int = 1) -> Buffer:
        """Registers for `count` elements of each row."""
        return Buffer(name, self.plan.dtype, count * self.width, "register")

    def each(self, body: Callable[[Index], Store], count: int = 1) -> tuple[Stmt, ...]:
        """Unrolled: `body` at ``element * width + row`` for the rows of each of `count` elements."""
        i, vector, lane = Var("i", count), Var("v", self.vectors), Var("l", self.plan.lanes)
        spot = as_index(i) * self.width + as_index(vector) * self.plan.lanes + as_index(lane)
        loop = For(vector, (For(lane, (body(spot),), "vector"),), "unroll")
        return (For(i, (loop,), "unroll"),) if count > 1 else (loop,)

    def tiles(self, count: int, body: Callable[[int, Index], tuple[Stmt, ...]]) -> tuple[Stmt, ...]:
        """Tiles of steps or columns, given their sizes and first elements: whole ones, and a shorter one."""
        many, rest = divmod(count, self.plan.tile)
        turn = Var("t", many)
        loop: list[Stmt] = [For(turn, body(self.plan.tile, as_index(turn) * self.plan.tile))] if many else []
        return (*loop, *body(rest, as_index(many * self.plan.tile))) if rest else tuple(loop)
