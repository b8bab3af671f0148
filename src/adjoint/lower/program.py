"""The driver of lowering, from a function to a program: group values, build, fuse and order kernels, plan memory.

The pass `build_kernels` makes a kernel of every group, and several of some contractions and reductions.

Before::

    func @main(%x: f32[20], %z: f32[20]) -> f32[20] {
      %p: f32[20] = multiply(%x, %z)
      %y: f32[20] = relu(%p)
      return %y
    }

After::

    kernel y: computes %y
      1 units, on one thread; 40 flops, 240 bytes
      reads x f32[20], z f32[20]; writes result0 f32[20]
      for u in 0..1 units:
        for v in 0..2:
          for l in 0..8 vector:
            result0[v*8 + l] = max(mul(x[v*8 + l], z[v*8 + l]), 0)
        for l in 0..4 vector:
          result0[l + 16] = max(mul(x[l + 16], z[l + 16]), 0)
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from typing import Any

from adjoint import costs
from adjoint.errors import VerifyError
from adjoint.ir import Function, Value, value_names
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.program import Argument, Program, RangeCheck, Result
from adjoint.kernel.regions import Nested, flattened
from adjoint.kernel.target import Target
from adjoint.lower.analysis.footprint import with_tiles
from adjoint.lower.analysis.inlining import (
    FusedAttention,
    PrefixScan,
    Reduction,
    RowAlgorithm,
    Scatter,
    output_vars,
)
from adjoint.lower.analysis.reuse_distance import far_buffers
from adjoint.lower.attention.online_softmax import attention_kernels
from adjoint.lower.context import Context, group_inliner
from adjoint.lower.contractions.matching import match_contraction
from adjoint.lower.contractions.schedules import PlannedContraction, contraction_kernels, plan_contraction
from adjoint.lower.control import Body, nested_kernel, read_while_updated
from adjoint.lower.copying import copy_kernel
from adjoint.lower.elementwise import map_kernel
from adjoint.lower.fusion.groups import Fusion, Group, fuse
from adjoint.lower.passes import KERNEL_PASSES, PassContext, name_kernels
from adjoint.lower.reductions.prefix_scan import prefix_scan_kernel
from adjoint.lower.reductions.reduction import reduction_kernels
from adjoint.lower.reductions.scatter import scatter_kernel
from adjoint.lower.reductions.two_stage import FirstStage, first_stages, fusable_reductions, second_stage_kernel
from adjoint.lower.rows.kernel import row_kernel
from adjoint.lower.schedule.bound_rows import bound_rows
from adjoint.lower.schedule.memory import plan_arena
from adjoint.lower.schedule.order import barriers, circular_updates, claimed_kernels, read_elsewhere
from adjoint.lower.schedule.rows import GraphBatch
from adjoint.lower.winograd.plan import WinogradPlan
from adjoint.ops.control import is_control

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
    made = _scheduled(function, target, names, schedules or {}, after)
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
    function: Function, target: Target, names: Mapping[Value, str], schedules: Mapping[str, str], after: Observer
) -> _Scheduled:
    """Build the kernels of a function and run the passes over them."""
    fusion = fuse(function)
    after("fuse", fusion)
    param_buffers, result_buffers, in_place = _external_buffers(function)
    updated = frozenset(in_place.values())
    context = _context(fusion, target, {**param_buffers, **result_buffers, **in_place}, names)
    built = _build_kernels(fusion, context, schedules)
    kernels = built.in_order()
    given_up = circular_updates(kernels, updated) | read_elsewhere(kernels, updated)
    given_up |= read_while_updated(kernels, updated)
    if given_up:
        copied = {v: b for v, b in in_place.items() if b in given_up}
        apart = {v: Buffer(names[v], v.dtype, v.type.size, "arena") for v in copied}
        context = replace(context, buffers={**context.buffers, **apart})
        kernels = _build_kernels(fusion, context, schedules, built.without(given_up)).in_order()
        kernels += [
            copy_kernel(context, f"{names[v].removeprefix('%')}_update", [v], apart[v], b) for v, b in copied.items()
        ]
    kernels = list(map(with_tiles, kernels))
    after("build_kernels", kernels)
    known = PassContext(target, updated)
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
    return Context(target, buffers, literals, names, far=far_buffers(fusion.groups, buffers, target))


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
    return context, _planned(fusion, context, {}, {})


def _planned(
    fusion: Fusion, context: Context, known: Mapping[str, str], made: Mapping[Group, PlannedContraction]
) -> dict[Group, PlannedContraction]:
    """How each contraction runs, by its group, given those that have been planned."""
    out = dict(made)
    for group in fusion.groups:
        if group not in out and group.root is not None and fusion.patterns[group.root].product:
            c = match_contraction(context, group)
            if c is not None:
                out[group] = plan_contraction(context, group, c, known)
    return out


@dataclass(frozen=True, slots=True)
class _Built:
    """What has been built of groups: plans of contractions, first stages in their kernels, and kernels."""

    planned: Mapping[Group, PlannedContraction] = field(default_factory=dict)
    first: Mapping[Group, tuple[FirstStage, ...]] = field(default_factory=dict)
    kernels: Mapping[Group, list[Kernel]] = field(default_factory=dict)

    def without(self, buffers: frozenset[Buffer]) -> "_Built":
        """Without the kernels that write some buffers of parameters.

        Those that read them read the parameters, whose memory stays (`adjoint.transforms.separate_results`).
        """
        kept = {g: made for g, made in self.kernels.items() if not any(buffers.intersection(k.writes) for k in made)}
        return replace(self, kernels=kept)

    def in_order(self) -> list[Kernel]:
        """All kernels, level by level.

        Second stages come last, so that first stages are neighbours, which can be fused horizontally.
        """
        out: list[Kernel] = []
        for _, level in groupby(sorted(self.kernels, key=lambda g: g.level), lambda g: g.level):
            later: list[Kernel] = []
            for group in level:
                own = self.kernels[group]
                whole = len(own) if group in self.planned else 1
                out += own[:whole]
                later += own[whole:]
            out += later
        return out


def _build_kernels(fusion: Fusion, context: Context, known: Mapping[str, str], made: _Built | None = None) -> _Built:
    """Plan all contractions and the reductions that start in their kernels, then build the kernels of all groups.

    What has been `made` is kept.
    """
    made = made or _Built()
    planned = _planned(fusion, context, known, made.planned)
    fusable = fusable_reductions(fusion, context)
    first = {
        group: made.first[group]
        if group in made.first
        else first_stages(context, one.plan.contraction, one.plan.parts, fusable.get(group, ()))
        for group, one in planned.items()
        if isinstance(one.plan, WinogradPlan)
    }
    context = replace(context, first_stages=first)
    second = {stage.staged.source.group: stage.staged for stages in first.values() for stage in stages}
    kernels: dict[Group, list[Kernel]] = {}
    for group in fusion.groups:
        if group in made.kernels:
            kernels[group] = made.kernels[group]
        elif group in planned:
            kernels[group] = contraction_kernels(context, group, planned[group].plan)
        elif group in second:
            kernels[group] = [second_stage_kernel(context, second[group])]
        elif group.leader is None:
            together = [g for g in (group, *group.companions) if g.outputs]
            kernels[group] = _group_kernels(context, together, known) if together else []
    return _Built(planned, first, kernels)


def _group_kernels(context: Context, groups: Sequence[Group], schedules: Mapping[str, str]) -> list[Kernel]:
    """The kernels of a group that is no contraction, or of several attention groups together."""
    group = groups[0]
    if group.root is None:
        return [map_kernel(context, group)]
    if is_control(group.root):
        return [nested_kernel(context, group, partial(_body, context.target, schedules))]
    out = output_vars(group.shape)
    description = group_inliner(context, group).describe(group.root, tuple(as_index(v) for v in out))
    if isinstance(description, Scatter):
        return [scatter_kernel(context, group, description)]
    if isinstance(description, RowAlgorithm):
        return [row_kernel(context, group, description)]
    if isinstance(description, PrefixScan):
        return [prefix_scan_kernel(context, group, description)]
    if isinstance(description, FusedAttention):
        return attention_kernels(context, groups)
    if not isinstance(description, Reduction):
        raise VerifyError(f"{group.root.op.name} lowers to neither an element nor a reduction; fix its lower method")
    return reduction_kernels(context, group, description, out)


def _body(target: Target, schedules: Mapping[str, str], function: Function) -> Body:
    """The kernels of a function that a loop or branch holds."""
    made = _scheduled(function, target, value_names(function), schedules, unobserved)
    return Body(
        tuple(made.kernels),
        tuple(made.params[p] for p in function.params),
        tuple(made.results[r] for r in function.results),
        _literal_data(made.context, made.kernels),
    )
