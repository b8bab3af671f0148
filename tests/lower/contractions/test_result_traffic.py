"""Where results go: tiles follow the rows where that keeps the caches of two cores apart."""

import pytest

from adjoint.lower.contractions.result_traffic import ResultTraffic
from tests.hardware import AVX512, KINDS
from tests.lower.contractions.test_tile_cost import plain


def result(rows, columns, packed=False, streams=0):
    return ResultTraffic(AVX512, rows, columns, 2, 1, 4, 16, packed, streams)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_result_of_few_products_is_walked_row_by_row(kind, transposed):
    plan = plain(332, 2, 432, transpose_b=transposed)(kind).plan
    assert plan.order == "rows"


def test_products_hide_what_other_cores_took():
    few = result(332, 432, packed=True)
    assert few.coherence_misses(9, 3, products=60.0) > few.coherence_misses(9, 3, products=200.0) > 0
    assert few.coherence_misses(9, 3, products=1000.0) == 0


def test_a_single_panel_or_block_of_rows_has_no_neighbor():
    assert result(332, 48).coherence_misses(9, 3, 0.0) == result(9, 432).coherence_misses(9, 3, 0.0) == 0
    assert result(332, 432).coherence_misses(9, 3, 0.0) > 0


def test_results_within_the_caches_are_written_for_free():
    assert result(100, 100).written(9, 3, "rows", 0.0) == 0
    assert result(2000, 2000).written(9, 3, "rows", 0.0) > 0


def test_panels_share_lines_with_their_neighbors_and_rows_do_not():
    """Rows of 2001 floats: the end of a tile lies within a line."""
    large = result(2000, 2001)
    assert large.written(9, 3, "columns", 0.0) > large.written(9, 3, "rows", 0.0)


def test_rows_on_other_pages_are_reached_once_per_panel():
    """Of the tensors that the epilogue reads: stores do not wait."""
    assert result(1024, 1024).jumps("columns", 96) == 0
    wide = result(1024, 1024, packed=True, streams=2)
    assert result(1024, 1024, streams=2).jumps("rows", 192) == 0
    assert wide.jumps("columns", 96) > wide.jumps("columns", 192) > 0
