"""How the gradient of a convolution's weights runs with Winograd's algorithm (`weight_gradient`), by estimated cost."""

from collections.abc import Iterator
from dataclasses import replace
from math import ceil

import numpy as np

from adjoint import costs
from adjoint.kernel.index import Var
from adjoint.kernel.ir import Load
from adjoint.kernel.target import Target
from adjoint.lazy_dataclass import dataclass
from adjoint.lower.contractions.contraction import Contraction
from adjoint.lower.contractions.split_k_plan import split_factor
from adjoint.lower.contractions.split_k_tile import best_tile
from adjoint.lower.loops import divisors
from adjoint.lower.winograd.algorithm import algorithm
from adjoint.lower.winograd.transforms import ConvolutionAxes, stride_along

__all__ = ["WinogradGradientPlan", "channel_share", "plan_winograd_gradient"]


@dataclass(frozen=True, slots=True)
class WinogradGradientPlan:
    """How such a contraction runs.

    Parameters
    ----------
    contraction : Contraction
        The contraction.
    roles : ConvolutionAxes
        The roles of its axes.
    image, cotangent : Load
        The operands.
    wide, lane : Var
        Columns of the cotangent, and its channels.
    images, rows : int
        Images in a block, and rows of tiles of each.
    tile : tuple of int
        Channels and columns of the window in a register tile.
    vectors, lanes : int
        Vectors of a panel, and lanes of a vector.
    panels_of_unit : int
        Panels of a unit.
    parts : int
        Splits of the images. They decide the order of additions, so they follow from shapes alone: they are those of
        the plan for `adjoint.costs.MODEL`.
    groups : int
        Row groups: shares of the outermost axis of the image's channels, each of which transforms the cotangent anew,
        so that threads have enough to share.
    cycles : float
        Estimated cycles of all of it on one core.
    """

    contraction: Contraction
    roles: ConvolutionAxes
    image: Load
    cotangent: Load
    wide: Var
    lane: Var
    images: int
    rows: int
    tile: tuple[int, ...]
    vectors: int
    lanes: int
    panels_of_unit: int
    parts: int
    groups: int
    cycles: float

    @property
    def width(self) -> int:
        """Columns of a panel."""
        return self.vectors * self.lanes

    @property
    def panels(self) -> int:
        """Panels along the lanes' axis; the last may be narrower."""
        return ceil(self.lane.extent / self.width)

    @property
    def panel_groups(self) -> int:
        """Units that compute different panels of the same rows."""
        return self.panels // self.panels_of_unit

    @property
    def units(self) -> int:
        """Units of work."""
        return self.parts * self.groups * self.panel_groups

    def __str__(self) -> str:
        return "winograd"


def plan_winograd_gradient(target: Target, c: Contraction) -> WinogradGradientPlan | None:
    """The plan with the lowest estimated cost, or None where a contraction is of another kind."""
    if len(c.k) < 2 or c.dtype.itemsize != np.dtype(np.float32).itemsize:
        return None
    model = costs.order_target(target)
    best = min(_plans_of(model, c, None), key=lambda plan: plan.cycles, default=None)
    if best is None or model is target:
        return best
    plans = [p for p in _plans_of(target, c, best.parts) if p.image.buffer is best.image.buffer]
    whole = min((p for p in plans if p.groups == 1), key=lambda plan: plan.cycles, default=best)
    if whole.units >= costs.least_units(target):
        return whole
    return min(plans, key=lambda plan: plan.cycles * costs.imbalance(target, plan.units), default=best)


def _plans_of(target: Target, c: Contraction, parts: int | None) -> Iterator[WinogradGradientPlan]:
    for image, cotangent in ((c.left, c.right), (c.right, c.left)):
        roles = _roles(c, image, cotangent)
        lane = [v for v in c.axes if v.extent > 1 and cotangent.index.coefficient(v)]
        if roles is not None and len(lane) == 1 and roles.pays_off:
            several = parts is not None and roles.channels
            for groups in divisors(roles.channels[0].extent) if several else [1]:
                yield from _plans(target, c, roles, image, cotangent, lane[0], parts, groups)


def _roles(c: Contraction, image: Load, cotangent: Load) -> ConvolutionAxes | None:
    """The roles of the axes, or None where some are missing."""
    *outer, high, wide = c.k
    if (
        stride_along(image, wide) != 1
        or stride_along(cotangent, wide) != 1
        or not stride_along(cotangent, high)
        or len(outer) > 1
    ):
        return None
    rows = [v for v in c.axes if v.extent > 1 and not cotangent.index.coefficient(v)]
    tap = next((v for v in rows if stride_along(image, v) == stride_along(image, high) > 1), None)
    across = next((v for v in reversed(rows) if stride_along(image, v) == 1), None)
    by = algorithm(high.extent, tap.extent) if tap is not None else None
    if by is None or tap is None or across is None or not all(stride_along(image, v) for v in (*outer, *rows)):
        return None
    channels = tuple(v for v in rows if v is not tap and v is not across)
    return ConvolutionAxes(by, high, tap, across, channels, (), outer[0] if outer else None)


def _plans(
    target: Target,
    c: Contraction,
    roles: ConvolutionAxes,
    image: Load,
    cotangent: Load,
    lane: Var,
    parts: int | None,
    groups: int,
) -> Iterator[WinogradGradientPlan]:
    """Plans for all blocks that fit, with so many row groups, and splits of the images: by default, as many as suit."""
    wide, itemsize = c.k[-1], c.dtype.itemsize
    target = target.narrowed(costs.useful_lanes(target, lane.extent, itemsize) * itemsize)
    lanes = target.lanes(c.dtype)
    points, every = roles.algorithm.products, roles.tiles
    inner = (*channel_share(roles, groups).channels, roles.across)
    sweep, vectors, tile = best_tile(target, ceil(lane.extent / lanes), inner)
    width = vectors * lanes
    of_panel = points * roles.depth // groups * width * itemsize
    if image.index.coefficient(lane) or of_panel > costs.MAX_SCRATCH_BYTES:
        return
    many = roles.images.extent if roles.images is not None else 1
    panels = ceil(lane.extent / width)
    panels_of_unit = _panels_of_unit(target, panels, of_panel, parts)
    panel_groups = panels // panels_of_unit
    if parts is None:
        bytes_of_part = roles.algorithm.taps * roles.depth * lane.extent * itemsize
        parts = split_factor(many, costs.units(target) / panel_groups, costs.MAX_PARTIAL_BYTES / bytes_of_part)
    for images in divisors(many // parts):
        for rows in divisors(every) if images == 1 else (every,):
            steps = images * rows * wide.extent
            of_rows = roles.lines // groups * images * rows * (wide.extent + roles.beyond)
            room = points * itemsize * (width * steps + of_rows)
            block, panel = costs.gradient_block_bytes(target), costs.l1_bytes(target)
            small = room <= block and steps * width * itemsize <= panel
            if not small and (not images == rows == 1 or room + panels_of_unit * of_panel > costs.MAX_SCRATCH_BYTES):
                continue
            blocks = many * every // (images * rows) * points * panels
            multiply = blocks * (sweep * groups * steps + roles.depth * vectors * 2)
            # As in split-K, partial sums are added and transposed.
            reduction = roles.algorithm.taps * roles.depth * lane.extent * parts * costs.GATHER_CYCLES
            lines = many * every * (roles.lines * panel_groups * ceil((wide.extent + roles.beyond) / lanes))
            lines += many * every * lane.extent * groups * ceil(wide.extent / lanes)
            transforms = lines * costs.TRANSFORM_CYCLES * points / costs.TRANSFORM_ROWS
            transposes = many * every * points * wide.extent * lane.extent * groups * costs.transpose_cycles(lanes)
            yield WinogradGradientPlan(
                contraction=c,
                roles=roles,
                image=image,
                cotangent=cotangent,
                wide=wide,
                lane=lane,
                images=images,
                rows=rows,
                tile=tile,
                vectors=vectors,
                lanes=lanes,
                panels_of_unit=panels_of_unit,
                parts=parts,
                groups=groups,
                cycles=multiply + transforms + transposes + reduction,
            )


def channel_share(roles: ConvolutionAxes, groups: int) -> ConvolutionAxes:
    """The roles of the axes in one of so many row groups."""
    if groups == 1:
        return roles
    first, *others = roles.channels
    return replace(roles, channels=(Var(first.name, first.extent // groups), *others))


def _panels_of_unit(target: Target, panels: int, panel_bytes: int, parts: int | None) -> int:
    """Panels of a unit: as many as have their sums in the second-level cache, and leave enough units for threads."""
    room, least = costs.gradient_sums_bytes(target), costs.least_units(target) if parts is not None else 1
    fitting = [d for d in divisors(panels) if d == 1 or d * panel_bytes <= room]
    return next((d for d in reversed(fitting) if panels // d * (parts or 1) >= least), 1)
