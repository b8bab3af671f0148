"""How a contraction runs: the forms there are, the one that is estimated to be fastest, or one that was measured.

A form is written as `sums` (`adjoint.lower.contractions.split_k`), `dots` (`adjoint.lower.contractions.inner_product`), or as a register tile of rows,
vectors and neighbours (`adjoint.lower.contractions.gemm`), ``8x2x1`` with operands read in place, ``14x2x1 packed`` panel by panel.
What has a say in it is written as a signature: the axes with the strides of both factors.
"""

from collections.abc import Callable, Mapping
from math import inf, sqrt

from adjoint.errors import InvalidValueError
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Kernel
from adjoint.lower.context import Context
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.gemm import contraction_kernels
from adjoint.lower.contractions.inner_product import dot_kernel, plan_dots
from adjoint.lower.contractions.loop_order import streams_of
from adjoint.lower.contractions.m_blocked import grouped_sum_kernels
from adjoint.lower.contractions.matching import join_rows, join_runs, split_rows
from adjoint.lower.contractions.split_k import sum_kernels
from adjoint.lower.contractions.split_k_plan import plan_sums
from adjoint.lower.contractions.tile_plan import UNITS, Wish, plan_contraction, tiles_by_cost
from adjoint.lower.fusion.groups import Group
from adjoint.lower.winograd.convolution import winograd_kernels
from adjoint.lower.winograd.plan import plan_winograd
from adjoint.lower.winograd.weight_gradient import plan_winograd_sums, winograd_sum_kernels

__all__ = ["build", "contraction_form", "estimated", "forms", "signature"]

#: Tiles of either kind that are worth measuring: the first by estimated cycles.
_TILES = 5


def contraction_form(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    """The kernels of a contraction, in the form that was chosen for its signature, or else in the estimated one."""
    name = signature(context, group, c)
    context.met.setdefault(name, (group, c))
    return build(context, group, c, context.choices.get(name) or estimated(context, group, c))


def signature(context: Context, group: Group, c: Contraction) -> str:
    """What a contraction looks like to memory: ``f32 m16:144,0 n32:0,1 .. k3:1,1, 2 streams``."""

    def axis(role: str, var: Var | None) -> list[str]:
        if var is None:
            return []
        steps = ",".join(str(load.index.coefficient(var)) for load in (c.left, c.right))
        return [f"{role}{var.extent}:{steps}"]

    axes = [*axis("m", c.m), *axis("n", c.n)]
    for role, several in (("b", c.batch), ("k", c.k)):
        axes += [text for var in several for text in axis(role, var)]
    streams = streams_of(context, group, c)
    return f"{c.left.dtype} {' '.join(axes)}{f', {streams} streams' if streams else ''}"


def estimated(context: Context, group: Group, c: Contraction) -> str:
    """The form with the fewest estimated cycles."""
    target = context.target
    fast = plan_winograd(target, split_rows(c)) or plan_winograd_sums(target, c)
    c = join_rows(target, c)
    dots = plan_dots(target, join_runs(target, c)) is not None
    sums = plan_sums(target, c)
    plan = plan_contraction(target, c, streams_of(context, group, c))
    # Sums that few threads can share leave the others idle; how many there will be is not known here.
    summed = sums.cycles * sqrt(max(1.0, UNITS / 2 / sums.units)) if sums is not None else inf
    if fast is not None and fast.cycles < min(plan.cycles, summed):
        return "winograd"
    if sums is not None and (dots or summed < plan.cycles):
        return "sums"
    return "dots" if dots else str(Wish((plan.rows, plan.vectors, plan.stack), plan.pack_right))


def forms(context: Context, group: Group, c: Contraction) -> list[str]:
    """Every form that is worth measuring, the estimated one first."""
    target, streams = context.target, streams_of(context, group, join_rows(context.target, c))
    found = [estimated(context, group, c)]
    if plan_winograd(target, split_rows(c)) is not None or plan_winograd_sums(target, c) is not None:
        found.append("winograd")
    c = join_rows(target, c)
    if plan_sums(target, c) is not None:
        found.append("sums")
    if plan_dots(target, join_runs(target, c)) is not None:
        found.append("dots")
    for packed in (False, True):
        if packed or c.lanes_are_near:
            tiles = tiles_by_cost(target, c, streams, packed)[:_TILES]
            found += [str(Wish(tile, packed)) for _, tile in tiles]
    return list(dict.fromkeys(found))


def build(context: Context, group: Group, c: Contraction, form: str) -> list[Kernel]:
    """The kernels of a contraction in a form.

    Raises
    ------
    InvalidValueError
        Where the contraction has no such form.
    """
    wide = join_rows(context.target, c)
    makers: Mapping[str, Callable[[], list[Kernel]]] = {
        "winograd": lambda: _winograd(context, group, c),
        "sums": lambda: _sums(context, group, wide),
        "dots": lambda: _dots(context, group, wide),
    }
    kernels = makers[form]() if form in makers else contraction_kernels(context, group, wide, _wish(form))
    if not kernels:
        raise InvalidValueError(f"{context.name_of(group)} does not run in the form {form!r}; tune it anew")
    return kernels


def _winograd(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    rows = split_rows(c)
    plan = plan_winograd(context.target, rows)
    if plan is not None:
        return winograd_kernels(context, group, rows, plan)
    sums = plan_winograd_sums(context.target, c)
    return [] if sums is None else winograd_sum_kernels(context, group, c, sums)


def _sums(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    plan = plan_sums(context.target, c)
    if plan is None:
        return []
    return (grouped_sum_kernels if plan.groups > 1 else sum_kernels)(context, group, c, plan)


def _dots(context: Context, group: Group, c: Contraction) -> list[Kernel]:
    joined = join_runs(context.target, c)
    plan = plan_dots(context.target, joined)
    return [] if plan is None else [dot_kernel(context, group, joined, plan)]


def _wish(form: str) -> Wish:
    tile, _, packed = form.partition(" ")
    sizes = tile.split("x")
    if len(sizes) != 3 or not all(size.isdigit() for size in sizes) or packed not in ("", "packed"):
        raise InvalidValueError(
            f"a form is sums, dots, or a tile such as 8x2x1 or 8x2x1 packed, got {form!r}; tune it anew"
        )
    rows, vectors, stack = map(int, sizes)
    return Wish((rows, vectors, stack), packed == "packed")
