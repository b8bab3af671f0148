"""The search for the cheapest register tile against the ranking of all."""

import pytest

from adjoint.ir.printer import value_names
from adjoint.lower.contractions.gemm_plan import forms, with_roles
from adjoint.lower.contractions.matching import join_rows
from adjoint.lower.contractions.tile_cost import cost_model, ranked_tiles
from adjoint.lower.contractions.traffic import reads_of
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes
from benchmarks.contraction_peers.adjoint import function_of
from benchmarks.random_cases import draw
from tests.hardware import KINDS


def products(target, seed):
    """The contractions of random products that are plain matrix products."""
    for case in draw("products", 12, seed):
        function = after_graph_passes(function_of(case)[0])
        for made in contractions_of(function, target, value_names(function))[1].values():
            c = join_rows(target, made.contraction)
            if reads_of(c.left, c.m, c.k) is not None and reads_of(c.right, c.n, c.k) is not None:
                yield c


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
            first = ranked_tiles(target, own, streams, form, order)[0]
            assert model.cheapest(order) == first
            assert model.least() <= first[0]
