"""The search for the cheapest register tile against the ranking of all."""

from math import inf

import pytest

from adjoint import ops
from adjoint.ir import Function, param
from adjoint.ir.printer import value_names
from adjoint.lower.contractions.gemm_plan import forms, with_roles
from adjoint.lower.contractions.matching import join_rows
from adjoint.lower.contractions.tile_cost import IN_PLACE, Tile, cost_model, ranked_tiles
from adjoint.lower.contractions.traffic import reads_of, split_share
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes
from benchmarks.contraction_peers.adjoint import function_of
from benchmarks.random_cases import draw
from tests.hardware import AVX512, KINDS


def products(target, seed):
    """The contractions of random products that are plain matrix products."""
    for case in draw("products", 12, seed):
        function = after_graph_passes(function_of(case)[0])
        for made in contractions_of(function, target, value_names(function))[1].values():
            c = join_rows(target, made.contraction)
            if reads_of(c.left, c.m, c.k) is not None and reads_of(c.right, c.n, c.k) is not None:
                yield c


def plain(m, k, n, transpose_a=False, transpose_b=False):
    """A product as a contraction, and its plan on a kind of CPU."""
    shapes = ((k, m) if transpose_a else (m, k)), ((n, k) if transpose_b else (k, n))
    a, b = (param(name, shape) for name, shape in zip("ab", shapes, strict=True))
    made = ops.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b)
    function = Function("f", (a, b), (made,))
    function = after_graph_passes(function)

    def on(kind):
        (made,) = contractions_of(function, KINDS[kind], value_names(function))[1].values()
        return made

    return on


@pytest.mark.parametrize(
    ("columns", "lanes", "share"), [(48, 16, 0.0), (40, 16, 0.5), (39, 16, 15 / 16), (40, 8, 0.0), (39, 8, 7 / 16)]
)
def test_vectors_lie_across_lines_by_where_rows_start(columns, lanes, share):
    c = plain(64, 64, columns)("avx512").contraction
    assert split_share(AVX512, c.right, c.k, lanes) == share


@pytest.mark.parametrize(("kind", "longer"), [("avx512", False), ("avx512 on a mesh", True)])
def test_rows_that_are_not_aligned_take_longer_where_that_costs(kind, longer):
    """Every vector of a row takes two lines, of 3838 columns nearly all, of 3856 none."""
    found = (plain(160, 160, columns)(kind).contraction for columns in (3838, 3856))
    split, aligned = (cost_model(KINDS[kind], c, 0, IN_PLACE).cheapest()[0] for c in found)
    assert (split > 1.08 * aligned) == longer


@pytest.mark.parametrize("kind", ["avx512", "avx512 on a mesh"])
def test_tiles_of_a_large_result_with_few_products_are_wide(kind):
    """It is bound by what it writes: a tile of two vectors shares the lines at both of its ends."""
    few, many = (plain(1624, depth, 1000, transpose_b=True)(kind).plan for depth in (4, 400))
    assert few.tile.vectors >= 3
    assert many.tile.rows >= few.tile.rows


@pytest.mark.parametrize(
    ("kind", "rows", "columns", "vectors"),
    [("avx512", 1, 240, 15), ("avx512", 1, 120, 8), ("avx512", 3, 110, 7), ("avx2", 1, 90, 12)],
)
def test_a_tile_of_few_rows_has_all_columns_that_fit_the_registers(kind, rows, columns, vectors):
    """The right operand then streams from its first element to its last, which the hardware prefetcher follows."""
    tile = plain(rows, 5000, columns)(kind).plan.tile
    assert (tile.rows, tile.vectors) == (rows, vectors)
    assert plain(rows, 5000, 8 * columns)(kind).plan.tile.vectors <= 6


def test_a_transposed_operand_is_packed_where_lines_from_afar_are_waited_for():
    near, mesh = (plain(424, 2864, 164, transpose_a=True)(kind).plan for kind in ("avx512", "avx512 on a mesh"))
    assert near.form.left == "in place"
    assert mesh.form.left == "whole"


@pytest.mark.parametrize("streams", [0, 3])
@pytest.mark.parametrize("kind", list(KINDS))
def test_the_cheapest_tile_is_the_first_of_the_ranking(kind, streams):
    target = KINDS[kind]
    found = list(products(target, seed=list(KINDS).index(kind)))
    assert len(found) >= 10
    for c in found:
        for form, order in forms(target, c):
            own = with_roles(c, form)
            model = cost_model(target, own, streams, form)
            ranked = ranked_tiles(target, own, streams, form, order)
            cheapest = model.cheapest(order)
            assert cheapest == ranked[0] if ranked else cheapest[0] == inf
            # Both are sums of the same cycles, added in another order.
            assert model.least() <= cheapest[0] * (1 + 1e-12)


def test_panels_of_a_convolution_are_read_from_the_cache_that_holds_them():
    """Those of many channels and taps, all of which are packed at a time, leave the second-level cache."""

    def panels(channels):
        x, w = param("x", (1, channels, 30, 30)), param("w", (5, channels, 5, 5))
        function = Function("f", (x, w), (ops.conv2d(x, w, stride=2),))
        graph = after_graph_passes(function)
        (made,) = contractions_of(graph, AVX512, value_names(graph))[1].values()
        model = cost_model(AVX512, made.contraction, 0, IN_PLACE._replace(right="panels"))
        cycles, _ = model.cost(Tile(5, 3, 1))
        return cycles / channels

    assert panels(32) < 1.1 * panels(64)
    assert panels(454) > 1.3 * panels(64)
