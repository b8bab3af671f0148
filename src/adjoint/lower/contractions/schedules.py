"""The schedules of a contraction: which there are, which the cost models prefer, or which one was measured to be best.

A schedule is a plan: a GEMM with its tile, one whose tiles run across rows of the image, a depthwise convolution or its
gradient, one with lanes along channels, a GEMM over pixels, split-K or its M-blocked variant, inner products, or
Winograd's algorithm. The first step, `plan_contraction`, decides the kind of plan for `adjoint.costs.MODEL`, because it
decides the order in which products are added, and then the plan of that kind for the target.

A contraction is identified by its signature: its axes with the strides of both operands. Measured schedules are stored
by signature, under the names that plans print as.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import inf, sqrt
from typing import NamedTuple

from adjoint import costs
from adjoint.errors import InvalidValueError
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Kernel
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.context import Context
from adjoint.lower.contractions.borders import borders_of, padded_operands, padding_cycles
from adjoint.lower.contractions.channel_lanes import channel_lanes_kernels
from adjoint.lower.contractions.channel_lanes_plan import ChannelLanesPlan, plan_channel_lanes
from adjoint.lower.contractions.collapsed import CollapsedPlan, collapsed_kernels, plan_collapsed
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.depthwise import depthwise_kernel
from adjoint.lower.contractions.depthwise_gradient import (
    DepthwiseGradientPlan,
    depthwise_gradient_kernels,
    plan_depthwise_gradient,
)
from adjoint.lower.contractions.depthwise_lanes import (
    DepthwiseLanesPlan,
    depthwise_lanes_kernels,
    plan_depthwise_lanes,
)
from adjoint.lower.contractions.depthwise_plan import DepthwisePlan, plan_depthwise
from adjoint.lower.contractions.gemm import gemm_kernels
from adjoint.lower.contractions.gemm_plan import GemmPlan, gemm_plans, plan_gemm
from adjoint.lower.contractions.gemm_prefetch import epilogue_streams
from adjoint.lower.contractions.inner_product import inner_product_kernels
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.contractions.inner_product_sweep_plan import plan_inner_product
from adjoint.lower.contractions.kn2row import kn2row_kernels
from adjoint.lower.contractions.kn2row_plan import Kn2RowPlan, plan_kn2row
from adjoint.lower.contractions.m_blocked import m_blocked_kernels
from adjoint.lower.contractions.matching import join_rows, join_runs, split_rows
from adjoint.lower.contractions.split_k import split_k_kernels
from adjoint.lower.contractions.split_k_plan import SplitKPlan, plan_split_k
from adjoint.lower.fusion.groups import Group
from adjoint.lower.winograd.convolution import winograd_kernels
from adjoint.lower.winograd.plan import WinogradPlan, plan_winograd
from adjoint.lower.winograd.weight_gradient import winograd_gradient_kernels
from adjoint.lower.winograd.weight_gradient_plan import WinogradGradientPlan, plan_winograd_gradient

__all__ = ["Plan", "PlannedContraction", "contraction_kernels", "plan_contraction", "same_sums", "schedules"]

#: Plans that add the products of an element one after the other.
GemmLike = GemmPlan | CollapsedPlan | ChannelLanesPlan | DepthwisePlan | DepthwiseLanesPlan

#: How a contraction runs.
Plan = (
    GemmLike | SplitKPlan | InnerProductPlan | DepthwiseGradientPlan | WinogradPlan | WinogradGradientPlan | Kn2RowPlan
)


@dataclass(frozen=True, slots=True)
class PlannedContraction:
    """A contraction of a function, and how it runs.

    Parameters
    ----------
    signature : str
        Equal for contractions that the same schedules suit.
    contraction : Contraction
        The contraction as it was matched.
    plan : Plan
        How it runs.
    """

    signature: str
    contraction: Contraction
    plan: Plan


def plan_contraction(context: Context, group: Group, c: Contraction, known: Mapping[str, str]) -> PlannedContraction:
    """Choose the schedule of a contraction: the one that is known for its signature, else the estimated one.

    Raises
    ------
    InvalidValueError
        If the known schedule is not one of this contraction.
    """
    name = _signature(c, epilogue_streams(context, group, c))
    if name not in known:
        return PlannedContraction(name, c, _estimated(context, group, c))
    for plan in schedules(context, group, c, most=None):
        if str(plan) == known[name]:
            return PlannedContraction(name, c, plan)
    raise InvalidValueError(f"{context.name_of(group)} does not run in the form {known[name]!r}; tune it anew")


def _signature(c: Contraction, streams: int) -> str:
    """The extents and strides that a schedule depends on: ``f32 m16:144,0 n32:0,1 .. k3:1,1, 2 streams``."""

    def axis(role: str, var: Var | None) -> list[str]:
        if var is None:
            return []
        steps = ",".join(str(load.index.coefficient(var)) for load in (c.left, c.right))
        return [f"{role}{var.extent}:{steps}"]

    axes = [*axis("m", c.m), *axis("n", c.n)]
    for role, several in (("b", c.batch), ("k", c.k)):
        axes += [text for var in several for text in axis(role, var)]
    return f"{c.left.dtype} {' '.join(axes)}{f', {streams} streams' if streams else ''}"


def _estimated(context: Context, group: Group, c: Contraction) -> Plan:
    """The plan with the lowest estimated cost, of the kind that is best on the model CPU."""
    target, model = context.target, costs.order_target(context.target)
    on_model = replace(context, target=model)
    others = _other_kinds(on_model, c)
    if not any(others):
        return _gemm(context, group, c)
    best = _best(on_model, group, c, others)
    if model is target:
        return best
    if isinstance(best, GemmLike):
        return _gemm(context, group, c)
    if isinstance(best, SplitKPlan):
        return plan_split_k(target, best.contraction, padded_operands(context, best.contraction)) or best
    if isinstance(best, DepthwiseGradientPlan):
        return plan_depthwise_gradient(context, c) or best
    if isinstance(best, Kn2RowPlan):
        return plan_kn2row(context, c) or best
    if isinstance(best, InnerProductPlan):
        # Not from the contraction of the model's plan: its rows may be fused, and another kind seem better.
        return plan_inner_product(target, _summed_along_k(model, c)) or best
    return _winograd(target, c) or best


class _OtherKinds(NamedTuple):
    """The plans of a contraction that add its products in another order than a GEMM does; None where it has none."""

    winograd: WinogradPlan | WinogradGradientPlan | None
    split_k: SplitKPlan | None
    gradient: DepthwiseGradientPlan | None
    inner_product: InnerProductPlan | None
    kn2row: Kn2RowPlan | None


def _other_kinds(context: Context, c: Contraction) -> _OtherKinds:
    return _OtherKinds(
        _winograd(context.target, c),
        _split_k(context, c),
        plan_depthwise_gradient(context, c),
        plan_inner_product(context.target, _summed_along_k(context.target, c)),
        plan_kn2row(context, c),
    )


def _summed_along_k(target: Target, c: Contraction) -> Contraction:
    """The contraction as inner products compute it: short rows are fused."""
    return join_runs(target, join_rows(target, c))


def _best(context: Context, group: Group, c: Contraction, others: _OtherKinds) -> Plan:
    """The plan with the lowest estimated cost of all kinds."""
    best, plan = _best_of_others(context, group, c, others), others.kn2row
    if plan is None:
        return best
    ratio = _to_taps(context, c, plan, best)
    if _is_close(context, ratio):
        narrow = replace(context, target=costs.NARROW_MODEL)
        kinds = _other_kinds(narrow, c)
        ratio *= _to_taps(narrow, c, kinds.kn2row or plan, _best_of_others(narrow, group, c, kinds))
    return plan if ratio < 1.0 else best


def _to_taps(context: Context, c: Contraction, plan: Kn2RowPlan, other: Plan) -> float:
    """The ratio of the cycles of a GEMM over pixels to those of another plan; infinite where that has no estimate.

    Other plans read a padded image, which is made beforehand, or their cycles are already reduced by what that takes.
    """
    padding = padding_cycles(context, c.right) if plan.shifted.image.buffer is not c.right.buffer else 0.0
    return plan.cycles * _few(context.target, plan.units) / (other.cycles + padding) if other.cycles else inf


def _best_of_others(context: Context, group: Group, c: Contraction, others: _OtherKinds) -> Plan:
    """The plan with the lowest estimated cost of all kinds but GEMMs over pixels."""
    target = context.target
    winograd, split_k, gradient, inner_product, _ = others
    gemm, joined = _gemm(context, group, c), join_rows(target, c)
    if gradient is not None:
        other = gemm.cycles if inner_product is None else gradient.inner_product_cycles(target)
        if gradient.cycles < other:
            return gradient
    split_k_cycles = _split_k_cycles(target, split_k)
    if inner_product is not None and len(c.k) == 1:
        return inner_product if _prefers_inner_products(context, group, joined) else gemm
    direct = min(gemm.cycles, split_k_cycles)
    if winograd is not None and not _prefers_winograd(context, group, c, winograd, direct):
        winograd = None
    estimated = inner_product is not None and inner_product.cycles > 0
    if inner_product is not None and estimated:
        other = direct if winograd is None else winograd.cycles
        if _prefers_sums_along_k(context, group, c, inner_product, other, winograd is not None):
            return inner_product
    if winograd is not None:
        return winograd
    if split_k is not None and _prefers_split_k(context, group, c, split_k, gemm, estimated):
        return split_k
    if estimated:
        return gemm
    # Inner products without an estimate are possible where a result is small, which suits parts of several images.
    if split_k is not None and inner_product is not None and len(c.k) > 2:
        return split_k
    if inner_product is None or split_k is not None or _is_efficient(target, joined, gemm):
        return gemm
    return inner_product


def _split_k_cycles(target: Target, plan: SplitKPlan | None) -> float:
    """The cycles of split-K, or infinity where it is not possible."""
    return plan.cycles * _idle(target, plan.most_units) if plan is not None else inf


def _idle(target: Target, units: int) -> float:
    """How much longer few units take, which leave threads idle; how many threads there will be is not known here."""
    return sqrt(max(1.0, costs.units(target) / 2 / units))


def _few(target: Target, units: int) -> float:
    """The same for plans whose units cannot be split: only fewer than two for each core count."""
    return sqrt(max(1.0, costs.least_units(target) / units))


def _prefers_split_k(
    context: Context, group: Group, c: Contraction, plan: SplitKPlan, gemm: GemmLike, is_small: bool
) -> bool:
    """Whether split-K takes fewer cycles than the best GEMM; parts keep more threads busy than a small result does."""

    def ratio(on: Context, plan: SplitKPlan | None, gemm: GemmLike) -> float:
        few = _idle(on.target, gemm.most_units) if is_small and isinstance(gemm, ChannelLanesPlan) else 1.0
        return _split_k_cycles(on.target, plan) / max(gemm.cycles * few, 1.0)

    first = ratio(context, plan, gemm)
    if not _is_close(context, first):
        return first < 1.0
    narrow = replace(context, target=costs.NARROW_MODEL)
    return first * ratio(narrow, _split_k(narrow, c), _gemm(narrow, group, c)) < 1.0


def _prefers_winograd(
    context: Context, group: Group, c: Contraction, plan: WinogradPlan | WinogradGradientPlan, direct: float
) -> bool:
    """Whether Winograd's algorithm takes fewer cycles than the best plan that multiplies directly."""
    ratio = plan.cycles / max(direct, 1.0)
    if not _is_close(context, ratio):
        return ratio < 1.0
    narrow = replace(context, target=costs.NARROW_MODEL)
    cycles = (_winograd(narrow.target, c) or plan).cycles
    return ratio * cycles / max(_direct_cycles(narrow, group, c), 1.0) < 1.0


def _prefers_sums_along_k(
    context: Context, group: Group, c: Contraction, plan: InnerProductPlan, other: float, by_winograd: bool
) -> bool:
    """Whether inner products over several axes take fewer cycles than the best GEMM or split-K, or than Winograd's."""
    ratio = _to_other(context.target, c, plan, other)
    if not _is_close(context, ratio):
        return ratio < 1.0
    narrow = replace(context, target=costs.NARROW_MODEL)
    plan = plan_inner_product(narrow.target, _summed_along_k(narrow.target, c)) or plan
    winograd = _winograd(narrow.target, c) if by_winograd else None
    other = _direct_cycles(narrow, group, c) if winograd is None else winograd.cycles
    return ratio * _to_other(narrow.target, c, plan, other) < 1.0


def _is_close(context: Context, ratio: float) -> bool:
    """Whether the model CPU leaves open which of two plans is better: the mean over both model CPUs is to decide."""
    return 1 / costs.CLOSE < ratio < costs.CLOSE and context.target is costs.MODEL


def _direct_cycles(context: Context, group: Group, c: Contraction) -> float:
    """The cycles of the best GEMM or split-K."""
    return min(_gemm(context, group, c).cycles, _split_k_cycles(context.target, _split_k(context, c)))


def _to_other(target: Target, c: Contraction, plan: InnerProductPlan, other: float) -> float:
    """The ratio of the cycles of inner products to those of another plan, including waits for memory."""
    nbytes = c.left.buffer.nbytes + c.right.buffer.nbytes
    far = nbytes / costs.far_bytes_per_cycle(target) if nbytes > costs.l3_block_bytes(target) else 0.0
    idle = _few(target, plan.units) if not plan.swept else 1.0
    # Others wait for memory while they pack a block. The longer the rest takes, the more of that prefetches hide: from
    # nothing to two thirds, for some 20 random gradients with operands from memory (Zen 4).
    exposed = far * sqrt(far / max(far + other, 1.0))
    return (max(plan.cycles * idle, far) + far * costs.EXPOSED_TRANSFERS) / max(other + exposed, 1.0)


def _is_efficient(target: Target, c: Contraction, plan: GemmLike) -> bool:
    """Whether a plan keeps the multiply-add units so busy that none without an estimate can be much faster."""
    vectors = c.batches * c.rows * c.columns * c.depth / target.lanes(c.dtype)
    return costs.multiply_add_cycles(target, vectors) >= costs.EFFICIENT * plan.cycles


def _prefers_inner_products(context: Context, group: Group, c: Contraction) -> bool:
    """Whether a plain product runs as inner products: they take fewer cycles than a GEMM, in the geometric mean.

    The mean is over both model CPUs, since a result of few columns leaves lanes of wide vectors idle only.
    """
    targets = (costs.MODEL, costs.NARROW_MODEL) if context.target is costs.MODEL else (context.target,)
    ratio = 1.0
    for target in targets:
        inner_product = plan_inner_product(target, join_runs(target, c))
        if inner_product is None:
            return False
        ratio *= inner_product.cycles / _gemm(replace(context, target=target), group, c).cycles
    return ratio < 1.0


def _gemm(context: Context, group: Group, c: Contraction) -> GemmLike:
    """The best plan that adds the products of an element one after the other."""
    target, joined = context.target, join_rows(context.target, c)
    depthwise = [plan for plan in (plan_depthwise(context, c), plan_depthwise_lanes(context, c)) if plan is not None]
    if depthwise:
        return min(depthwise, key=lambda plan: plan.cycles)
    gemm = _without_borders(context, plan_gemm(target, joined, epilogue_streams(context, group, joined)))
    others = plan_collapsed(target, joined), plan_channel_lanes(context, c)
    return min((gemm, *(plan for plan in others if plan is not None)), key=lambda plan: plan.cycles)


def _without_borders(context: Context, plan: GemmPlan) -> GemmPlan:
    """The plan that leaves out the products with rows of zeros above and below an image, if there are any."""
    c = plan.contraction
    own = [v for v in c.batch if not c.left.index.coefficient(v)]
    borders = borders_of(padded_operands(context, c), c.right, own, c.k) if own else ()
    return plan.without(borders[0]) if borders else plan


def _split_k(context: Context, c: Contraction) -> SplitKPlan | None:
    """The plan of split-K, for which rows that are fused stay apart where it cannot walk them as one."""
    padded, joined = padded_operands(context, c), join_rows(context.target, c)
    return plan_split_k(context.target, joined, padded) or plan_split_k(context.target, c, padded)


def _winograd(target: Target, c: Contraction) -> WinogradPlan | WinogradGradientPlan | None:
    """The plan of Winograd's algorithm or of the transposed one: where both are possible, the model CPU decides.

    The gradient of a weight is also a convolution of images with windows as large as the cotangent.
    """
    convolution, gradient = plan_winograd(target, split_rows(c)), plan_winograd_gradient(target, c)
    if convolution is None or gradient is None:
        return convolution or gradient
    model = costs.order_target(target)
    if model is not target:
        decides = _winograd(model, c)
        return convolution if isinstance(decides, WinogradPlan) else gradient
    return convolution if convolution.cycles < gradient.cycles else gradient


def schedules(context: Context, group: Group, c: Contraction, most: int | None = costs.TILE_CANDIDATES) -> list[Plan]:
    """Every schedule that is worth measuring, the estimated one first; `most` tiles of a GEMM, packed and in place."""
    target, joined = context.target, join_rows(context.target, c)
    gemms = gemm_plans(target, joined, epilogue_streams(context, group, joined), most)
    others = (
        *_other_kinds(context, c),
        plan_collapsed(target, joined),
        plan_channel_lanes(context, c),
        plan_depthwise(context, c),
        plan_depthwise_lanes(context, c),
        *(_without_borders(context, plan) for plan in gemms),
    )
    by_name: dict[str, Plan] = {}
    for plan in (_estimated(context, group, c), *others):
        if plan is not None:
            by_name.setdefault(str(plan), plan)
    return list(by_name.values())


def same_sums(plans: Sequence[Plan]) -> list[Plan]:
    """Those of several plans that add the products of an element in the same order as the first: all GEMMs do."""
    return [
        plan for plan in plans if plan is plans[0] or (isinstance(plan, GemmLike) and isinstance(plans[0], GemmLike))
    ]


def contraction_kernels(context: Context, group: Group, plan: Plan) -> list[Kernel]:
    """The kernels of a contraction under a plan."""
    if isinstance(plan, GemmPlan):
        return gemm_kernels(context, group, plan)
    if isinstance(plan, CollapsedPlan):
        return collapsed_kernels(context, group, plan)
    if isinstance(plan, ChannelLanesPlan):
        return channel_lanes_kernels(context, group, plan)
    if isinstance(plan, DepthwisePlan):
        return [depthwise_kernel(context, group, plan)]
    if isinstance(plan, DepthwiseLanesPlan):
        return depthwise_lanes_kernels(context, group, plan)
    if isinstance(plan, DepthwiseGradientPlan):
        return depthwise_gradient_kernels(context, group, plan)
    if isinstance(plan, SplitKPlan):
        return (m_blocked_kernels if plan.m_blocked else split_k_kernels)(context, group, plan)
    if isinstance(plan, InnerProductPlan):
        return inner_product_kernels(context, group, plan)
    if isinstance(plan, Kn2RowPlan):
        return kn2row_kernels(context, group, plan)
    if isinstance(plan, WinogradPlan):
        return winograd_kernels(context, group, plan)
    return winograd_gradient_kernels(context, group, plan)
