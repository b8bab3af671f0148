"""How attention operators over the same rows and steps run as one kernel: what they share, and the memory of a unit.

Dot products that are structurally equal are computed once, and so are weights. Attention and the logarithm of its sums
share both; the gradients of keys and values share the product of query and key.
"""

from collections.abc import Hashable, Sequence
from math import ceil, inf, prod
from typing import Generic, TypeVar

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Apply, Buffer, Const, Coordinate, Expr, Load, postorder
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import access_pattern
from adjoint.lower.analysis.inlining import FusedAttention, Inliner, compute_dtype, output_vars
from adjoint.lower.context import Context, group_inliner
from adjoint.lower.fusion.groups import Group

__all__ = [
    "AttentionPlan",
    "FusedOperator",
    "PackedOperand",
    "SharedDot",
    "StepOperator",
    "describe",
    "plan_attention",
]

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
class StepOperator:
    """An operator of the kernel whose rows are the kernel's steps: its sums grow while the kernel's rows go by.

    Its weights are those of an operator of the kernel with rows and steps exchanged: those of the gradient of queries
    are those of the gradient of keys.

    Parameters
    ----------
    group : Group
        The group whose root it is.
    weight : int
        Number of its weights among those of the kernel.
    columns : int
        Columns of its result.
    """

    group: Group
    weight: int
    columns: int


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
    step_operators : tuple of StepOperator
        Its operators over steps. With them, a unit is a whole element of the batch.
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
    step_operators: tuple[StepOperator, ...]
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

    @property
    def units(self) -> int:
        """Units of work."""
        return prod(self.batch) * (1 if self.step_operators else ceil(self.rows / self.width))

    @property
    def flops(self) -> int:
        """Floating-point operations, including those of weights that spans exclude."""
        columns = sum(o.columns for o in self.operators) + sum(o.columns for o in self.step_operators)
        each = 2 * (sum(dot.depth for dot in self.dots) + columns) + costs.WEIGHT_FLOPS * len(self.weights)
        return prod(self.batch) * self.rows * self.count * each

    @property
    def step_bytes(self) -> int:
        """Bytes of the sums of operators over steps."""
        return self.count * sum(operator.columns for operator in self.step_operators) * self.dtype.itemsize

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


def plan_attention(context: Context, groups: Sequence[Group]) -> tuple[AttentionPlan, ...]:
    """The plans of kernels that compute the roots of all groups, whose rows and steps are the same or exchanged.

    One kernel computes them all if that takes less time than one for those of each orientation. The order of additions
    is the same in both cases: from the first step to the last.
    """
    orientations: dict[Hashable, list[Group]] = {}
    for group in groups:
        assert group.root is not None
        orientations.setdefault(access_pattern(group.root).attention_key, []).append(group)
    first, *others = sorted(orientations.values(), key=len, reverse=True)
    apart = [_plan(context, own) for own in (first, *others)]
    if not others:
        return tuple(apart)
    together = _plan(context, first, [group for own in others for group in own])
    fits = len(together.step_operators) == len(groups) - len(first)
    return (together,) if fits and _time(context, [together]) <= _time(context, apart) else tuple(apart)


def _time(context: Context, plans: Sequence[AttentionPlan]) -> float:
    """The time of kernels one after the other, in operations of a core; infinite if their sums take too much memory."""
    total = 0.0
    for plan in plans:
        if plan.step_bytes > costs.MAX_SCRATCH_BYTES:
            return inf
        shared = plan.units > 1 and costs.is_shared(plan.flops, 0, context.target)
        cores = context.target.cores
        total += plan.flops * (costs.imbalance(context.target, plan.units) / cores if shared else 1.0)
    return total


def _plan(context: Context, groups: Sequence[Group], over_steps: Sequence[Group] = ()) -> AttentionPlan:
    """The plan of one kernel for groups of one orientation, and for those of the other one that fit it."""
    planner = _Planner(context, groups[0])
    operators = tuple(planner.operator(number, group) for number, group in enumerate(groups))
    found = [planner.step_operator(group) for group in over_steps]
    step_operators = tuple(operator for operator in found if operator is not None)
    target, dtype, shape = context.target, planner.dtype, [v.extent for v in planner.at]
    lanes, batch = target.lanes(dtype), prod(shape[:-1])
    vectors = costs.ROW_VECTORS
    while (
        not step_operators and vectors > 1 and batch * ceil(shape[-1] / (vectors * lanes)) < costs.least_units(target)
    ):
        vectors -= 1
    return AttentionPlan(
        operators=operators,
        step_operators=step_operators,
        dots=tuple(planner.dots.first),
        weights=tuple(weight.operator for weight in planner.weights),
        packed=tuple(planner.packed.first),
        batch=tuple(shape[:-1]),
        rows=shape[-1],
        count=planner.step.extent,
        dtype=dtype,
        lanes=lanes,
        vectors=vectors,
        block=min(costs.STEP_BLOCK if planner.spans else costs.WHOLE_STEP_BLOCK, planner.step.extent),
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

    def find(self, structure: Hashable) -> int | None:
        """The number of a structure, None for a new one."""
        return self._numbers.get(structure)


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
        self.spans = first.span is not None
        self._conditions = _conditions(as_index(self.step), first.span)
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

    def step_operator(self, group: Group) -> StepOperator | None:
        """An operator with rows and steps exchanged; None if the kernel does not have its weights."""
        assert group.root is not None
        *batch, row = map(as_index, self.at)
        shape, step = group.root.shape, as_index(self.step)
        if shape[:-1] != (*(v.extent for v in self.at[:-1]), self.step.extent):
            return None
        made = describe(self.context, group, (*batch, step, as_index(self._axis(shape[-1]))))[1]
        same = made.count == self.at[-1].extent and _conditions(row, made.span) == self._conditions
        if not same or made.kind != "sum" or made.factor is not None:
            return None
        found = []
        for dot in made.dots:
            x = as_index(self._axis(dot.depth))
            number = self.dots.find((dot.depth, self._structure(dot.step(row, x)), self._structure(dot.row(x))))
            if number is None:
                return None
            found.append(number)
        weight = self._structure(made.weight(row, [Load(self._products[k], as_index(0)) for k in found]))
        numbers = [
            n for n, known in enumerate(self.weights) if known.structure == (True, weight) and known.factor is None
        ]
        return StepOperator(group, numbers[0], shape[-1]) if numbers else None

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


def _conditions(step: Index, span: tuple[Index, Index] | None) -> frozenset[Index]:
    """What must not be negative where a row counts a step, without what never is."""
    return frozenset() if span is None else frozenset(x for x in (step - span[0], span[1] - step - 1) if x.low < 0)
