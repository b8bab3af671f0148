"""The arena over the course of a step, as a drawing: a rectangle a buffer, from its first kernel to its last."""

from collections.abc import Iterator, Sequence

from adjoint.profiling.markup import amount, clipped, part_class, tag, words
from adjoint.profiling.places import Block
from adjoint.profiling.step import Row

__all__ = ["arena_svg"]

_WIDTH, _HEIGHT = 1080.0, 300.0
_LEFT, _TOP = 76.0, 10.0

#: Kernels up to which each is named below the drawing.
_NAMED = 48


def arena_svg(rows: Sequence[Row], blocks: Sequence[Block], arena: int, bound: int) -> str:
    """The drawing.

    Parameters
    ----------
    rows : sequence of Row
        The kernels in order: the axis to the right.
    blocks : sequence of Block
        The buffers, by offset: the axis upwards.
    arena, bound : int
        Bytes of the arena, and the least that any plan needs.
    """
    wide = (_WIDTH - _LEFT) / max(len(rows), 1)
    scale = (_HEIGHT - _TOP) / max(arena, 1)
    named = len(rows) <= _NAMED
    parts = [*_lines(arena, bound, scale), *_blocks(rows, blocks, wide, scale)]
    if named:
        parts.extend(_names(rows, wide))
    height = _HEIGHT + (92 if named else 20)
    return tag("svg", *parts, viewBox=f"0 0 {_WIDTH:.0f} {height:.0f}", role="img", aria_label="the arena over time")


def _lines(arena: int, bound: int, scale: float) -> Iterator[str]:
    # A power of two, so that four to eight lines come of it.
    step = 1 << max((arena // 4).bit_length() - 1, 0)
    marks = {offset: amount(offset) for offset in range(0, arena - step // 3, step)} | {arena: amount(arena)}
    for offset, label in marks.items():
        at = _HEIGHT - offset * scale
        yield tag("line", x1=_LEFT, x2=_WIDTH, y1=at, y2=at, class_="grid")
        yield tag("text", words(label), x=_LEFT - 8, y=at + 4, class_="tick", text_anchor="end")
    if bound < arena:
        at = _HEIGHT - bound * scale
        yield tag("line", x1=_LEFT, x2=_WIDTH, y1=at, y2=at, class_="roof slope")


def _blocks(rows: Sequence[Row], blocks: Sequence[Block], wide: float, scale: float) -> Iterator[str]:
    operators = {n.removeprefix("%"): o for r in rows for n, o in zip(r.kernel.values, r.operators, strict=True)}
    for block in blocks:
        name = f"{operators.get(block.name, 'value')} {block.name}" if block.name.isdigit() else block.name
        width = (block.last + 1 - block.first) * wide - 1.5
        height = max(block.nbytes * scale - 1, 0.75)
        x, y = _LEFT + block.first * wide + 0.75, _HEIGHT - block.offset * scale - height
        title = f"{name}: {amount(block.nbytes)} at {block.offset:,}, "
        title += f"from {rows[block.first].kernel.name} to {rows[block.last].kernel.name}"
        yield tag(
            "rect",
            tag("title", words(title)),
            x=x,
            y=y,
            width=max(width, 0.5),
            height=height,
            rx=2,
            class_=f"block {part_class(rows[block.first].part)}",
            data_k=block.first,
        )
        label = clipped(f"{name}  {amount(block.nbytes)}", width - 10, 11)
        if height >= 14 and label:
            yield tag("text", words(label), x=x + 6, y=y + min(height / 2 + 4, 16), class_="inside")


def _names(rows: Sequence[Row], wide: float) -> Iterator[str]:
    for k, row in enumerate(rows):
        x, y = _LEFT + (k + 0.5) * wide, _HEIGHT + 12
        name = clipped(row.kernel.name, 84, 10)
        yield tag(
            "text",
            words(name),
            x=x,
            y=y,
            transform=f"rotate(-50 {x:.1f} {y:.1f})",
            class_="tick",
            text_anchor="end",
            data_k=k,
        )
