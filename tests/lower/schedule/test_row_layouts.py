"""Parts and panels get the layout of the rows that they are computed from."""

import numpy as np

from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Buffer
from adjoint.kernel.parser import parse_kernel
from adjoint.lower.schedule.row_layouts import places, with_panels, with_parts
from adjoint.lower.schedule.rows import Batch, RowLayout

ROWS = Buffer("rows", np.dtype(np.int32), 1, "external")

STORED = """\
kernel made: computes %p
  8 units, on one thread; 0 flops, 0 bytes
  reads rows i32[1], x f32[64]; writes made f32[{size}] arena
  for u in 0..8 units:
    for l in 0..2 vector:
      made[{place}] = {value}
"""

PANEL = """\
kernel product: computes %p
  2 units, on one thread; 0 flops, 0 bytes
  reads rows i32[1], x f32[64]; writes result0 f32[2]; registers acc f32[1]; scratch panel f32[32]
  for u in 0..2 units:
    for k in 0..4:
      for l in 0..8 vector:
        panel[k*8 + l] = {value}
    acc[0] = 0.0
    for k in 0..4:
      acc[0] = add(acc[0], panel[k*8])
    result0[u] = acc[0]
"""


def batch_of(kernel):
    named = {b.name: b for b in (*kernel.reads, *kernel.writes, *kernel.scratch)}
    return Batch(ROWS, 8, {named["x"]: RowLayout(8)}), named


def stored(place, value, size):
    """The layout of what eight units store."""
    kernel = parse_kernel(STORED.format(place=place, value=value, size=size))
    batch, named = batch_of(kernel)
    return with_parts({kernel: places(kernel)}, batch).layouts.get(named["made"])


def part(place, row):
    return stored(place, f"add(x[{row} + l], x[{row} + l + 8])", 16)


def packed(place, value):
    return stored(place, value, 72)


def panel(value):
    kernel = parse_kernel(PANEL.format(value=value))
    batch, named = batch_of(kernel)
    return with_panels(places(kernel), batch).layouts.get(named["panel"])


def test_parts_belong_to_the_first_row_of_their_unit():
    assert part("((u) % 4)*2 + l", "u*8") is None  # two units share a place
    assert part("u*2 + l", "((u) // 2)*16") == RowLayout(4, step=2)
    assert part("u*2 + l", "((u) % 4)*16") == RowLayout(2, 4, step=2)
    assert part("u*2 + l", "0") is None  # all units read the same rows


def test_panels_hold_the_rows_that_are_copied_to_them():
    found = panel("x[u*32 + k*8 + l]")
    assert found.inner == 8
    assert str(found.first) == "u*4"
    assert panel("mul(x[k*8 + l], 2.0)") == RowLayout(8, first=as_index(0))
    assert panel("x[l*8 + k]") == RowLayout(1, 8, first=as_index(0))
    assert panel("add(x[k*8 + l], x[l + 8])") is None
    assert panel("add(x[k*8 + l], x[k*8 + l + 8])") is None


def test_a_panel_may_begin_inside_a_row():
    """Rows of 16 elements, in pairs of 8: the panel has pairs 1 to 4, and so the second half of row 0 first."""
    kernel = parse_kernel(PANEL.format(value="x[k*8 + l + 8]"))
    named = {b.name: b for b in (*kernel.reads, *kernel.scratch)}
    batch = Batch(ROWS, 4, {named["x"]: RowLayout(16)})
    found = with_panels(places(kernel), batch).layouts[named["panel"]]
    assert (found.inner, str(found.shift)) == (16, "8")
    assert [found.row(as_index(i), {}) for i in (0, 7, 8, 23, 24)] == [as_index(row) for row in (0, 0, 1, 1, 2)]


def test_packed_operands_hold_the_rows_that_are_copied_to_them():
    assert packed("u*8 + l", "mul(x[u*8 + l], 2.0)") == RowLayout(8)
    assert packed("l*8 + u", "x[u*8 + l]") == RowLayout(1, 8)  # two panels, each with all rows
    assert packed("u*8 + l + 8", "x[u*8 + l]") is None
    assert packed("u*8 + l", "mul(x[u*8 + l], x[0])") is None
