"""Elementwise kernels: groups without a reduction, every point of the iteration space on its own, in vectors.

Where values are chosen by position (a pad has a border, a concatenation its operands), loops are split at the positions
where the choice changes (index-set splitting): inside a segment nothing is compared and no lane is masked::

    for i in 0..34:                               for l in 0..1: out[l] = 0
      out[i] = x[i - 1] if 0 <= i - 1 < 32  ->    for l in 0..32: out[l + 1] = x[l]
               else 0                             for l in 0..1: out[l + 33] = 0

Where they are chosen by the remainder of a position (rows of an image that are computed apart and then interleaved),
a unit computes one row of each remainder, for the same reason::

    for i in 0..34:                               for i in 0..17:
      out[i] = x[i // 2] if i % 2 < 1 else 0  ->    out[i * 2] = x[i]
                                                    out[i * 2 + 1] = 0
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise, product
from math import lcm, prod

from adjoint import costs
from adjoint.kernel.index import Atom, Index, Remainder, Var, as_index, unflatten
from adjoint.kernel.ir import Apply, Const, Coordinate, Kernel, Stmt, Store, When, postorder
from adjoint.kernel.ir import walk as statements
from adjoint.lower.analysis.inlining import output_vars
from adjoint.lower.context import Context, finish_kernel, group_inliner, store_flops, store_outputs
from adjoint.lower.fusion.groups import Group
from adjoint.lower.loops import collapse_axes, indices_of, nest, uncollapse, unravel, vector_loops

__all__ = ["map_kernel", "points_kernel"]


def map_kernel(context: Context, group: Group) -> Kernel:
    """The kernel of an elementwise group."""

    def point(index: tuple[Index, ...]) -> Store:
        return store_outputs(context, group, group_inliner(context, group), index)

    return points_kernel(context, group, output_vars(group.shape), point)


def points_kernel(
    context: Context, group: Group, vars_: Sequence[Var], point: Callable[[tuple[Index, ...]], Store]
) -> Kernel:
    """The kernel that evaluates `point` everywhere on some axes, given outermost first.

    Neighbouring axes that all operands walk as one are collapsed; the innermost is vectorized.
    """
    probe = point(tuple(as_index(v) for v in vars_))
    segments = _segments(context, probe, vars_)
    if segments:
        return _cut_kernel(context, group, vars_, segments, point)
    phases = _phases(probe, vars_[:-1])
    if phases:
        return _phased_kernel(context, group, vars_, phases, point)
    runs = collapse_axes(vars_, indices_of([probe])) if vars_ else [[]]
    extents = [prod(v.extent for v in run) for run in runs]
    width = extents[-1]
    lanes = max(context.target.lanes(b.dtype) for b, _, _ in probe.targets)
    lanes = min(lanes, max(context.target.vector_bytes // 4, 1))
    chunk = width if width <= 2 * costs.MAP_VECTORS * lanes else costs.MAP_VECTORS * lanes
    chunks = -(-width // chunk) if width else 0
    rows = prod(extents[:-1])
    unit = Var("u", rows * chunks)
    outer = as_index(unit) // max(chunks, 1)
    piece = as_index(unit) % max(chunks, 1)
    outer_at = unflatten(outer, extents[:-1])

    def vector(inner: Index, _: Index) -> tuple[Stmt, ...]:
        return (point(uncollapse(runs, (*outer_at, inner)) if vars_ else ()),)

    body = vector_loops(chunk, lanes, vector, piece * chunk)
    if width % max(chunk, 1):
        last = vector_loops(width % chunk, lanes, vector, (chunks - 1) * chunk)
        body = (When(piece, 0, chunks - 1, body, last),)
    return finish_kernel(context, context.name_of(group), group.members, unit, body, store_flops(probe, rows * width))


def _comparisons(probe: Store) -> Iterator[tuple[Atom, int, int]]:
    """The comparisons by which stored values are chosen: of a multiple of an atom with a bound."""
    for expr in postorder([value for _, _, value in probe.targets]):
        if isinstance(expr, Apply) and expr.function in ("lt", "ge"):
            number, bound = expr.operands
            if isinstance(number, Coordinate) and isinstance(bound, Const) and len(number.index.terms) == 1:
                ((atom, step),) = number.index.terms
                yield atom, step, int(bound.value) - number.index.constant


def _phases(probe: Store, vars_: Sequence[Var]) -> dict[Var, int]:
    """The axes by whose remainders values are chosen, with the divisors; none where there are too many remainders."""
    found: dict[Var, int] = {}
    for atom, _, _ in _comparisons(probe):
        if not isinstance(atom, Remainder):
            continue
        for var in vars_:
            if atom.of.coefficient(var) == 1 and len(atom.of.terms) == 1 and atom.by < var.extent:
                found[var] = lcm(found.get(var, 1), atom.by)
    return found if prod(found.values()) <= costs.MAX_SEGMENTS else {}


def _phased_kernel(
    context: Context,
    group: Group,
    vars_: Sequence[Var],
    phases: dict[Var, int],
    point: Callable[[tuple[Index, ...]], Store],
) -> Kernel:
    """Each unit computes a row of the innermost axis for each remainder of the axes that have phases."""
    *outer, inner = vars_
    steps = {v: Var(v.name, -(-v.extent // phases.get(v, 1))) for v in outer}
    unit = Var("u", prod(v.extent for v in steps.values()))
    start = unravel(list(steps.values()), as_index(unit))
    lanes = min(context.target.lanes(b.dtype) for b, _, _ in point(tuple(as_index(v) for v in vars_)).targets)
    body: list[Stmt] = []
    work = 0.0
    for remainders in product(*(range(phases.get(v, 1)) for v in outer)):
        places = [start[steps[v]] * phases.get(v, 1) + r for v, r in zip(outer, remainders, strict=True)]
        row = vector_loops(inner.extent, lanes, lambda i, _, at=places: (point((*at, i)),))  # type: ignore[misc]
        counts = [len(range(r, v.extent, phases.get(v, 1))) for v, r in zip(outer, remainders, strict=True)]
        first = next(s for s in statements(row) if isinstance(s, Store))
        work += store_flops(first, prod(counts) * inner.extent)
        for v, count in zip(outer, counts, strict=True):
            # The last step of an axis may be without the last remainders.
            row = row if count == steps[v].extent else (When(start[steps[v]], 0, count, row),)
        body += row
    return finish_kernel(context, context.name_of(group), group.members, unit, body, work)


def _segments(context: Context, probe: Store, vars_: Sequence[Var]) -> dict[Var, list[tuple[int, int]]]:
    """Loops to split: for each, the ``(start, length)`` of its segments; none where too few units would remain."""
    cuts: dict[Var, set[int]] = {}
    for atom, step, place in _comparisons(probe):
        if isinstance(atom, Var) and step == 1 and atom in vars_ and 0 < place < atom.extent:
            cuts.setdefault(atom, set()).add(place)
    whole = prod(v.extent for v in vars_ if v not in cuts and v is not vars_[-1])
    if (
        not cuts
        or whole < costs.units(context.target)
        or any(len(places) >= costs.MAX_SEGMENTS for places in cuts.values())
    ):
        return {}
    out = {}
    for var, places in cuts.items():
        bounds = [0, *sorted(places), var.extent]
        out[var] = [(low, high - low) for low, high in pairwise(bounds)]
    return out


def _cut_kernel(
    context: Context,
    group: Group,
    vars_: Sequence[Var],
    segments: dict[Var, list[tuple[int, int]]],
    point: Callable[[tuple[Index, ...]], Store],
) -> Kernel:
    """Each unit is a point on the axes that are not split; the others are walked segment by segment."""
    inner = vars_[-1]
    free = [v for v in vars_ if v not in segments and v is not inner]
    unit = Var("u", prod(v.extent for v in free))
    lanes = min(context.target.lanes(b.dtype) for b, _, _ in point(tuple(as_index(v) for v in vars_)).targets)
    work = [0.0]

    def walk(axes: Sequence[Var], at: dict[Var, Index], points: int) -> tuple[Stmt, ...]:
        var = axes[0]
        out: list[Stmt] = []
        for start, length in segments.get(var, [(0, var.extent)]):
            if var is not inner:
                step = Var(var.name, length)
                body = walk(axes[1:], {**at, var: as_index(step) + start}, points * length)
                out.extend(nest([step], body))
                continue

            def vector(index: Index, _: Index) -> tuple[Stmt, ...]:
                where = {**at, inner: index}
                return (point(tuple(where[v] for v in vars_)),)

            loops = vector_loops(length, lanes, vector, start)
            out.extend(loops)
            first = next(s for s in statements(loops) if isinstance(s, Store))
            work[0] += store_flops(first, points * length)
        return tuple(out)

    cut = [v for v in vars_ if v in segments and v is not inner]
    body = walk([*cut, inner], unravel(free, as_index(unit)), unit.extent)
    return finish_kernel(context, context.name_of(group), group.members, unit, body, work[0])
