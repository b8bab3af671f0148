"""Make a kernel of every group, and several of some contractions and reductions.

Bundles of groups that repeat are built once: the kernels of the others are copies (`adjoint.lower.bundles`).

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

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby

from adjoint.errors import VerifyError
from adjoint.ir import Function
from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Buffer, Kernel
from adjoint.kernel.renaming import Renaming
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.analysis.footprint import with_tiles
from adjoint.lower.analysis.inlining import (
    FusedAttention,
    PrefixScan,
    Reduction,
    RowAlgorithm,
    Scatter,
    output_vars,
)
from adjoint.lower.attention.online_softmax import attention_kernels
from adjoint.lower.bundles import Bundle, Description, bundles_of, describe
from adjoint.lower.context import Context, group_inliner
from adjoint.lower.contractions.depthwise_transposed import depthwise_transposed_kernel, plan_depthwise_transposed
from adjoint.lower.contractions.matching import match_contraction
from adjoint.lower.contractions.schedules import PlannedContraction, contraction_kernels, plan_contraction
from adjoint.lower.control import Body, nested_kernel
from adjoint.lower.elementwise import map_kernel
from adjoint.lower.fusion.groups import Fusion, Group
from adjoint.lower.reductions.prefix_scan import prefix_scan_kernel
from adjoint.lower.reductions.reduction import reduction_kernels
from adjoint.lower.reductions.scatter import scatter_kernel
from adjoint.lower.reductions.two_stage import FirstStage, first_stages, fusable_reductions, second_stage_kernel
from adjoint.lower.rows.kernel import row_kernel
from adjoint.lower.winograd.plan import WinogradPlan
from adjoint.ops.control import is_control

__all__ = ["BuiltKernels", "build_kernels", "planned_contraction"]

#: Lowers a function that a loop or branch holds.
LowerBody = Callable[[Function], Body]


@dataclass(frozen=True, slots=True)
class _BuiltBundle:
    """The kernels of a bundle, or of some of its groups.

    Parameters
    ----------
    kernels : mapping of Group to sequence of Kernel
        Those of each group.
    stages : tuple of FirstStage
        Sums that start in the kernels of the first group.
    contraction : bool
        Whether the first group is a contraction.
    """

    kernels: Mapping[Group, Sequence[Kernel]]
    stages: tuple[FirstStage, ...] = ()
    contraction: bool = False


@dataclass(frozen=True, slots=True)
class BuiltKernels:
    """The kernels of all groups, in bundles by their first group."""

    bundles: Mapping[Group, _BuiltBundle] = field(default_factory=dict)

    def without(self, buffers: frozenset[Buffer]) -> "BuiltKernels":
        """Without the kernels of groups that write some buffers of parameters.

        Those that read them read the parameters, whose memory stays (`adjoint.transforms.separate_results`).
        """

        def kept(built: _BuiltBundle) -> _BuiltBundle:
            own = {
                g: made for g, made in built.kernels.items() if not any(buffers.intersection(k.writes) for k in made)
            }
            return replace(built, kernels=own)

        return BuiltKernels({group: kept(built) for group, built in self.bundles.items()})

    def in_order(self, groups: Sequence[Group]) -> list[Kernel]:
        """All kernels, level by level, and in the order of `groups` within a level.

        Second stages come last, so that first stages are neighbours, which can be fused horizontally.
        """
        kernels = {group: made for built in self.bundles.values() for group, made in built.kernels.items()}
        contractions = {group for group, built in self.bundles.items() if built.contraction}
        out: list[Kernel] = []
        order = sorted((group for group in groups if group in kernels), key=lambda g: g.level)
        for _, level in groupby(order, lambda g: g.level):
            later: list[Kernel] = []
            for group in level:
                own = kernels[group]
                whole = len(own) if group in contractions else 1
                out += own[:whole]
                later += own[whole:]
            out += later
        return out


def build_kernels(
    fusion: Fusion,
    context: Context,
    known: Mapping[str, str],
    lower_body: LowerBody,
    made: BuiltKernels | None = None,
) -> BuiltKernels:
    """Build the kernels of all groups.

    Parameters
    ----------
    fusion : Fusion
        The groups.
    context : Context
        Where their values are.
    known : mapping
        Measured schedules of contractions by signature.
    lower_body : callable
        Lowers a function that a loop or branch holds.
    made : BuiltKernels, optional
        Kernels that are kept.
    """
    before = made.bundles if made is not None else {}
    builder = _Builder(fusion, context, known, lower_body)
    return BuiltKernels(
        {
            bundle.first: builder.built(bundle, before.get(bundle.first, _BuiltBundle({})))
            for bundle in bundles_of(fusion, fusable_reductions(fusion, context))
        }
    )


def planned_contraction(
    fusion: Fusion, context: Context, group: Group, known: Mapping[str, str]
) -> PlannedContraction | None:
    """How a group runs if it is a contraction."""
    if group.root is None or not fusion.patterns[group.root].product:
        return None
    c = match_contraction(context, group)
    return None if c is None else plan_contraction(context, group, c, known)


class _Builder:
    """Builds bundles one after the other, and remembers the first of those that are equal."""

    def __init__(self, fusion: Fusion, context: Context, known: Mapping[str, str], lower_body: LowerBody) -> None:
        self.fusion = fusion
        self.context = context
        self.known = known
        self.lower_body = lower_body
        self._first: dict[Hashable, tuple[Bundle, Description, _BuiltBundle]] = {}

    def built(self, bundle: Bundle, made: _BuiltBundle) -> _BuiltBundle:
        """The kernels of a bundle, given those that are kept."""
        missing = [group for group in bundle.groups if group not in made.kernels]
        if made.contraction and bundle.first not in missing:
            # The kernels of the contraction hold first stages; those of second stages go with them.
            more = {group: self._group_kernels([group], made.stages) for group in missing}
            return replace(made, kernels={**made.kernels, **more})
        if not missing:
            return made
        if not bundle.repeats:
            return self._new(bundle)
        own = describe(self.context, bundle)
        if own.key not in self._first:
            self._first[own.key] = (bundle, own, self._new(bundle))
            return self._first[own.key][2]
        return self._copied(*self._first[own.key], bundle, own)

    def _new(self, bundle: Bundle) -> _BuiltBundle:
        """The kernels of a bundle that has no equal."""
        planned = planned_contraction(self.fusion, self.context, bundle.first, self.known)
        if planned is None:
            kernels = {group: self._group_kernels([group], ()) for group in bundle.groups[1:]}
            own = self._group_kernels(bundle.stored, ()) if bundle.stored else []
            return _BuiltBundle({bundle.first: own} | kernels)
        stages: tuple[FirstStage, ...] = ()
        if isinstance(planned.plan, WinogradPlan):
            c, parts = planned.plan.contraction, planned.plan.parts
            stages = first_stages(self.context, c, parts, bundle.reductions)
        context = replace(self.context, first_stages={bundle.first: stages})
        kernels = {bundle.first: _tiled(contraction_kernels(context, bundle.first, planned.plan))}
        kernels |= {r.group: self._group_kernels([r.group], stages) for r in bundle.reductions}
        return _BuiltBundle(kernels, stages, contraction=True)

    def _copied(
        self, like: Bundle, theirs: Description, made: _BuiltBundle, bundle: Bundle, own: Description
    ) -> _BuiltBundle:
        """The kernels of a bundle that equals one whose kernels have been made."""
        names = theirs.names(own, self.context)
        copy = Renaming(dict(zip(theirs.buffers, own.buffers, strict=True)), names.of)
        group_of = dict(zip(like.groups, bundle.groups, strict=True))
        kernels = {
            group_of[group]: [copy.kernel(kernel, [names.values[v] for v in kernel.values]) for kernel in several]
            for group, several in made.kernels.items()
        }
        reductions = dict(zip((r.group for r in like.reductions), bundle.reductions, strict=True))
        stages = []
        for stage in made.stages:
            source, memory = reductions[stage.staged.source.group], copy.buffer(stage.staged.memory)
            staged = replace(stage.staged, source=source, memory=memory)
            stages.append(FirstStage(staged, tuple(map(copy.buffer, stage.registers))))
        return _BuiltBundle(kernels, tuple(stages), made.contraction)

    def _group_kernels(self, groups: Sequence[Group], stages: Sequence[FirstStage]) -> list[Kernel]:
        """The kernels of a group that is no contraction, or of several attention groups together."""
        second = {stage.staged.source.group: stage.staged for stage in stages}
        if groups[0] in second:
            return _tiled([second_stage_kernel(self.context, second[groups[0]])])
        return _tiled(self._plain_kernels(groups))

    def _plain_kernels(self, groups: Sequence[Group]) -> list[Kernel]:
        """The same if no first stage is in another kernel."""
        context, group = self.context, groups[0]
        if group.root is None:
            return [map_kernel(context, group)]
        if is_control(group.root):
            return [nested_kernel(context, group, self.lower_body)]
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
            raise VerifyError(
                f"{group.root.op.name} lowers to neither an element nor a reduction; fix its lower method"
            )
        if (transposed := plan_depthwise_transposed(context, group)) is not None:
            return [depthwise_transposed_kernel(context, group, transposed)]
        return reduction_kernels(context, group, description, out)


def _tiled(kernels: Sequence[Kernel]) -> list[Kernel]:
    return list(map(with_tiles, kernels))
