"""A drawing of the step's graph with times: one box per kernel, and a line where one reads what another wrote.

Forward kernels go down on the left. Backward kernels go up beside them, each at the height of the activations that it
reads, so that lines for kept activations are horizontal. Kernels that update something are on the right. The colour
intensity of a box shows its time.
"""

import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, count

from adjoint.lazy_dataclass import dataclass
from adjoint.pages.figures import clipped, duration
from adjoint.pages.shapes import Label
from adjoint.profiling.places import Edge
from adjoint.profiling.step import Row
from adjoint.training.parts import BACKWARD, FORWARD, STEP

__all__ = ["Box", "Curve", "GraphDrawing", "Node", "draw_graph", "place_kernels"]

_WIDE, _HIGH = 196.0, 42.0
_BESIDE, _BELOW, _BETWEEN, _MARGIN = 18.0, 18.0, 84.0, 12.0

#: Distance in pixels by which a line that passes boxes bends sideways.
_SWING = 22.0

#: Maximum number of bytes for which a line is drawn faintly.
_SCALARS = 64

_LANES = {FORWARD: 0, STEP: 0, BACKWARD: 1}


@dataclass(frozen=True, slots=True)
class Box:
    """The position of a kernel: the upper left corner in pixels, and the lane (0 forward, 1 backward, 2 update)."""

    x: float
    y: float
    lane: int


def place_kernels(parts: Sequence[str], edges: Sequence[Edge]) -> list[Box]:
    """Compute a position for each kernel.

    Parameters
    ----------
    parts : sequence of str
        The part of each kernel, in execution order.
    edges : sequence of Edge
        The dependences between kernels.
    """
    lanes = [_LANES.get(part, 2) for part in parts]
    reads: list[list[int]] = [[] for _ in parts]
    for edge in edges:
        reads[edge.target].append(edge.source)
    rows, columns = _cells(lanes, reads)
    _set_updates(lanes, reads, rows)
    lefts = [_MARGIN + _SWING]
    for lane in (0, 1):
        wide = max((columns[k] + 1 for k in range(len(parts)) if lanes[k] == lane), default=0)
        lefts.append(lefts[-1] + (wide * (_WIDE + _BESIDE) - _BESIDE + _BETWEEN if wide else 0))
    return [
        Box(lefts[lane] + columns[k] * (_WIDE + _BESIDE), _MARGIN + 24 + rows[k] * (_HIGH + _BELOW), lane)
        for k, lane in enumerate(lanes)
    ]


def _cells(lanes: Sequence[int], reads: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Row and column of each forward and backward kernel; columns are relative to the lane."""
    bands = _bands(lanes, reads)
    levels = [0] * len(lanes)
    for k, lane in enumerate(lanes):
        if lane == 1:
            before = [levels[s] for s in reads[k] if lanes[s] == 1 and bands[s] == bands[k]]
            levels[k] = 1 + max(before, default=-1)
    # Kernels with the same lane, band and level are placed side by side; those on the lane's main path come first.
    columns = [0] * len(lanes)
    seen: Counter[tuple[int, int, int]] = Counter()
    for k in sorted(range(len(lanes)), key=lambda k: not any(lanes[s] == lanes[k] for s in reads[k])):
        place = (lanes[k], bands[k], levels[k])
        columns[k] = seen[place] if lanes[k] < 2 else 0
        seen[place] += 1
    depth = [1] * (max(bands, default=0) + 1)
    for k, band in enumerate(bands):
        depth[band] = max(depth[band], levels[k] + 1)
    tops = [0, *accumulate(depth)]
    # Within a band, backward kernels go upwards.
    rows = [tops[b] + (depth[b] - 1 - levels[k] if lanes[k] == 1 else 0) for k, b in enumerate(bands)]
    return rows, columns


def _bands(lanes: Sequence[int], reads: Sequence[Sequence[int]]) -> list[int]:
    """The horizontal band of each kernel, counted down along the forward pass and up along the backward pass."""
    bands = [0] * len(lanes)
    users: list[list[int]] = [[] for _ in lanes]
    for k, sources in enumerate(reads):
        for source in sources:
            users[source].append(k)
    for k, lane in enumerate(lanes):
        if lane == 0:
            bands[k] = 1 + max((bands[s] for s in reads[k] if lanes[s] == 0), default=-1)
    for k in reversed(range(len(lanes))):
        # A kernel that reads no forward kernel is placed just before the first that reads it.
        later = [bands[u] - 1 for u in users[k] if lanes[u] == 0]
        if lanes[k] == 0 and later and not any(lanes[s] == 0 for s in reads[k]):
            bands[k] = max(min(later), 0)
    last = max((bands[k] for k, lane in enumerate(lanes) if lane == 0), default=0)
    for k, lane in enumerate(lanes):
        if lane == 1:
            kept = max((bands[s] for s in reads[k] if lanes[s] == 0), default=last)
            bands[k] = min([kept, *(bands[s] for s in reads[k] if lanes[s] == 1)])
    return bands


def _set_updates(lanes: Sequence[int], reads: Sequence[Sequence[int]], rows: list[int]) -> None:
    """Place each update in the free row of its lane that is nearest to the last kernel that it reads."""
    end = max((row for row, lane in zip(rows, lanes, strict=True) if lane < 2), default=0)
    taken: set[int] = set()
    for k, lane in enumerate(lanes):
        if lane < 2:
            continue
        wanted = rows[max(reads[k])] if reads[k] else end
        rows[k] = next(
            row for away in count() for row in (wanted - away, wanted + away) if row >= 0 and row not in taken
        )
        taken.add(rows[k])


@dataclass(frozen=True, slots=True)
class Curve:
    """An edge: its path, its width, and the kernels at its ends."""

    path: str
    style: str
    width: float
    source: int
    target: int


@dataclass(frozen=True, slots=True)
class Node:
    """A kernel: its box, the text in it, and its heat, from 0 to 1."""

    box: Box
    name: str
    time: str
    does: str
    part: str
    heat: float


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """The drawing, for the template ``graph.html.j2``; `wide` and `high` are the size of a box."""

    width: float
    height: float
    wide: float
    high: float
    heads: tuple[Label, ...]
    curves: tuple[Curve, ...]
    nodes: tuple[Node, ...]


def draw_graph(rows: Sequence[Row], edges: Sequence[Edge]) -> GraphDrawing:
    """Draw the graph."""
    boxes = place_kernels([row.part for row in rows], edges)
    most = max((row.nanoseconds for row in rows), default=0.0)
    return GraphDrawing(
        width=max((box.x + _WIDE for box in boxes), default=0) + _MARGIN,
        height=max((box.y + _HIGH for box in boxes), default=0) + _MARGIN,
        wide=_WIDE,
        high=_HIGH,
        heads=tuple(_heads(boxes)),
        curves=tuple(_curve(edge, boxes) for edge in edges),
        nodes=tuple(_node(row, box, most) for row, box in zip(rows, boxes, strict=True)),
    )


def _heads(boxes: Sequence[Box]) -> Iterator[Label]:
    names = ("forward ↓", "backward ↑", "update")
    if {box.lane for box in boxes} == {0}:
        return
    for lane, name in enumerate(names):
        left = min((box.x for box in boxes if box.lane == lane), default=None)
        if left is not None:
            yield Label(name, left, _MARGIN + 8)


def _curve(edge: Edge, boxes: Sequence[Box]) -> Curve:
    a, b = boxes[edge.source], boxes[edge.target]
    if a.lane == b.lane and abs(a.y - b.y) > 1:
        down = b.y > a.y
        x1, y1 = a.x + _WIDE / 2, a.y + (_HIGH if down else 0)
        x2, y2 = b.x + _WIDE / 2, b.y + (0 if down else _HIGH)
        # A line that passes other boxes bends sideways, the more of them the further.
        bend = 0.5 * (y2 - y1)
        passes = abs(y2 - y1) > _HIGH + 2 * _BELOW and abs(x1 - x2) < 1
        side = -(_WIDE / 2 + 2.6 * _SWING) if passes else 0.0
        path = f"M{x1:.0f} {y1:.0f}C{x1 + side:.0f} {y1 + bend:.0f} {x2 + side:.0f} {y2 - bend:.0f} {x2:.0f} {y2:.0f}"
    else:
        right = b.x > a.x
        x1, y1 = a.x + (_WIDE if right else 0), a.y + _HIGH / 2
        x2, y2 = b.x + (0 if right else _WIDE), b.y + _HIGH / 2
        bend = max(abs(x2 - x1) * 0.45, 24) * (1 if right else -1)
        path = f"M{x1:.0f} {y1:.0f}C{x1 + bend:.0f} {y1:.0f} {x2 - bend:.0f} {y2:.0f} {x2:.0f} {y2:.0f}"
    kind = "edge far" if abs(a.lane - b.lane) == 2 or edge.nbytes <= _SCALARS else "edge"
    return Curve(path, kind, 0.8 + 0.22 * math.log2(1 + edge.nbytes / 64), edge.source, edge.target)


def _node(row: Row, box: Box, most: float) -> Node:
    time = duration(row.nanoseconds)
    return Node(
        box=box,
        name=clipped(row.kernel.name, _WIDE - 30 - 7 * len(time), 12),
        time=time,
        does=clipped(" · ".join(dict.fromkeys(row.operators)), _WIDE - 20, 10),
        part=row.part,
        heat=math.sqrt(row.nanoseconds / most) if most else 0.0,
    )
