"""How attention operators over the same rows and steps run as one kernel: what they share, and the memory of a unit.

Dot products that are structurally equal are computed once, and so are weights. Attention and the logarithm of its sums
share both; the gradients of keys and values share the product of query and key.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import Generic, TypeVar

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, For, Load, Stmt, Store, postorder
from adjoint.lower.analysis.inlining import FusedAttention, Inliner, compute_dtype, output_vars
from adjoint.lower.context import Context, group_inliner
from adjoint.lower.fusion.groups import Group

__all__ = ["AttentionPlan", "FusedOperator", "PackedOperand", "RowBlock", "SharedDot", "describe", "plan_attention"]

_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class FusedOperator:
    """An operator of the kernel.

    Parameters
    ----------
    group : Group
        The group whose root it is.
    kind : str
        The kind in its `FusedAttention`.
    dots : tuple of int
        Numbers of its dot products among those of the kernel.
    weight : int
        Number of its weights among those of the kernel.
    columns : int
        Columns of its result; 0 where it has none.
    values : int or None
        Number of its packed values, if they are packed.
    """

    group: Group
    kind: str
    dots: tuple[int, ...]
    weight: int
    columns: int
    values: int | None


@dataclass(frozen=True, slots=True)
class SharedDot:
    """A dot product of a kernel.

    Parameters
    ----------
    operator, place : int
        An operator that has it, and its number there.
    depth : int
        Number of products.
    step : int or None
        Number of the steps' packed factors, if they are packed.
    """

    operator: int
    place: int
    depth: int
    step: int | None


@dataclass(frozen=True, slots=True)
class PackedOperand:
    """Elements of steps that are packed block by block, because those of neighbouring steps are not contiguous.

    Rows with a large stride, such as those of one head among several, map to few sets of the first-level cache and
    evict each other.

    Parameters
    ----------
    operator : int
        An operator that reads them.
    place : int or None
        Number of the dot product of which they are factors; None for values.
    size : int
        Elements per step.
    """

    operator: int
    place: int | None
    size: int


@dataclass(frozen=True, slots=True)
class AttentionPlan:
    """How a kernel of attention operators runs.

    Parameters
    ----------
    operators : tuple of FusedOperator
        Its operators.
    dots : tuple of SharedDot
        Its dot products.
    weights : tuple of int
        For each of its weights, the number of an operator that has it, and that has the factor if there is one.
    packed : tuple of PackedOperand
        What is packed of each block of steps.
    batch : tuple of int
        Leading axes of all results.
    rows, count : int
        Rows of all results; number of steps.
    dtype : numpy.dtype
        The dtype of the arithmetic.
    lanes, vectors, block, tile : int
        Lanes of a vector; vectors of rows in a unit; steps in a block; elements of each row in a register tile.
    """

    operators: tuple[FusedOperator, ...]
    dots: tuple[SharedDot, ...]
    weights: tuple[int, ...]
    packed: tuple[PackedOperand, ...]
    batch: tuple[int, ...]
    rows: int
    count: int
    dtype: np.dtype
    lanes: int
    vectors: int
    block: int
    tile: int

    @property
    def width(self) -> int:
        """Rows in a unit."""
        return self.lanes * self.vectors

    def is_relative(self, weight: int) -> bool:
        """Whether weights are exponents, for which each row keeps a running maximum."""
        return self.operators[self.weights[weight]].kind != "sum"

    def whole_columns(self, operator: FusedOperator) -> int:
        """Columns rounded up to whole vectors."""
        return ceil(operator.columns / self.lanes) * self.lanes


def describe(context: Context, group: Group, index: Sequence[Index]) -> tuple[Inliner, FusedAttention]:
    """The attention description of a group at an index, and the inliner that made it."""
    assert group.root is not None
    inliner = group_inliner(context, group)
    made = inliner.describe(group.root, tuple(index))
    assert isinstance(made, FusedAttention)
    return inliner, made


def plan_attention(context: Context, groups: Sequence[Group]) -> AttentionPlan:
    """The plan of a kernel that computes the roots of all groups, which have the same rows and steps."""
    planner = _Planner(context, groups[0])
    operators = tuple(planner.operator(number, group) for number, group in enumerate(groups))
    target, dtype, shape = context.target, planner.dtype, [v.extent for v in planner.at]
    lanes, batch = target.lanes(dtype), prod(shape[:-1])
    vectors = costs.ROW_VECTORS
    while vectors > 1 and batch * ceil(shape[-1] / (vectors * lanes)) < costs.least_units(target):
        vectors -= 1
    return AttentionPlan(
        operators=operators,
        dots=tuple(planner.dots.first),
        weights=tuple(weight.operator for weight in planner.weights),
        packed=tuple(planner.packed.first),
        batch=tuple(shape[:-1]),
        rows=shape[-1],
        count=planner.step.extent,
        dtype=dtype,
        lanes=lanes,
        vectors=vectors,
        block=min(costs.STEP_BLOCK, planner.step.extent),
        # The accumulators of a tile take half of the registers.
        tile=max(target.vector_registers // (2 * vectors), 1),
    )


class _Numbered(Generic[_T]):
    """Items numbered by their structure: equal ones have one number, and the first of them represents all."""

    def __init__(self) -> None:
        self.first: list[_T] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, structure: Hashable, found: _T) -> int:
        """The number of a structure, a new one where it is new."""
        if self._numbers.setdefault(structure, len(self.first)) == len(self.first):
            self.first.append(found)
        return self._numbers[structure]


@dataclass(slots=True)
class _Weight:
    """A weight and its factor, by their structures; `has_columns` if some operator multiplies values by it."""

    structure: Hashable
    factor: int | None
    operator: int
    has_columns: bool


class _Planner:
    """Finds what the operators of a kernel share, by describing all of them in terms of the same variables."""

    def __init__(self, context: Context, group: Group) -> None:
        assert group.root is not None
        self.context = context
        index = output_vars(group.root.shape)
        first = describe(context, group, tuple(map(as_index, index)))[1]
        self.at = index if first.values is None else index[:-1]
        self.step = Var("n", first.count)
        self.dtype = compute_dtype(group.root.dtype)
        self.dots: _Numbered[SharedDot] = _Numbered()
        self.weights: list[_Weight] = []
        self.packed: _Numbered[PackedOperand] = _Numbered()
        self._axes: dict[int, Var] = {}
        self._products: list[Buffer] = []
        self._structures: dict[Hashable, int] = {}

    def _axis(self, size: int) -> Var:
        return self._axes.setdefault(size, Var("x", size))

    def operator(self, number: int, group: Group) -> FusedOperator:
        """Number what an operator is made of."""
        assert group.root is not None
        index = [as_index(v) for v in self.at]
        columns = group.root.shape[-1] if len(group.root.shape) > len(index) else 0
        if columns:
            index.append(as_index(self._axis(columns)))
        made = describe(self.context, group, index)[1]
        n, found = as_index(self.step), []
        for place, dot in enumerate(made.dots):
            x = as_index(self._axis(dot.depth))
            row, step = dot.row(x), dot.step(n, x)
            shared = SharedDot(number, place, dot.depth, self._packed(step, number, place, dot.depth))
            found.append(self.dots.number((dot.depth, self._structure(row), self._structure(step)), shared))
        more = range(len(self._products), len(self.dots.first))
        self._products += [Buffer(f"dot{k}", self.dtype, 1, "register") for k in more]
        weight = made.weight(n, [Load(self._products[k], as_index(0)) for k in found])
        factor = None if made.factor is None else self._structure(made.factor(n))
        kind = self._weight((made.kind == "sum", self._structure(weight)), factor, number, columns > 0)
        values = self._packed(made.values(n), number, None, columns) if made.values is not None else None
        return FusedOperator(group, made.kind, tuple(found), kind, columns, values)

    def _packed(self, element: Expr, operator: int, place: int | None, size: int) -> int | None:
        """The number of the copy that elements of steps are read from, None where they are read in place."""
        if isinstance(element, Load) and element.guard is None:
            index = element.index
            if index.coefficient(self._axis(size)) == 1 and index.coefficient(self.step) == size:
                return None
        return self.packed.number((size, self._structure(element)), PackedOperand(operator, place, size))

    def _weight(self, structure: Hashable, factor: int | None, operator: int, has_columns: bool) -> int:
        """The number of a weight; an operator without columns shares that of any factor."""
        for number, known in enumerate(self.weights):
            if known.structure != structure:
                continue
            if not has_columns or (known.has_columns and known.factor == factor):
                return number
            if not known.has_columns:
                self.weights[number] = _Weight(structure, factor, operator, has_columns)
                return number
        self.weights.append(_Weight(structure, factor, operator, has_columns))
        return len(self.weights) - 1

    def _structure(self, expr: Expr) -> int:
        """A number that is equal for expressions that compute the same from the same elements.

        Parts that occur several times, as in the rounds of random bits, are visited once.
        """
        numbers: dict[int, int] = {}
        for part in postorder([expr]):
            if isinstance(part, Load):
                key: Hashable = (part.buffer, part.index, None if part.guard is None else numbers[id(part.guard)])
            elif isinstance(part, Coordinate):
                key = (part.index, part.dtype)
            elif isinstance(part, Const):
                key = (repr(part.value), part.dtype)
            else:
                assert isinstance(part, Apply)
                key = (part.function, part.dtype, *(numbers[id(operand)] for operand in part.operands))
            numbers[id(part)] = self._structures.setdefault(key, len(self._structures))
        return numbers[id(expr)]


@dataclass(frozen=True)
class RowBlock:
    """The rows of a unit of work, and the scratch memory of the thread that computes them.

    Parameters
    ----------
    plan : AttentionPlan
        The kernel's plan.
    at : tuple of Index
        Coordinates on the batch axes.
    first : Index
        The first row.
    count : int
        Number of rows. The last vector may have spare lanes, which compute and are not stored.
    """

    plan: AttentionPlan
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
    def packed(self) -> tuple[Buffer, ...]:
        """The packed elements of a block of steps, ``[step, element]``."""
        plan = self.plan
        return tuple(Buffer(f"steps{n}", plan.dtype, plan.block * c.size, "scratch") for n, c in enumerate(plan.packed))

    @cached_property
    def panels(self) -> tuple[Buffer, ...]:
        """The packed factors of the rows for each dot product, ``[d, row]``."""
        return tuple(self._scratch(f"panel{n}", dot.depth) for n, dot in enumerate(self.plan.dots))

    @cached_property
    def dots(self) -> tuple[Buffer, ...]:
        """Dot products of a block, ``[step, row]``."""
        return tuple(self._scratch(f"dots{n}", self.plan.block) for n, _ in enumerate(self.plan.dots))

    @cached_property
    def weights(self) -> tuple[Buffer, ...]:
        """Weights of a block, ``[step, row]``: in place of the dot products, as far as there are as many."""
        more = range(len(self.dots), len(self.plan.weights))
        made = *self.dots, *(self._scratch(f"weights{n}", self.plan.block) for n in more)
        return made[: len(self.plan.weights)]

    @cached_property
    def sums(self) -> tuple[Buffer, ...]:
        """Sums of each operator, ``[column, row]``."""
        operators = enumerate(self.plan.operators)
        return tuple(self._scratch(f"sums{n}", self.plan.whole_columns(operator)) for n, operator in operators)

    @cached_property
    def transposed(self) -> Buffer:
        """Sums of one operator, ``[row, column]``."""
        return self._scratch("turned", max(map(self.plan.whole_columns, self.plan.operators)))

    @cached_property
    def row_max(self) -> tuple[Buffer, ...]:
        """The running maximum of each row, for weights that are exponents."""
        return self._each_weight("top")

    @cached_property
    def row_sum(self) -> tuple[Buffer, ...]:
        """The running sum of exponentials, relative to the running maximum."""
        return self._each_weight("total")

    @cached_property
    def rescale(self) -> tuple[Buffer, ...]:
        """The factors by which to rescale the sums."""
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
        """Loop over whole tiles of steps or columns and a remainder; `body` takes the size and the first element."""
        many, rest = divmod(count, self.plan.tile)
        iteration = Var("t", many)
        loop: list[Stmt] = [For(iteration, body(self.plan.tile, as_index(iteration) * self.plan.tile))] if many else []
        return (*loop, *body(rest, as_index(many * self.plan.tile))) if rest else tuple(loop)
