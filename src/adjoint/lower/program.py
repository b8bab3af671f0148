"""From a function to a program: fuse, build kernels, order them, plan memory."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from adjoint.errors import CompileError
from adjoint.ir import Function, Value
from adjoint.kernel.index import Index, Var, as_index
from adjoint.kernel.ir import Buffer, Kernel, Load, Stmt, Store, When
from adjoint.kernel.program import Argument, Program, RangeCheck, Result
from adjoint.kernel.target import Target
from adjoint.lower.contractions import Contraction, plan_contraction
from adjoint.lower.dots import dot_kernel, plan_dots
from adjoint.lower.emit import Context, finish, group_puller, vector_loops
from adjoint.lower.fuse import Fusion, Group, fuse
from adjoint.lower.maps import map_kernel
from adjoint.lower.match import join_runs, match_contraction
from adjoint.lower.memory import plan_arena
from adjoint.lower.order import barriers, circular_updates, order_kernels
from adjoint.lower.pull import Reduction, Scatter, Stream, output_vars
from adjoint.lower.reductions import reduction_kernel
from adjoint.lower.scatter import scatter_kernel
from adjoint.lower.streams import stream_kernel
from adjoint.lower.sums import plan_sums, sum_kernels
from adjoint.lower.tiles import contraction_kernels

__all__ = ["lower"]

#: Vectors in a unit of a copy.
_COPY_VECTORS = 64


def lower(function: Function, target: Target, names: dict[Value, str], checks: Sequence[RangeCheck] = ()) -> Program:
    """Lower a function to a program for a target.

    Parameters
    ----------
    function : Function
        A graph without calls, whose results are distinct values and not parameters. Its ``donate`` attribute
        lists ``(parameter name, result index)`` pairs to be updated in place.
    target : Target
        The CPU.
    names : dict
        Printed names of its values.
    checks : sequence of RangeCheck
        What the arguments must satisfy.
    """
    fusion = fuse(function)
    donated = _donations(function)
    slots = [Buffer(p.label, p.dtype, p.type.size, "external") for p in function.params]
    home_of_param = dict(zip(function.params, slots, strict=True))
    in_place = {function.results[r]: home_of_param[p] for p, r in donated.items()}
    apart: dict[Value, Buffer] = {}
    for number, value in enumerate(function.results):
        if value not in in_place:
            apart[value] = Buffer(f"result{number}", value.dtype, value.type.size, "external")
    context, kernels = _kernels(fusion, target, names, {**home_of_param, **apart, **in_place})
    updated = frozenset(in_place.values())
    given_up = circular_updates(kernels, updated)
    if given_up:
        moved = {v: b for v, b in in_place.items() if b in given_up}
        kept = {v: b for v, b in in_place.items() if b not in given_up}
        context, kernels = _kernels(fusion, target, names, {**home_of_param, **apart, **kept})
        kernels += [_copy(context, v, context.homes[v], b) for v, b in moved.items()]
    kernels = _unique_names(order_kernels(kernels, updated))
    offsets, arena, bound = plan_arena(kernels)
    slots += [apart[v] for v in function.results if v in apart]
    number_of = {b: n for n, b in enumerate(slots)}
    return Program(
        function.name,
        tuple(Argument(p.label, p.shape, p.dtype, number_of[home_of_param[p]], p in donated) for p in function.params),
        tuple(
            Result(v.shape, v.dtype, number_of[in_place.get(v) or apart[v]], v in in_place) for v in function.results
        ),
        tuple(slots),
        tuple(kernels),
        barriers(kernels, offsets),
        offsets,
        arena,
        bound,
        {buffer: data for (data, _), buffer in context.literals.items()},
        tuple(checks),
    )


def _donations(function: Function) -> dict[Value, int]:
    pairs: Any = function.attrs.get("donate", ())
    return {function.param(name): index for name, index in pairs}


def _kernels(
    fusion: Fusion, target: Target, names: dict[Value, str], homes: dict[Value, Buffer]
) -> tuple[Context, list[Kernel]]:
    homes = dict(homes)
    for group in fusion.groups:
        for value in group.outputs:
            if value not in homes:
                homes[value] = Buffer(names[value], value.dtype, value.type.size, "arena")
    context = Context(target, homes, names=names)
    kernels: list[Kernel] = []
    for group in sorted(fusion.groups, key=lambda g: g.level):
        if group.leader is None:
            together = [g for g in (group, *group.companions) if g.outputs]
            kernels.extend(_build(context, together) if together else ())
    return context, kernels


def _build(context: Context, groups: Sequence[Group]) -> list[Kernel]:
    """The kernels of a group, or of several streams together."""
    group = groups[0]
    if group.root is None:
        return [map_kernel(context, group)]
    out = output_vars(group.shape)
    description = group_puller(context, group).describe(group.root, tuple(as_index(v) for v in out))
    if isinstance(description, Scatter):
        return [scatter_kernel(context, group, description)]
    if isinstance(description, Stream):
        return [stream_kernel(context, groups)]
    if not isinstance(description, Reduction):
        raise CompileError(f"{group.root.op.name} lowers to neither an element nor a reduction; fix its lower method")
    contraction = match_contraction(context, group)
    if contraction is not None:
        return _contraction(context, group, contraction)
    return [reduction_kernel(context, group, description, out)]


def _contraction(context: Context, group: Group, contraction: Contraction) -> list[Kernel]:
    """The kernels of a contraction, in the form that is estimated to be fastest."""
    joined = join_runs(context.target, contraction)
    dots = plan_dots(context.target, joined)
    sums = plan_sums(context.target, contraction)
    if sums is not None and (dots is not None or sums.cycles < plan_contraction(context.target, contraction).cycles):
        return sum_kernels(context, group, contraction, sums)
    if dots is not None:
        return [dot_kernel(context, group, joined, dots)]
    return contraction_kernels(context, group, contraction)


def _copy(context: Context, value: Value, source: Buffer, to: Buffer) -> Kernel:
    """Copy a buffer to where it was to be updated in place."""
    lanes = context.target.lanes(source.dtype)
    chunk = _COPY_VECTORS * lanes
    blocks = -(-source.size // chunk)
    unit = Var("u", blocks)

    def move(at: Index, _: Index) -> tuple[Stmt, ...]:
        return (Store(((to, at, Load(source, at)),)),)

    body = vector_loops(min(chunk, source.size), lanes, move, as_index(unit) * chunk)
    if source.size > chunk and source.size % chunk:
        rest = vector_loops(source.size % chunk, lanes, move, (blocks - 1) * chunk)
        body = (When(as_index(unit), 0, blocks - 1, body, rest),)
    return finish(context, f"{context.names[value].removeprefix('%')}_update", [value], unit, body, 0)


def _unique_names(kernels: Sequence[Kernel]) -> list[Kernel]:
    seen: dict[str, int] = {}
    out = []
    for kernel in kernels:
        count = seen.get(kernel.name, 0)
        seen[kernel.name] = count + 1
        out.append(replace(kernel, name=f"{kernel.name}_{count}") if count else kernel)
    return out
