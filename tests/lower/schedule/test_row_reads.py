"""How many rows a load reads together, and whether a selection discards those that are absent."""

import numpy as np
import pytest

from adjoint.kernel.index import as_index
from adjoint.kernel.ir import Buffer
from adjoint.kernel.parser import parse_kernel
from adjoint.lower.schedule.row_layouts import places
from adjoint.lower.schedule.row_reads import row_reads
from adjoint.lower.schedule.rows import Batch, RowLayout

ROWS = Buffer("rows", np.dtype(np.int32), 1, "external")

TEXT = """\
kernel k: computes %k
  4 units, on one thread; 0 flops, 0 bytes
  reads rows i32[1], x f32[16]; writes result0 f32[8]
  for u in 0..4 units:
    for l in 0..2 vector:
      result0[u*2 + l] = {value}
"""


def only_read(value, first=2):
    kernel = parse_kernel(TEXT.format(value=value))
    named = {b.name: b for b in kernel.reads}
    batch = Batch(named.get("rows", ROWS), 8, {named["x"]: RowLayout(2)})
    known = (as_index(kernel.unit) * first,) if first else ()
    (read,) = row_reads(kernel.body, batch, {}, places(kernel), known=known)
    return read


@pytest.mark.parametrize(
    ("value", "tile", "aligned"),
    [
        ("neg(x[u*4 + l])", 1, True),
        ("neg(x[u*4 + l*2])", 2, True),
        ("neg(x[u*4 + l*2 + 2])", 3, False),
    ],
)
def test_a_tile_begins_with_the_first_row(value, tile, aligned):
    read = only_read(value)
    assert (read.tile, read.aligned) == (tile, aligned)


def test_without_a_first_row_all_rows_are_read():
    assert only_read("neg(x[u*4 + l])", first=0).tile == 8


@pytest.mark.parametrize(
    ("value", "selected"),
    [
        ("select(lt(cast(l as i32), rows[0]), x[u*4 + l], 0.0)", True),
        ("select(lt(cast(l as i32), rows[0]), 0.0, x[u*4 + l])", False),
        ("select(lt(rows[0], cast(l as i32)), x[u*4 + l], 0.0)", False),
        ("add(1.0, select(lt(cast(l as i32), rows[0]), exp(x[u*4 + l]), 0.0))", True),
    ],
)
def test_a_selection_by_the_number_of_rows_discards_absent_ones(value, selected):
    assert only_read(value).selected == selected
