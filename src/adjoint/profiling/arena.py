"""A drawing of the arena over time: one rectangle per buffer, from its first kernel to its last."""

from collections.abc import Iterator, Sequence

from adjoint.lazy_dataclass import dataclass
from adjoint.pages.figures import amount, clipped
from adjoint.pages.shapes import Label, Line
from adjoint.profiling.places import Block
from adjoint.profiling.step import Row

__all__ = ["ArenaDrawing", "Rectangle", "draw_arena"]

_WIDTH, _HEIGHT = 1080.0, 300.0
_LEFT, _TOP = 76.0, 10.0

#: Maximum number of kernels that are all named below the drawing.
_NAMED = 48


@dataclass(frozen=True, slots=True)
class Rectangle:
    """A buffer: its position in the drawing, its description, and its first kernel."""

    x: float
    y: float
    width: float
    height: float
    title: str
    part: str
    k: int
    label: Label | None


@dataclass(frozen=True, slots=True)
class ArenaDrawing:
    """The drawing, for the template ``arena.html.j2``."""

    width: float
    height: float
    lines: tuple[Line, ...]
    labels: tuple[Label, ...]
    rectangles: tuple[Rectangle, ...]


def draw_arena(rows: Sequence[Row], blocks: Sequence[Block], arena: int, bound: int) -> ArenaDrawing:
    """Draw the arena.

    Parameters
    ----------
    rows : sequence of Row
        The kernels in order, along the horizontal axis.
    blocks : sequence of Block
        The buffers, with their offsets along the vertical axis.
    arena, bound : int
        Size of the arena in bytes, and the lower bound for any plan.
    """
    wide = (_WIDTH - _LEFT) / max(len(rows), 1)
    scale = (_HEIGHT - _TOP) / max(arena, 1)
    named = len(rows) <= _NAMED
    # A power of two that yields four to eight grid lines.
    step = 1 << max((arena // 4).bit_length() - 1, 0)
    marks = {offset: _HEIGHT - offset * scale for offset in (*range(0, arena - step // 3, step), arena)}
    lines = [Line(_LEFT, at, _WIDTH, at) for at in marks.values()]
    labels = [Label(amount(offset), _LEFT - 8, at + 4, anchor="end") for offset, at in marks.items()]
    if bound < arena:
        lines.append(Line(_LEFT, _HEIGHT - bound * scale, _WIDTH, _HEIGHT - bound * scale, "roof slope"))
    if named:
        labels.extend(
            Label(
                clipped(row.kernel.name, 84, 10), _LEFT + (k + 0.5) * wide, _HEIGHT + 12, anchor="end", angle=-50, k=k
            )
            for k, row in enumerate(rows)
        )
    return ArenaDrawing(
        width=_WIDTH,
        height=_HEIGHT + (92 if named else 20),
        lines=tuple(lines),
        labels=tuple(labels),
        rectangles=tuple(_rectangles(rows, blocks, wide, scale)),
    )


def _rectangles(rows: Sequence[Row], blocks: Sequence[Block], wide: float, scale: float) -> Iterator[Rectangle]:
    operators = {n.removeprefix("%"): o for r in rows for n, o in zip(r.kernel.values, r.operators, strict=True)}
    for block in blocks:
        name = f"{operators.get(block.name, 'value')} {block.name}" if block.name.isdigit() else block.name
        width = (block.last + 1 - block.first) * wide - 1.5
        height = max(block.nbytes * scale - 1, 0.75)
        x, y = _LEFT + block.first * wide + 0.75, _HEIGHT - block.offset * scale - height
        title = f"{name}: {amount(block.nbytes)} at {block.offset:,}, "
        title += f"from {rows[block.first].kernel.name} to {rows[block.last].kernel.name}"
        text = clipped(f"{name}  {amount(block.nbytes)}", width - 10, 11)
        label = Label(text, x + 6, y + min(height / 2 + 4, 16), "inside") if height >= 14 and text else None
        yield Rectangle(x, y, max(width, 0.5), height, title, rows[block.first].part, block.first, label)
