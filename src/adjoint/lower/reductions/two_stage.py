"""Two-stage reductions: a sum over the result of a convolution starts in that kernel's epilogue, lane by lane.

This fuses the statistics of batch normalization, and their gradients, with the convolution that they are about::

    for u in 0..32:                                    for u in 0..32:
      for n, c, x: out[u, n, c, x] = v                   for c:
                                                  ->       sum[l] = 0
    for c in 0..16:                                        for n, x: out[u, n, c, x] = v; sum[l] = sum[l] + v
      for u, n, x: acc[l] = acc[l] + out[u, n, c, x]       parts[c, u, l] = sum[l]
      s[c] = across(add, acc)                          for c in 0..16:
                                                         for u: acc[l] = acc[l] + parts[c, u, l]
                                                         s[c] = across(add, acc)

Each lane of each unit accumulates its own share, in a fixed order, so that nothing depends on the number of threads.

Squared deviations from a mean cannot be computed before the mean is known. They are accumulated about another number,
the first one that the lane meets, and moved to the mean at the end: with ``d = mean - first`` and the lane's count `n`,

    sum of (x - mean)**2  =  sum of (x - first)**2 - 2 * d * sum of (x - first) + n * d**2

(Chan, Golub, LeVeque, "Algorithms for computing the sample variance", 1983, on shifted data). As `first` is one of the
numbers, what is subtracted is never much larger than what remains: the relative error is bounded by `n` roundings,
whatever the mean.
"""

from collections.abc import Sequence
from math import prod

import numpy as np

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Expr, For, Kernel, Load, Store, StoreTarget, postorder
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import Inliner, Reduction, output_vars
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.split_k_reduction import sum_of
from adjoint.lower.fusion.groups import Fusion, Group
from adjoint.lower.loops import nest
from adjoint.ops.control import is_control

__all__ = [
    "FirstStage",
    "FusableReduction",
    "TwoStageReduction",
    "first_stages",
    "fusable_reductions",
    "second_stage_kernel",
]

_F32 = np.dtype(np.float32)


@dataclass(frozen=True, slots=True)
class FusableReduction:
    """A sum over what another group produces.

    Parameters
    ----------
    group : Group
        The group of the sum.
    axes : tuple of (int or None)
        For each axis of its result, then each axis that it reduces: the axis of the producer's shape; None for axes of
        extent 1.
    centred : bool
        Whether it adds up squared deviations from a number for each of its results.
    """

    group: Group
    axes: tuple[int | None, ...]
    centred: bool

    def element(self, inliner: Inliner, point: Sequence[Index]) -> Expr:
        """The summand at a point of the producer's shape; before squaring, if it is a squared deviation."""
        root = self.group.root
        assert root is not None
        at = tuple(as_index(0) if axis is None else point[axis] for axis in self.axes)
        rank = len(root.shape)
        inliner.reduce_index = at[rank:]
        made = inliner.describe(root, at[:rank])
        inliner.reduce_index = None
        assert isinstance(made, Reduction)
        return _distance(made)[0] if self.centred else made.body


@dataclass(frozen=True, slots=True)
class TwoStageReduction:
    """Partial results between both stages: ``[result, part, which sum, lane]``.

    For squared deviations there are four: the first number, the sum and the squares of deviations from it, the count.
    """

    source: FusableReduction
    memory: Buffer
    parts: int
    lanes: int

    @property
    def sums(self) -> int:
        """Partial results per lane."""
        return 4 if self.source.centred else 1

    def place(self, result: Index, part: Index, which: int, lane: Index) -> Index:
        """The position of one of them."""
        return ((result * self.parts + part) * self.sums + which) * self.lanes + lane


def fusable_reductions(fusion: Fusion, context: Context) -> dict[Group, list[FusableReduction]]:
    """The sums whose first stage could run in the epilogue of a contraction, by the group of that contraction."""
    out: dict[Group, list[FusableReduction]] = {}
    for group in fusion.groups:
        if group.root is None or not group.outputs or is_control(group.root) or group.root.dtype != _F32:
            continue
        pattern = fusion.patterns[group.root]
        if pattern.kind == "reduce" and not pattern.product:
            found = _fusable(fusion, context, group)
            if found is not None:
                out.setdefault(found[0], []).append(found[1])
    return out


def _fusable(fusion: Fusion, context: Context, group: Group) -> tuple[Group, FusableReduction] | None:
    """The producer of what a sum reads, and the correspondence of their axes."""
    assert group.root is not None
    vars_ = output_vars(group.shape)
    made = group_inliner(context, group).describe(group.root, tuple(as_index(v) for v in vars_))
    if not isinstance(made, Reduction) or made.kind != "add" or made.body.dtype != _F32:
        return None
    element, centred = _distance(made)
    loads = [e for e in postorder([element]) if isinstance(e, Load)]
    read = {load.buffer for load in loads}
    makers = {g for g in _groups_behind(fusion, group.root) if any(context.buffers[v] in read for v in g.outputs)}
    maker = max(makers, key=lambda g: g.level, default=None)
    if (
        maker is None
        or maker.root is None
        or not fusion.patterns[maker.root].product
        or flops_of([element]) > costs.MAX_STAGE_FLOPS
    ):
        return None
    own = {context.buffers[v] for v in maker.outputs}
    # Other operands must be available before, without a cycle: they are of a lower level.
    level = all(g is maker or g.level < maker.level for g in makers)
    if not level or len(read - own) > costs.MAX_STAGE_TENSORS or any(load.guard is not None for load in loads):
        return None
    places = {load.index for load in loads if load.buffer in own}
    axes = _axes((*vars_, *made.vars), places.pop(), maker.shape) if len(places) == 1 else None
    return None if axes is None else (maker, FusableReduction(group, axes, centred))


def _distance(made: Reduction) -> tuple[Expr, bool]:
    """The minuend of squared deviations, and True; else the element itself, and False."""
    body = made.body
    if isinstance(body, Apply) and body.function == "mul" and body.operands[0] is body.operands[1]:
        distance = body.operands[0]
        if isinstance(distance, Apply) and distance.function == "sub":
            x, centre = distance.operands
            if not centre.variables() & set(made.vars):
                return x, True
    return body, False


def _groups_behind(fusion: Fusion, root: Value) -> set[Group]:
    """The groups from whose results an element is computed."""
    found: set[Group] = set()
    todo = list(root.inputs)
    while todo:
        value = todo.pop()
        if value in fusion.group_of:
            found.add(fusion.group_of[value])
        else:
            todo.extend(value.inputs)
    return found


def _axes(vars_: Sequence[Var], place: Index, shape: Sequence[int]) -> tuple[int | None, ...] | None:
    """The axis of a shape that each variable walks, where an index covers all of the shape."""
    strides = {prod(shape[axis + 1 :]): axis for axis, extent in enumerate(shape) if extent > 1}
    out: list[int | None] = []
    for var in vars_:
        step = place.coefficient(var)
        axis = strides.get(step) if step else None
        if var.extent > 1 and (axis is None or shape[axis] != var.extent):
            return None
        out.append(axis if var.extent > 1 else None)
    walked = [axis for axis in out if axis is not None]
    return tuple(out) if sorted(walked) == sorted(strides.values()) and not place.constant else None


@dataclass(frozen=True, slots=True)
class FirstStage:
    """The first stage of a reduction, in the kernel of its producer: one row of results at a time.

    Parameters
    ----------
    staged : TwoStageReduction
        The partial results.
    registers : tuple of Buffer
        Accumulators of a lane.
    """

    staged: TwoStageReduction
    registers: tuple[Buffer, ...]

    def clear(self) -> For:
        """Initialize the accumulators of a row."""
        lane = Var("l", self.staged.lanes)
        zero = tuple((r, as_index(lane), Const(0.0, r.dtype)) for r in self.registers)
        return For(lane, (Store(zero),), "vector")

    def begin(self, lane: Index, element: Expr) -> list[StoreTarget]:
        """Take the number about which deviations are squared."""
        return [(self.registers[0], lane, element)] if self.staged.source.centred else []

    def add(self, lane: Index, elements: Sequence[Expr]) -> list[StoreTarget]:
        """Accumulate some elements that a lane has at once."""
        if not self.staged.source.centred:
            return [self._plus(0, lane, sum_of(elements))]
        first = Load(self.registers[0], lane)
        distances = [Apply("sub", (x, first), _F32) for x in elements]
        squares = sum_of([Apply("mul", (d, d), _F32) for d in distances])
        count = Const(float(len(elements)), _F32)
        return [self._plus(1, lane, sum_of(distances)), self._plus(2, lane, squares), self._plus(3, lane, count)]

    def store(self, result: Index, part: Index) -> For:
        """Store the accumulators of a row."""
        lane = Var("l", self.staged.lanes)
        at = as_index(lane)
        found = [(self.staged.place(result, part, n, at), Load(r, at)) for n, r in enumerate(self.registers)]
        return For(lane, (Store(tuple((self.staged.memory, place, value) for place, value in found)),), "vector")

    def _plus(self, which: int, lane: Index, more: Expr) -> StoreTarget:
        register = self.registers[which]
        return register, lane, Apply("add", (Load(register, lane), more), _F32)


def first_stages(
    context: Context, c: Contraction, parts: int, fusable: Sequence[FusableReduction]
) -> tuple[FirstStage, ...]:
    """The first stages that run in the kernel of a contraction: sums over all axes but its rows.

    Their groups are then computed from the partial results (`second_stage_kernel`). The number of lanes decides the
    order of additions, so it is that of `adjoint.costs.MODEL`.
    """
    out: list[FirstStage] = []
    lanes = costs.order_target(context.target).lanes(c.dtype)
    for source in fusable:
        kept = [axis for axis in source.axes[: len(source.group.shape)] if axis is not None]
        if c.m is None or len(kept) != 1 or c.place[kept[0]] != as_index(c.m):
            continue
        name = context.name_of(source.group)
        sums = 4 if source.centred else 1
        memory = Buffer(f"{name}_parts", _F32, c.rows * parts * sums * lanes, "arena")
        staged = TwoStageReduction(source, memory, parts, lanes)
        out.append(FirstStage(staged, tuple(Buffer(f"{name}_{n}", _F32, lanes, "register") for n in range(sums))))
    return tuple(out)


def second_stage_kernel(context: Context, staged: TwoStageReduction) -> Kernel:
    """The second stage: reduce the partial results, and apply the epilogue."""
    group, root = staged.source.group, staged.source.group.root
    assert root is not None
    unit, part, lane = Var("u", prod(group.shape)), Var("p", staged.parts), Var("l", staged.lanes)
    acc, result = Buffer("acc", _F32, staged.lanes, "register"), Buffer("result", _F32, 1, "register")
    here = as_index(lane)
    at = tuple(as_index(unit) if extent > 1 else as_index(0) for extent in group.shape)
    sums = [Load(staged.memory, staged.place(as_index(unit), as_index(part), n, here)) for n in range(staged.sums)]
    term = _recentred(_centre_of(context, group, at), sums) if staged.source.centred else sums[0]
    clear = For(lane, (Store(((acc, here, Const(0.0, _F32)),)),), "vector")
    add = For(lane, (Store(((acc, here, Apply("add", (Load(acc, here), term), _F32)),)),), "vector")
    across = Store(((result, as_index(0), Across("add", acc, staged.lanes, staged.lanes)),))
    inliner = group_inliner(context, group)
    inliner.bind(root, Load(result, as_index(0)))
    end = store_outputs(context, group, inliner, at)
    flops = 8.0 * staged.memory.size + flops_of([v for _, _, v in end.targets]) * unit.extent
    body = (clear, *nest([part], (add,)), across, end)
    return finish_kernel(context, context.name_of(group), group.members, unit, body, flops)


def _centre_of(context: Context, group: Group, at: tuple[Index, ...]) -> Expr:
    """The number from which deviations are squared."""
    assert group.root is not None
    made = group_inliner(context, group).describe(group.root, at)
    assert isinstance(made, Reduction)
    assert isinstance(made.body, Apply)
    return made.body.operands[0].args[1]


def _recentred(centre: Expr, sums: Sequence[Expr]) -> Expr:
    """Squared deviations from a lane's first number as those from the centre."""
    first, distances, squares, count = sums
    away = Apply("sub", (centre, first), _F32)
    twice = Apply("add", (distances, distances), _F32)
    rest = Apply("sub", (Apply("mul", (count, away), _F32), twice), _F32)
    return Apply("add", (squares, Apply("mul", (away, rest), _F32)), _F32)
