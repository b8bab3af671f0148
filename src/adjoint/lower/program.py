"""The driver of lowering, from a function to a program: group values, build, fuse and order kernels, plan memory."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from adjoint import costs
from adjoint.ir import Function, Value, value_names
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import Argument, Program, RangeCheck, Result
from adjoint.kernel.regions import Nested, flattened
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.footprint import with_tiles
from adjoint.lower.analysis.reuse_distance import far_buffers
from adjoint.lower.build_kernels import build_kernels, planned_contraction
from adjoint.lower.context import Context, owners_of
from adjoint.lower.contractions.schedules import PlannedContraction
from adjoint.lower.control import Body, read_while_updated
from adjoint.lower.copying import copy_kernel
from adjoint.lower.fusion.groups import Fusion, Group, fuse
from adjoint.lower.passes import KERNEL_PASSES, PassContext, name_kernels
from adjoint.lower.schedule.bound_rows import bound_rows
from adjoint.lower.schedule.memory import plan_arena
from adjoint.lower.schedule.order import barriers, circular_updates, claimed_kernels, read_elsewhere
from adjoint.lower.schedule.rows import GraphBatch

__all__ = ["LOWERING", "Observer", "contractions_of", "lower", "unobserved"]

#: Called after each pass with its name and its result: a Function, groups, a list of kernels, or a Program.
Observer = Callable[[str, Any], None]


def unobserved(_name: str, _made: Any) -> None:
    """Ignore the result of a pass."""


#: The passes of `lower` before it plans memory: from the graph to groups, to kernels, and from kernels to kernels.
LOWERING = ("fuse", "build_kernels", *KERNEL_PASSES, "bound_rows")


def lower(
    function: Function,
    target: Target,
    names: dict[Value, str],
    checks: Sequence[RangeCheck] = (),
    schedules: Mapping[str, str] | None = None,
    after: Observer = unobserved,
    batch: GraphBatch | None = None,
) -> Program:
    """Lower a function to a program for a target.

    Parameters
    ----------
    function : Function
        A graph without calls, whose results are distinct values and not parameters. Its ``donate`` attribute lists
        ``(parameter name, result index)`` pairs to be updated in place.
    target : Target
        The CPU.
    names : dict
        Printed names of the values.
    checks : sequence of RangeCheck
        The conditions on the arguments.
    schedules : mapping, optional
        Measured schedules of contractions by signature; default: the estimated ones.
    after : callable, optional
        Called with the name of each pass and what it has made, groups or a list of kernels; `LOWERING` lists the names.
    batch : GraphBatch, optional
        The rows of a function that takes batches of fewer rows.
    """
    made = _scheduled(function, target, names, schedules or {}, after, whole=True)
    kernels, context = made.kernels, made.context
    param_buffers, result_buffers, in_place = made.params, made.results, made.in_place
    donated = _donations(function)
    slots = list(param_buffers.values())
    tiles: Mapping[Buffer, int] = {}
    if batch is not None and costs.leaves_out_rows(sum(k.flops + k.bytes for k in kernels)):
        bounded = bound_rows(kernels, batch.of(context.buffers))
        kernels, tiles = list(bounded.kernels), bounded.tiles
    after("bound_rows", kernels)
    literals = _literal_data(context, kernels)
    kernels, regions = flattened(kernels)
    if regions:
        kernels = name_kernels(kernels)
    offsets, arena, bound = plan_arena(kernels, regions=regions)
    waits = barriers(kernels, offsets, regions)
    slots += [result_buffers[v] for v in function.results if v in result_buffers]
    number_of = {b: n for n, b in enumerate(slots)}
    # A check reads all elements of its argument.
    together = {b: rows for b, rows in tiles.items() if batch is not None and rows < batch.most}
    together |= {slots[check.slot]: 0 for check in checks}
    return Program(
        function.name,
        tuple(
            Argument(p.label, p.shape, p.dtype, number_of[b], p in donated, together.get(b, 0))
            for p, b in param_buffers.items()
        ),
        tuple(
            Result(v.shape, v.dtype, number_of[in_place.get(v) or result_buffers[v]], v in in_place)
            for v in function.results
        ),
        tuple(slots),
        tuple(kernels),
        waits,
        offsets,
        arena,
        bound,
        literals,
        tuple(checks),
        regions,
        claimed_kernels(kernels, waits, regions),
    )


@dataclass(frozen=True, slots=True)
class _Scheduled:
    """The kernels of a function in order, and the buffers of its parameters and results."""

    kernels: list[Kernel]
    context: Context
    params: dict[Value, Buffer]
    results: dict[Value, Buffer]
    in_place: dict[Value, Buffer]


def _scheduled(
    function: Function,
    target: Target,
    names: Mapping[Value, str],
    schedules: Mapping[str, str],
    after: Observer,
    whole: bool,
) -> _Scheduled:
    """Build the kernels of a function, a whole program or what a loop or branch holds, and run the passes over them."""
    fusion = fuse(function)
    after("fuse", fusion)
    param_buffers, result_buffers, in_place = _external_buffers(function)
    updated = frozenset(in_place.values())
    context = _context(fusion, target, {**param_buffers, **result_buffers, **in_place}, names)
    lower_body = partial(_body, target, schedules)
    built = build_kernels(fusion, context, schedules, lower_body)
    kernels = built.in_order(fusion.groups)
    given_up = circular_updates(kernels, updated) | read_elsewhere(kernels, updated)
    given_up |= read_while_updated(kernels, updated)
    if given_up:
        copied = {v: b for v, b in in_place.items() if b in given_up}
        apart = {v: Buffer(names[v], v.dtype, v.type.size, "arena") for v in copied}
        buffers = {**context.buffers, **apart}
        context = replace(context, buffers=buffers, owners=owners_of(buffers))
        built = build_kernels(fusion, context, schedules, lower_body, built.without(given_up))
        kernels = built.in_order(fusion.groups)
        kernels += [
            with_tiles(copy_kernel(context, f"{names[v].removeprefix('%')}_update", [v], apart[v], b))
            for v, b in copied.items()
        ]
    after("build_kernels", kernels)
    known = PassContext(target, updated, whole)
    for name, kernel_pass in KERNEL_PASSES.items():
        kernels = kernel_pass(kernels, known)
        after(name, kernels)
    return _Scheduled(kernels, context, param_buffers, result_buffers, in_place)


def _donations(function: Function) -> dict[Value, int]:
    pairs: Any = function.attrs.get("donate", ())
    return {function.param(name): index for name, index in pairs}


def _external_buffers(function: Function) -> tuple[dict[Value, Buffer], dict[Value, Buffer], dict[Value, Buffer]]:
    """Buffers of the parameters, of results with memory of their own, and of results that update a parameter."""
    params = {p: Buffer(p.label, p.dtype, p.type.size, "external") for p in function.params}
    in_place = {function.results[r]: params[p] for p, r in _donations(function).items()}
    result_buffers = {
        value: Buffer(f"result{number}", value.dtype, value.type.size, "external")
        for number, value in enumerate(function.results)
        if value not in in_place
    }
    return params, result_buffers, in_place


def _context(fusion: Fusion, target: Target, external: Mapping[Value, Buffer], names: Mapping[Value, str]) -> Context:
    """The context of all kernels: a buffer for each value that is stored, and for each literal array."""
    stored = [v for group in fusion.groups for v in group.outputs if v not in external]
    arena = {v: Buffer(names[v], v.dtype, v.type.size, "arena") for v in stored}
    keys = dict.fromkeys(key for pattern in fusion.patterns.values() for key in pattern.literals)
    literals = {
        (data, dtype): Buffer(f"literal{number}", dtype, len(data) // dtype.itemsize, "literal")
        for number, (data, dtype) in enumerate(keys)
    }
    buffers = {**external, **arena}
    users = Counter(operand for value in names for operand in dict.fromkeys(value.inputs))
    far = far_buffers(fusion.groups, buffers, target)
    return Context(target, buffers, literals, names, owners=owners_of(buffers), users=users, far=far)


def _literal_data(context: Context, kernels: Sequence[Kernel]) -> dict[Buffer, bytes]:
    """The bytes of the literal arrays that kernels read."""
    read = {b for kernel in kernels for b in kernel.reads}
    found = {buffer: data for (data, _), buffer in context.literals.items() if buffer in read}
    for kernel in kernels:
        if isinstance(kernel, Nested):
            found |= kernel.literals or {}
    return found


def contractions_of(
    function: Function, target: Target, names: Mapping[Value, str]
) -> tuple[Context, dict[Group, PlannedContraction]]:
    """The contractions of a function by group, with their estimated plans, and the context that they are built in."""
    fusion = fuse(function)
    params, result_buffers, in_place = _external_buffers(function)
    context = _context(fusion, target, {**params, **result_buffers, **in_place}, names)
    planned = ((group, planned_contraction(fusion, context, group, {})) for group in fusion.groups)
    return context, {group: made for group, made in planned if made is not None}


def _body(target: Target, schedules: Mapping[str, str], function: Function) -> Body:
    """The kernels of a function that a loop or branch holds."""
    made = _scheduled(function, target, value_names(function), schedules, unobserved, whole=False)
    return Body(
        tuple(made.kernels),
        tuple(made.params[p] for p in function.params),
        tuple(made.results[r] for r in function.results),
        _literal_data(made.context, made.kernels),
    )
