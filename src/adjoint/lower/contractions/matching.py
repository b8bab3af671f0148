"""Matching: which reductions are contractions, and which axis plays which role.

Axes are those that the operands walk, not those of tensor shapes. An axis that an operand reads in parts (rows of a
reshaped tensor) is split; neighbouring axes that all operands walk as one are collapsed, so that a 1x1 convolution
becomes a matrix product. Where the innermost axis is shorter than a vector (an 8x8 image), it is fused with the next
one, and the right operand is read in short runs.
"""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from math import prod

from adjoint import costs
from adjoint.kernel.index import Index, Quotient, Remainder, Var, as_index
from adjoint.kernel.ir import Apply, Const, Expr, Load
from adjoint.kernel.target import Target
from adjoint.lower.analysis.inlining import Reduction, compute_dtype, output_vars
from adjoint.lower.context import Context, group_inliner, store_outputs
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import collapse_axes, indices_of, ravel, uncollapse

__all__ = ["join_rows", "join_runs", "join_steps", "match_contraction", "run_of", "split_rows"]


def match_contraction(context: Context, group: Group) -> Contraction | None:
    """The contraction that a group's root computes, or None where it is another reduction, or sums single products."""
    out = output_vars(group.shape)
    description = _describe(context, group, tuple(as_index(v) for v in out))
    factors = _factors(description)
    if factors is None or any(v.extent == 0 for v in (*out, *description.vars)):
        return None
    if all(v.extent == 1 for v in description.vars):
        # The kernel of any reduction writes an outer product row by row; tiles would write short runs of several rows.
        return None
    indices = [load.index for load in factors]
    out_parts = [_split(v, indices) for v in out]
    red_parts = [_split(v, indices) for v in description.vars]
    place, red_place = _rejoined(out_parts), _rejoined(red_parts)
    factors = _factors(_describe(context, group, place, red_place))
    assert factors is not None
    indices = [load.index for load in factors]
    fine, red_fine = [v for part in out_parts for v in part], [v for part in red_parts for v in part]
    if any(index.coefficient(v) is None for index in indices for v in (*fine, *red_fine)):
        return None
    axes, at = _merged(fine, indices + _epilogue_indices(context, group, place))
    summed, red_at = _merged(red_fine, indices)
    place = tuple(i.substitute(at) for i in place)
    factors = _factors(_describe(context, group, place, tuple(i.substitute(red_at) for i in red_place)))
    assert factors is not None
    return _roles(factors, axes, place, tuple(v for v in summed if v.extent > 1))


def _describe(
    context: Context, group: Group, index: tuple[Index, ...], reduce_index: tuple[Index, ...] | None = None
) -> Reduction:
    assert group.root is not None
    inliner = group_inliner(context, group)
    inliner.reduce_index = reduce_index
    made = inliner.describe(group.root, index)
    assert isinstance(made, Reduction)
    return made


def _factors(description: Reduction) -> tuple[Load, Load] | None:
    """The two loads whose products are summed, if the reduction is of that kind."""
    body = description.body
    if description.kind != "add" or not isinstance(body, Apply) or body.function != "mul" or body.dtype.kind != "f":
        return None
    a, b = (_loaded(factor) for factor in body.operands)
    return None if a is None or b is None or a.dtype != b.dtype else (a, b)


def _loaded(factor: Expr) -> Load | None:
    """The load that a factor is, or is once converted to the dtype of the arithmetic; None for anything else."""
    converted = isinstance(factor, Apply) and factor.function == "cast"
    load = factor.args[0] if converted else factor
    if not isinstance(load, Load) or load.guard is not None or compute_dtype(load.dtype) != factor.dtype:
        return None
    return load


def _epilogue_indices(context: Context, group: Group, place: tuple[Index, ...]) -> list[Index]:
    """The indices that the epilogue reads and writes with."""
    assert group.root is not None
    inliner = group_inliner(context, group)
    inliner.bind(group.root, Const(0, compute_dtype(group.root.dtype)))
    return indices_of([store_outputs(context, group, inliner, place)])


def _split(var: Var, indices: Sequence[Index]) -> list[Var]:
    """The axes that an axis splits into, by the quotients and remainders in which it appears."""
    divisors = sorted({d for index in indices for d in _divisors(index, var)})
    steps = [1]
    for divisor in divisors:
        if divisor % steps[-1] == 0 and var.extent % divisor == 0 and steps[-1] < divisor < var.extent:
            steps.append(divisor)
    bounds = [*steps, var.extent]
    extents = [high // low for low, high in pairwise(bounds)]
    if len(extents) == 1:
        return [var]
    return [Var(f"{var.name}_{n}", extent) for n, extent in enumerate(reversed(extents))]


def _divisors(index: Index, var: Var) -> set[int]:
    """The divisors of a variable in an index."""
    found: set[int] = set()
    for atom, _ in index.terms:
        if isinstance(atom, Quotient | Remainder):
            inner = _divisors(atom.of, var)
            if atom.of == as_index(var):
                found.add(atom.by)
            elif inner:
                found |= inner | {d * atom.by for d in inner}
    return found


def run_of(load: Load, var: Var) -> int:
    """How many elements of an operand are evenly spaced along an axis: a row if two axes are fused, else all."""
    return min(_divisors(load.index, var), default=var.extent)


def _rejoined(parts: Sequence[Sequence[Var]]) -> tuple[Index, ...]:
    """Each axis in terms of the axes that it was split into."""
    return tuple(ravel(part, {v: as_index(v) for v in part}) for part in parts)


def _merged(vars_: Sequence[Var], indices: Sequence[Index]) -> tuple[tuple[Var, ...], dict[Var, Index]]:
    """The collapsed axes, and each variable in terms of them."""
    runs = collapse_axes(vars_, indices)
    axes = tuple(Var(run[0].name, prod(v.extent for v in run)) for run in runs)
    return axes, dict(zip(vars_, uncollapse(runs, [as_index(v) for v in axes]), strict=True))


def _roles(
    factors: tuple[Load, Load], axes: tuple[Var, ...], place: tuple[Index, ...], k: tuple[Var, ...]
) -> Contraction | None:
    """Assign the roles left, right, m, n, batch and k."""
    kept = [v for v in axes if v.extent > 1]
    if not kept:
        return None
    n = kept[-1]
    with_n = [load for load in factors if load.index.coefficient(n)]
    if len(with_n) != 1:
        return None
    (right,) = with_n
    left = factors[1] if right is factors[0] else factors[0]
    only_left = [v for v in kept[:-1] if left.index.coefficient(v) and not right.index.coefficient(v)]
    m = max(only_left, key=lambda v: v.extent, default=None)
    batch = tuple(v for v in kept[:-1] if v is not m)
    return Contraction(left, right, m, n, batch, k, axes, place)


def join_rows(target: Target, c: Contraction) -> Contraction:
    """Fuse n with the axis before it, where n alone would leave lanes idle."""
    lanes = target.lanes(c.dtype)
    kept = [v for v in c.axes if v.extent > 1]
    if len(kept) < 2 or not _fills(c.n, c.right, lanes) or kept[-2] is c.m:
        return c
    before = kept[-2]
    if c.left.index.coefficient(before) or not c.right.index.coefficient(before):
        return c
    both, at = _joined(before, c.n)
    return Contraction(
        c.left,
        Load(c.right.buffer, c.right.index.substitute(at)),
        c.m,
        both,
        tuple(v for v in c.batch if v is not before),
        c.k,
        (*(v for v in c.axes if v is not before and v is not c.n), both),
        tuple(i.substitute(at) for i in c.place),
        runs=True,
    )


def split_rows(c: Contraction) -> Contraction:
    """Split n into rows where a summed axis moves by whole rows: a window of one column lets matching collapse them."""
    ahead = (c.right.index.coefficient(v) or 0 for v in c.k)
    row = next((s for s in ahead if 1 < s < c.columns and c.columns % s == 0), None)
    if row is None or c.right.index.coefficient(c.n) != 1:
        return c
    high, wide = Var(f"{c.n.name}_0", c.columns // row), Var(f"{c.n.name}_1", row)
    at = {c.n: as_index(high) * row + as_index(wide)}
    left, right = (Load(load.buffer, load.index.substitute(at)) for load in (c.left, c.right))
    axes = tuple(part for v in c.axes for part in ((high, wide) if v is c.n else (v,)))
    place = tuple(i.substitute(at) for i in c.place)
    return replace(c, left=left, right=right, n=wide, batch=(*c.batch, high), axes=axes, place=place)


def join_runs(target: Target, c: Contraction) -> Contraction:
    """Fuse the two innermost summed axes, where the last alone would leave lanes along it idle.

    Lanes along a summed axis are those that the order of additions is planned for.
    """
    if len(c.k) < 2 or not _fills(c.k[-1], c.right, costs.order_target(target).lanes(c.dtype)):
        return c
    return join_steps(c) or c


def join_steps(c: Contraction) -> Contraction | None:
    """Fuse the two innermost summed axes, along which the left operand is contiguous; None if it is not."""
    before, last = c.k[-2:]
    both, at = _joined(before, last)
    left = c.left.index.substitute(at)
    if left.coefficient(both) != 1:
        return None
    right = Load(c.right.buffer, c.right.index.substitute(at))
    return replace(c, left=Load(c.left.buffer, left), right=right, k=(*c.k[:-2], both))


def _fills(var: Var, load: Load, lanes: int) -> bool:
    """Whether runs along a short axis fill vectors evenly; with a stride of 2, two loads reach two runs."""
    step = load.index.coefficient(var)
    if step == 2:
        return var.extent * 2 == lanes
    return step == 1 and costs.MIN_RUN <= var.extent < lanes and lanes % var.extent == 0


def _joined(before: Var, last: Var) -> tuple[Var, dict[Var, Index]]:
    """The fused variable of two neighbouring axes, and both in terms of it."""
    both = Var(before.name, before.extent * last.extent)
    return both, {before: as_index(both) // last.extent, last: as_index(both) % last.extent}
