"""The schedules of a contraction: which there are, which the cost models prefer, or which one was measured to be best.

A schedule is written as `sums` (split-K, or M-blocked GEMM where there are enough panels: `split_k`, `m_blocked`), as
`dots` (`inner_product`), as `winograd`, or as the tile configuration of a GEMM, rows x vectors x stack: ``8x2x1`` with
operands read in place, ``14x2x1 packed`` panel by panel. A contraction is identified by its signature: its axes with
the strides of both operands.
"""

from collections.abc import Callable, Mapping
from math import inf, sqrt

from adjoint.errors import InvalidValueError
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Kernel
from adjoint.lower.context import Context
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm import gemm_kernels
from adjoint.lower.contractions.gemm_plan import UNITS, TileConfig, plan_gemm, tiles_by_cost
from adjoint.lower.contractions.inner_product import inner_product_kernel, plan_inner_product
from adjoint.lower.contractions.loop_order import epilogue_streams
from adjoint.lower.contractions.m_blocked import m_blocked_kernels
from adjoint.lower.contractions.matching import join_rows, join_runs, split_rows
from adjoint.lower.contractions.split_k import split_k_kernels
from adjoint.lower.contractions.split_k_plan import plan_split_k
from adjoint.lower.fusion.groups import Group
from adjoint.lower.winograd.convolution import winograd_kernels
from adjoint.lower.winograd.plan import plan_winograd
from adjoint.lower.winograd.weight_gradient import plan_winograd_gradient, winograd_gradient_kernels

__all__ = ["build", "contraction_kernels", "estimated_schedule", "schedules", "signature"]

#: Number of tile configurations to measure, packed and in place each: those with the lowest estimated cost.
_TILE_CANDIDATES = 5


def contraction_kernels(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    """The kernels of a contraction, by the schedule chosen for its signature, else by the estimated one."""
    name = signature(context, group, c)
    context.contractions.setdefault(name, (group, c))
    return build(context, group, c, context.schedules.get(name) or estimated_schedule(context, group, c))


def signature(context: Context, group: Group, c: Contraction) -> str:
    """The extents and strides that a schedule depends on: ``f32 m16:144,0 n32:0,1 .. k3:1,1, 2 streams``."""

    def axis(role: str, var: Var | None) -> list[str]:
        if var is None:
            return []
        steps = ",".join(str(load.index.coefficient(var)) for load in (c.left, c.right))
        return [f"{role}{var.extent}:{steps}"]

    axes = [*axis("m", c.m), *axis("n", c.n)]
    for role, several in (("b", c.batch), ("k", c.k)):
        axes += [text for var in several for text in axis(role, var)]
    streams = epilogue_streams(context, group, c)
    return f"{c.left.dtype} {' '.join(axes)}{f', {streams} streams' if streams else ''}"


def estimated_schedule(context: Context, group: Group, c: Contraction) -> str:
    """The schedule with the lowest estimated cost."""
    target = context.target
    winograd = plan_winograd(target, split_rows(c)) or plan_winograd_gradient(target, c)
    c = join_rows(target, c)
    inner_product = plan_inner_product(target, join_runs(target, c)) is not None
    split_k = plan_split_k(target, c)
    plan = plan_gemm(target, c, epilogue_streams(context, group, c))
    # Few units leave threads idle; how many threads there will be is not known here.
    split_k_cycles = split_k.cycles * sqrt(max(1.0, UNITS / 2 / split_k.units)) if split_k is not None else inf
    if winograd is not None and winograd.cycles < min(plan.cycles, split_k_cycles):
        return "winograd"
    if split_k is not None and (inner_product or split_k_cycles < plan.cycles):
        return "sums"
    return "dots" if inner_product else str(TileConfig((plan.rows, plan.vectors, plan.stack), plan.pack_right))


def schedules(context: Context, group: Group, c: Contraction) -> list[str]:
    """Every schedule that is worth measuring, the estimated one first."""
    target, streams = context.target, epilogue_streams(context, group, join_rows(context.target, c))
    found = [estimated_schedule(context, group, c)]
    if plan_winograd(target, split_rows(c)) is not None or plan_winograd_gradient(target, c) is not None:
        found.append("winograd")
    c = join_rows(target, c)
    if plan_split_k(target, c) is not None:
        found.append("sums")
    if plan_inner_product(target, join_runs(target, c)) is not None:
        found.append("dots")
    for packed in (False, True):
        if packed or c.vector_loadable:
            tiles = tiles_by_cost(target, c, streams, packed)[:_TILE_CANDIDATES]
            found += [str(TileConfig(tile, packed)) for _, tile in tiles]
    return list(dict.fromkeys(found))


def build(context: Context, group: Group, c: Contraction, schedule: str) -> list[Kernel]:
    """The kernels of a contraction under a schedule.

    Raises
    ------
    InvalidValueError
        If the contraction has no such schedule.
    """
    wide = join_rows(context.target, c)
    builders: Mapping[str, Callable[[], list[Kernel]]] = {
        "winograd": lambda: _winograd(context, group, c),
        "sums": lambda: _split_k(context, group, wide),
        "dots": lambda: _inner_product(context, group, wide),
    }
    kernels = (
        builders[schedule]()
        if schedule in builders
        else gemm_kernels(context, group, wide, _parse_tile_config(schedule))
    )
    if not kernels:
        raise InvalidValueError(f"{context.name_of(group)} does not run in the form {schedule!r}; tune it anew")
    return kernels


def _winograd(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    rows = split_rows(c)
    plan = plan_winograd(context.target, rows)
    if plan is not None:
        return winograd_kernels(context, group, rows, plan)
    split_k = plan_winograd_gradient(context.target, c)
    return [] if split_k is None else winograd_gradient_kernels(context, group, c, split_k)


def _split_k(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    plan = plan_split_k(context.target, c)
    if plan is None:
        return []
    return (m_blocked_kernels if plan.groups > 1 else split_k_kernels)(context, group, c, plan)


def _inner_product(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    joined = join_runs(context.target, c)
    plan = plan_inner_product(context.target, joined)
    return [] if plan is None else [inner_product_kernel(context, group, joined, plan)]


def _parse_tile_config(schedule: str) -> TileConfig:
    tile, _, packed = schedule.partition(" ")
    sizes = tile.split("x")
    if len(sizes) != 3 or not all(size.isdigit() for size in sizes) or packed not in ("", "packed"):
        raise InvalidValueError(
            f"a form is sums, dots, or a tile such as 8x2x1 or 8x2x1 packed, got {schedule!r}; tune it anew"
        )
    rows, vectors, stack = map(int, sizes)
    return TileConfig((rows, vectors, stack), packed == "packed")
