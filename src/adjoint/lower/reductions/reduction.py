"""Reductions with their epilogues: sums, products, extremes, argmax.

There are two loop nests. *Row reductions*: the innermost reduced axis is contiguous, so lanes run along it; each lane
keeps partial results, and a tree combines them. *Column reductions*: the innermost kept axis is contiguous, so each
lane owns a result. Few results of many elements are computed in two stages, so that all threads have work: the first
reduces parts of the reduced axes (`adjoint.lower.reductions.partition`), the second the results of the parts, in their
order::

    for u in 0..1:                                      for u in 0..128:
      for v in 0..1048576:                                for v in 0..8192: acc = acc + x[u*8192 + v]
        acc = acc + x[v]                         ->       parts[u] = acc
      s[0] = acc                                        for u in 0..1:
                                                          for v in 0..128: acc = acc + parts[v]
                                                          s[0] = acc

The order of operations, parts included, follows from the shape alone, never from the number of threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import ceil, prod

import numpy as np

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index, flatten, unflatten
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I32, Reduction, compute_dtype
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import collapse_axes, indices_in, nest, uncollapse, vector_loops, vector_runs
from adjoint.lower.reductions.partition import Partition, partition

__all__ = ["identity_of", "reduction_kernels"]


def identity_of(kind: str, dtype: np.dtype) -> float | int:
    """The identity element of a reduction."""
    if kind in ("add", "mul"):
        one = int(kind == "mul")
        return one if dtype.kind in "iu" else float(one)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.min if kind in ("max", "argmax") else limits.max)
    return -np.inf if kind in ("max", "argmax") else np.inf


@dataclass(frozen=True, slots=True)
class _Stage:
    """A reduction over collapsed axes, or one of its two stages.

    Parameters
    ----------
    target : Target
        The CPU.
    kind : str
        How elements are combined.
    dtypes : tuple of numpy dtype
        What is reduced: an element; for argmax, also its position.
    rows : bool
        Whether it is a row reduction.
    out, red : list of int
        Extents of the kept and of the reduced axes, outermost first.
    element : callable
        The element that is reduced (and its position), at coordinates on the kept and the reduced axes.
    finish : callable
        The store of a result (and its position), at coordinates on the kept axes.
    """

    target: Target
    kind: str
    dtypes: tuple[np.dtype, ...]
    rows: bool
    out: list[int]
    red: list[int]
    element: Callable[[Sequence[Index], Sequence[Index]], Sequence[Expr]]
    finish: Callable[[Sequence[Index], Sequence[Expr]], Store]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of an element."""
        return self.dtypes[0]

    @property
    def lanes(self) -> int:
        """Lanes of a column reduction."""
        return min(map(self.target.lanes, self.dtypes))

    @property
    def columns(self) -> int:
        """Results in a unit: fewer vectors, rather than idle cores."""
        vectors = max(ceil(self.out[-1] / self.lanes), 1)
        few = vectors * prod(self.out[:-1]) < costs.COLUMN_VECTORS * self.target.cores
        few = few and costs.is_shared(0.0, prod(self.out) * prod(self.red) * self.dtype.itemsize)
        return 1 if self.rows else min(1 if few else costs.COLUMN_VECTORS, vectors) * self.lanes

    @property
    def units(self) -> int:
        """Units of work."""
        return prod(self.out) if self.rows else prod(self.out[:-1]) * ceil(self.out[-1] / self.columns)


@dataclass
class _Plan:
    """A reduction with its axes collapsed: `out` and `red` are runs of axes, outermost first."""

    context: Context
    group: Group
    root: Value
    kind: str
    dtype: np.dtype
    out: list[list[Var]]
    red: list[list[Var]]
    rows: bool
    body_flops: float

    def whole(self) -> _Stage:
        """The reduction in one stage."""
        return _Stage(
            target=self.context.target,
            kind=self.kind,
            # Positions have 32 bits, for as many lanes as floats have.
            dtypes=(self.dtype, I32) if self.kind == "argmax" else (self.dtype,),
            rows=self.rows and self.kind != "argmax",
            out=[prod(v.extent for v in run) for run in self.out],
            red=[prod(v.extent for v in run) for run in self.red],
            element=self._element,
            finish=self._epilogue,
        )

    def _element(self, out: Sequence[Index], red: Sequence[Index]) -> list[Expr]:
        inliner = group_inliner(self.context, self.group)
        inliner.reduce_index = uncollapse(self.red, red)
        made = inliner.describe(self.root, uncollapse(self.out, out))
        assert isinstance(made, Reduction)
        return [made.body, Coordinate(inliner.reduce_index[0], I32)] if self.kind == "argmax" else [made.body]

    def _epilogue(self, out: Sequence[Index], results: Sequence[Expr]) -> Store:
        result, dtype = results[-1], compute_dtype(self.root.dtype)
        if result.dtype != dtype:
            result = Apply("cast", (result,), dtype)
        inliner = group_inliner(self.context, self.group)
        inliner.bind(self.root, result)
        return store_outputs(self.context, self.group, inliner, uncollapse(self.out, out))


def reduction_kernels(context: Context, group: Group, description: Reduction, out_vars: Sequence[Var]) -> list[Kernel]:
    """The kernels of a group whose root is a reduction: one, or one for each of two stages."""
    plan = _plan(context, group, description, out_vars)
    whole, name = plan.whole(), context.name_of(group)
    results = prod(whole.out)
    points = results * prod(whole.red)
    after = whole.finish([as_index(0)] * len(plan.out), [Const(0, whole.dtypes[-1])])
    epilogue_flops = flops_of([v for _, _, v in after.targets]) * results
    flops = (plan.body_flops + 1) * points
    # Parts decide the order of operations, so they are those of the model CPU.
    units = replace(whole, target=costs.order_target(context.target)).units
    parts = partition(whole.red, units, points // units) if points else None
    if parts is None:
        unit, body = _loops(whole)
        return [finish_kernel(context, name, group.members, unit, body, flops + epilogue_flops)]
    first, second = _two_stages(whole, parts, f"{name}_parts")
    unit, body = _loops(first, parts)
    reduce_parts = finish_kernel(context, f"{name}_parts", group.members[:1], unit, body, flops)
    unit, body = _loops(second)
    combine = finish_kernel(context, name, group.members, unit, body, results * parts.count + epilogue_flops)
    return [reduce_parts, combine]


def _plan(context: Context, group: Group, description: Reduction, out_vars: Sequence[Var]) -> _Plan:
    root = group.root
    assert root is not None
    indices = indices_in([description.body])
    probe = group_inliner(context, group)
    probe.bind(root, Const(0, root.dtype))
    after = store_outputs(context, group, probe, tuple(as_index(v) for v in out_vars))
    out_indices = indices + [i for _, i, _ in after.targets] + indices_in([v for _, _, v in after.targets])
    out = collapse_axes(out_vars, out_indices) or [[]]
    red = collapse_axes(description.vars, indices) or [[]]
    lanes = costs.order_target(context.target).lanes(description.body.dtype)
    rows = _contiguous(red, indices, lanes) >= _contiguous(out, indices, lanes)
    rows = rows and prod(v.extent for v in red[-1]) > 1
    # Few elements (a pooling window) leave lanes idle: vectorize across results instead, if their reads are close.
    near = all(index.coefficient(out[-1][-1]) in (0, 1, 2) for index in indices) if out[-1] else False
    rows = rows and not (near and prod(v.extent for v in red[-1]) <= costs.MIN_ROW_LANES * lanes)
    rows = rows or prod(v.extent for v in out[-1]) == 1
    return _Plan(
        context, group, root, description.kind, description.body.dtype, out, red, rows, flops_of([description.body])
    )


def _contiguous(runs: list[list[Var]], indices: list[Index], lanes: int) -> int:
    """How many reads have stride 1 along the innermost run, less those with other strides.

    Where the run is divided, as that of a bias whose gradient comes from several heads, the stride is that within a
    vector.
    """
    if not runs[-1]:
        return -len(indices) - 1
    var = runs[-1][-1]
    block, lane = Var("v", max(var.extent // lanes, 1)), Var("l", lanes)
    vector = {var: as_index(block) * lanes + as_index(lane)}
    steps = [
        index.coefficient(var) if var.extent % lanes else index.substitute(vector).coefficient(lane)
        for index in indices
    ]
    return sum(1 if step == 1 else -1 if step != 0 else 0 for step in steps)


def _two_stages(whole: _Stage, parts: Partition, name: str) -> tuple[_Stage, _Stage]:
    """The reduction of each part, and that of the results of parts; `name` is that of the memory in between."""
    results, rows = prod(whole.out), whole.rows
    memories = [Buffer(name, dtype, results * parts.count, "arena") for dtype in whole.dtypes]

    def place(out: Sequence[Index], part: Index) -> Index:
        result = flatten(out, whole.out)
        return result * parts.count + part if rows else part * results + result

    # The outermost axis of a column reduction and the innermost one of a row reduction: neighbouring units read
    # neighbouring memory, and the second stage reads contiguous memory.
    def apart(out: Sequence[Index]) -> tuple[Sequence[Index], Index]:
        return (out[:-1], out[-1]) if rows else (out[1:], out[0])

    def element(out: Sequence[Index], red: Sequence[Index]) -> Sequence[Expr]:
        at, part = apart(out)
        return whole.element(at, parts.coordinates(part, red))

    def store(out: Sequence[Index], values: Sequence[Expr]) -> Store:
        there = place(*apart(out))
        return Store(tuple((memory, there, value) for memory, value in zip(memories, values, strict=True)))

    def reload(out: Sequence[Index], red: Sequence[Index]) -> Sequence[Expr]:
        return [Load(memory, place(out, red[0])) for memory in memories]

    out = [*whole.out, parts.count] if rows else [parts.count, *whole.out]
    return (
        replace(whole, out=out, red=parts.extents(parts.share), element=element, finish=store),
        replace(whole, red=[parts.count], element=reload),
    )


def _loops(stage: _Stage, parts: Partition | None = None) -> tuple[Var, list[Stmt]]:
    """The units of a stage and what they do; `parts` are those of a first stage."""
    unit = Var("u", stage.units if prod(stage.out) else 0)
    if not unit.extent:
        return unit, []
    build = _row_reduction if stage.rows else _column_reduction
    body = build(stage, as_index(unit))
    if parts is not None and parts.rest:
        part = as_index(unit) % parts.count if stage.rows else as_index(unit) // (unit.extent // parts.count)
        shorter = build(replace(stage, red=parts.extents(parts.rest)), as_index(unit))
        body = [When(part % parts.chunks, 0, parts.chunks - 1, tuple(body), tuple(shorter))]
    return unit, body


def _combine(kind: str, register: Buffer, at: Index, value: Expr) -> Store:
    old = Load(register, at)
    return Store(((register, at, Apply(kind, (old, value), register.dtype)),))


def _clear(kind: str, register: Buffer, lanes: int) -> tuple[Stmt, ...]:
    """Set every element of a register buffer to the identity."""
    whole = Var("c", register.size // lanes)
    lane = Var("l", lanes)
    start = Const(identity_of(kind, register.dtype), register.dtype)
    store = Store(((register, as_index(whole) * lanes + as_index(lane), start),))
    return (For(whole, (For(lane, (store,), "vector"),), "unroll"),)


def _row_reduction(stage: _Stage, unit: Index) -> list[Stmt]:
    out = unflatten(unit, stage.out)
    width = stage.red[-1]
    # Each lane has a partial result, so their number decides the order: narrower vectors run them in turns.
    lanes = costs.order_target(stage.target).lanes(stage.dtype)
    outer = [Var(f"k{axis}", extent) for axis, extent in enumerate(stage.red[:-1])]
    outer_at = [as_index(v) for v in outer]
    chains = costs.ROW_CHAINS if width >= 2 * costs.ROW_CHAINS * lanes else 1
    partial = min(width, lanes) or 1
    register = Buffer("acc", stage.dtype, chains * lanes, "register")
    loops: list[Stmt] = []
    done = 0
    if chains > 1:
        done = width // (chains * lanes) * chains * lanes
        step, chain, lane = Var("v", done // (chains * lanes)), Var("c", chains), Var("l", lanes)
        spot = as_index(chain) * lanes + as_index(lane)
        (value,) = stage.element(out, [*outer_at, as_index(step) * (chains * lanes) + spot])
        vector = For(lane, (_combine(stage.kind, register, spot, value),), "vector")
        loops.append(For(step, (For(chain, (vector,), "unroll"),)))

    def rest(at: Index, lane: Index) -> tuple[Stmt, ...]:
        (value,) = stage.element(out, [*outer_at, at])
        return (_combine(stage.kind, register, lane, value),)

    loops.extend(vector_loops(width - done, lanes, rest, done))
    body: list[Stmt] = [*_clear(stage.kind, register, lanes), *nest(outer, tuple(loops))]
    if chains > 1:
        chain, lane = Var("c", chains - 1), Var("l", lanes)
        other = Load(register, (as_index(chain) + 1) * lanes + as_index(lane))
        fold = For(lane, (_combine(stage.kind, register, as_index(lane), other),), "vector")
        body.append(For(chain, (fold,), "unroll"))
    width_of_tree = 1 << (partial - 1).bit_length()
    result = Buffer("result", stage.dtype, 1, "register")
    combined = Across(stage.kind, register, partial, width_of_tree)
    body.append(Store(((result, as_index(0), combined),)))
    body.append(stage.finish(out, [Load(result, as_index(0))]))
    return body


def _update(stage: _Stage, registers: Sequence[Buffer], spot: Index, values: Sequence[Expr]) -> Store:
    """One element more in a lane of a column reduction."""
    if stage.kind != "argmax":
        return _combine(stage.kind, registers[0], spot, values[0])
    # The first greatest wins; NaN is greater than any number.
    (value, at), best, place = values, Load(registers[0], spot), Load(registers[1], spot)
    better: Expr = Apply("gt", (value, best), BOOL)
    if stage.dtype.kind == "f":
        first_nan = Apply("and", (Apply("ne", (value, value), BOOL), Apply("eq", (best, best), BOOL)), BOOL)
        better = Apply("or", (better, first_nan), BOOL)
    return Store(
        (
            (registers[0], spot, Apply("select", (better, value, best), stage.dtype)),
            (registers[1], spot, Apply("select", (better, at, place), I32)),
        )
    )


def _column_reduction(stage: _Stage, unit: Index) -> list[Stmt]:
    """Lanes own neighbouring results."""
    width, lanes, tile = stage.out[-1], stage.lanes, stage.columns
    blocks = ceil(width / tile)
    outer = unflatten(unit // blocks, stage.out[:-1])
    block = unit % blocks
    red = [Var(f"k{axis}", extent) for axis, extent in enumerate(stage.red)]
    red_at = [as_index(v) for v in red]

    def columns(count: int, first: Index) -> tuple[Stmt, ...]:
        size = ceil(count / lanes) * lanes
        registers = [Buffer(f"acc{n}", d, size, "register") for n, d in enumerate(stage.dtypes)]
        body: list[Stmt] = []
        for register in registers:
            body.extend(_clear(stage.kind if register is registers[0] else "add", register, lanes))
        inner: list[Stmt] = []
        last: list[Stmt] = []
        for start, vectors, extent in vector_runs(count, tile, lanes):
            vector, lane = Var("c", vectors), Var("l", extent)
            spot = as_index(vector) * lanes + as_index(lane) + start
            step = _update(stage, registers, spot, stage.element([*outer, first + spot], red_at))
            inner.append(For(vector, (For(lane, (step,), "vector"),), "unroll"))
            vector, lane = Var("c", vectors), Var("l", extent)
            spot = as_index(vector) * lanes + as_index(lane) + start
            end = stage.finish([*outer, first + spot], [Load(register, spot) for register in registers])
            last.append(For(vector, (For(lane, (end,), "vector"),), "unroll"))
        return (*body, *nest(red, tuple(inner)), *last)

    body = columns(tile, block * tile) if width >= tile else ()
    if width % tile:
        edge = columns(width % tile, as_index((blocks - 1) * tile))
        body = (When(block, 0, blocks - 1, body, edge),) if width >= tile else edge
    return list(body)
