"""Reductions with their epilogues: sums, products, extremes, argmax.

There are two loop nests. *Row reductions*: the innermost reduced axis is contiguous, so lanes run along it; each lane
keeps partial results, and a tree combines them. *Column reductions*: the innermost kept axis is contiguous, so each
lane owns a result. In both, the order of operations follows from the shape alone, never from the number of threads.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from adjoint import costs
from adjoint.ir import Value
from adjoint.kernel.index import Index, Var, as_index, unflatten
from adjoint.kernel.ir import Across, Apply, Buffer, Const, Coordinate, Expr, For, Kernel, Load, Stmt, Store, When
from adjoint.lower.analysis.access import flops_of
from adjoint.lower.analysis.inlining import BOOL, I32, Reduction, compute_dtype
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_outputs
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import collapse_axes, indices_in, nest, uncollapse, vector_loops, vector_runs

__all__ = ["identity_of", "reduction_kernel"]

#: How one element updates the registers of its lane: plan, registers, lane, element, reduced coordinates.
_Update = Callable[["_Plan", Sequence[Buffer], Index, Expr, Sequence[Index]], Store]


def identity_of(kind: str, dtype: np.dtype) -> float | int:
    """The identity element of a reduction."""
    if kind in ("add", "mul"):
        one = int(kind == "mul")
        return one if dtype.kind in "iu" else float(one)
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.min if kind in ("max", "argmax") else limits.max)
    return -np.inf if kind in ("max", "argmax") else np.inf


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

    @property
    def result(self) -> np.dtype:
        """The dtype of the epilogue's argument."""
        return compute_dtype(self.root.dtype)

    @property
    def out_extents(self) -> list[int]:
        return [prod(v.extent for v in run) for run in self.out]

    @property
    def red_extents(self) -> list[int]:
        return [prod(v.extent for v in run) for run in self.red]

    def out_index(self, at: Sequence[Index]) -> tuple[Index, ...]:
        return uncollapse(self.out, at)

    def body(self, out: Sequence[Index], red: Sequence[Index]) -> Expr:
        """The element that is reduced, at collapsed coordinates."""
        inliner = group_inliner(self.context, self.group)
        inliner.reduce_index = uncollapse(self.red, red)
        made = inliner.describe(self.root, self.out_index(out))
        assert isinstance(made, Reduction)
        return made.body

    def epilogue(self, out: Sequence[Index], result: Expr) -> Store:
        inliner = group_inliner(self.context, self.group)
        inliner.bind(self.root, result)
        return store_outputs(self.context, self.group, inliner, self.out_index(out))


def reduction_kernel(context: Context, group: Group, description: Reduction, out_vars: Sequence[Var]) -> Kernel:
    """The kernel of a group whose root is a reduction."""
    plan = _plan(context, group, description, out_vars)
    unit: Var
    body: list[Stmt]
    if not prod(plan.out_extents):
        unit, body = Var("u", 0), []
    elif plan.kind == "argmax":
        unit, body = _argmax(plan)
    elif plan.rows:
        unit, body = _row_reduction(plan)
    else:
        unit, body = _column_reduction(plan)
    points = prod(plan.out_extents) * prod(plan.red_extents)
    after = plan.epilogue([as_index(0)] * len(plan.out), Const(0, plan.dtype))
    flops = (plan.body_flops + 1) * points + flops_of([v for _, _, v in after.targets]) * prod(plan.out_extents)
    return finish_kernel(context, context.name_of(group), group.members, unit, body, flops)


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
    rows = _contiguous(red, indices) >= _contiguous(out, indices) and prod(v.extent for v in red[-1]) > 1
    # Few elements (a pooling window) leave lanes idle: vectorize across results instead, if their reads are close.
    lanes = costs.order_target(context.target).lanes(description.body.dtype)
    near = all(index.coefficient(out[-1][-1]) in (0, 1, 2) for index in indices) if out[-1] else False
    rows = rows and not (near and prod(v.extent for v in red[-1]) <= costs.MIN_ROW_LANES * lanes)
    rows = rows or prod(v.extent for v in out[-1]) == 1
    return _Plan(
        context, group, root, description.kind, description.body.dtype, out, red, rows, flops_of([description.body])
    )


def _contiguous(runs: list[list[Var]], indices: list[Index]) -> int:
    """How many reads have stride 1 along the innermost run, less those with other strides."""
    if not runs[-1]:
        return -len(indices) - 1
    steps = [index.coefficient(runs[-1][-1]) for index in indices]
    return sum(1 if step == 1 else -1 if step != 0 else 0 for step in steps)


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


def _row_reduction(plan: _Plan) -> tuple[Var, list[Stmt]]:
    extents = plan.out_extents
    unit = Var("u", prod(extents))
    out = unflatten(as_index(unit), extents)
    width = plan.red_extents[-1]
    # Each lane has a partial result, so their number decides the order: narrower vectors run them in turns.
    lanes = costs.order_target(plan.context.target).lanes(plan.dtype)
    outer = [Var(f"k{axis}", extent) for axis, extent in enumerate(plan.red_extents[:-1])]
    outer_at = [as_index(v) for v in outer]
    chains = costs.ROW_CHAINS if width >= 2 * costs.ROW_CHAINS * lanes else 1
    partial = min(width, lanes) or 1
    register = Buffer("acc", plan.dtype, chains * lanes, "register")
    loops: list[Stmt] = []
    done = 0
    if chains > 1:
        done = width // (chains * lanes) * chains * lanes
        step, chain, lane = Var("v", done // (chains * lanes)), Var("c", chains), Var("l", lanes)
        spot = as_index(chain) * lanes + as_index(lane)
        value = plan.body(out, [*outer_at, as_index(step) * (chains * lanes) + spot])
        vector = For(lane, (_combine(plan.kind, register, spot, value),), "vector")
        loops.append(For(step, (For(chain, (vector,), "unroll"),)))

    def rest(at: Index, lane: Index) -> tuple[Stmt, ...]:
        return (_combine(plan.kind, register, lane, plan.body(out, [*outer_at, at])),)

    loops.extend(vector_loops(width - done, lanes, rest, done))
    body: list[Stmt] = [*_clear(plan.kind, register, lanes), *nest(outer, tuple(loops))]
    if chains > 1:
        chain, lane = Var("c", chains - 1), Var("l", lanes)
        other = Load(register, (as_index(chain) + 1) * lanes + as_index(lane))
        fold = For(lane, (_combine(plan.kind, register, as_index(lane), other),), "vector")
        body.append(For(chain, (fold,), "unroll"))
    width_of_tree = 1 << (partial - 1).bit_length()
    result = Buffer("result", plan.dtype, 1, "register")
    combined = Across(plan.kind, register, partial, width_of_tree)
    body.append(Store(((result, as_index(0), combined),)))
    body.append(plan.epilogue(out, Load(result, as_index(0))))
    return unit, body


def _column_reduction(plan: _Plan) -> tuple[Var, list[Stmt]]:
    return _columns(plan, [plan.dtype], _column_update)


def _column_update(plan: _Plan, registers: Sequence[Buffer], spot: Index, value: Expr, _: Sequence[Index]) -> Store:
    return _combine(plan.kind, registers[0], spot, value)


def _argmax(plan: _Plan) -> tuple[Var, list[Stmt]]:
    # Positions have 32 bits, for as many lanes as floats have.
    return _columns(plan, [plan.dtype, I32], _argmax_update)


def _argmax_update(plan: _Plan, registers: Sequence[Buffer], spot: Index, value: Expr, red: Sequence[Index]) -> Store:
    """The first greatest wins; NaN is greater than any number."""
    best, place = Load(registers[0], spot), Load(registers[1], spot)
    better: Expr = Apply("gt", (value, best), BOOL)
    if plan.dtype.kind == "f":
        first_nan = Apply("and", (Apply("ne", (value, value), BOOL), Apply("eq", (best, best), BOOL)), BOOL)
        better = Apply("or", (better, first_nan), BOOL)
    (axis_index,) = uncollapse(plan.red, red)
    return Store(
        (
            (registers[0], spot, Apply("select", (better, value, best), plan.dtype)),
            (registers[1], spot, Apply("select", (better, Coordinate(axis_index, I32), place), I32)),
        )
    )


def _columns(plan: _Plan, dtypes: Sequence[np.dtype], update: _Update) -> tuple[Var, list[Stmt]]:
    """Lanes own neighbouring results; the last register buffer holds the result."""
    extents = plan.out_extents
    width = extents[-1]
    lanes = min(plan.context.target.lanes(d) for d in dtypes)
    tile = min(costs.COLUMN_VECTORS * lanes, -(-width // lanes) * lanes)
    blocks = -(-width // tile)
    unit = Var("u", prod(extents[:-1]) * blocks)
    outer = unflatten(as_index(unit) // blocks, extents[:-1])
    block = as_index(unit) % blocks
    red = [Var(f"k{axis}", extent) for axis, extent in enumerate(plan.red_extents)]
    red_at = [as_index(v) for v in red]

    def columns(count: int, first: Index) -> tuple[Stmt, ...]:
        registers = [Buffer(f"acc{n}", d, -(-count // lanes) * lanes, "register") for n, d in enumerate(dtypes)]
        body: list[Stmt] = []
        for register in registers:
            kind = plan.kind if register is registers[0] else "add"
            body.extend(_clear(kind, register, lanes))
        inner: list[Stmt] = []
        last: list[Stmt] = []
        for start, vectors, extent in vector_runs(count, tile, lanes):
            vector, lane = Var("c", vectors), Var("l", extent)
            spot = as_index(vector) * lanes + as_index(lane) + start
            out = [*outer, first + spot]
            step = update(plan, registers, spot, plan.body(out, red_at), red_at)
            inner.append(For(vector, (For(lane, (step,), "vector"),), "unroll"))
            vector, lane = Var("c", vectors), Var("l", extent)
            spot = as_index(vector) * lanes + as_index(lane) + start
            result: Expr = Load(registers[-1], spot)
            if result.dtype != plan.result:
                result = Apply("cast", (result,), plan.result)
            end = plan.epilogue([*outer, first + spot], result)
            last.append(For(vector, (For(lane, (end,), "vector"),), "unroll"))
        return (*body, *nest(red, tuple(inner)), *last)

    body = columns(tile, block * tile) if width >= tile else ()
    if width % tile:
        edge = columns(width % tile, as_index((blocks - 1) * tile))
        body = (When(block, 0, blocks - 1, body, edge),) if width >= tile else edge
    return unit, list(body)
