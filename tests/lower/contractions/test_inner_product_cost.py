"""What inner products cost: no less than their multiply-adds, more for apart elements, and which gradients run so."""

from dataclasses import replace

import pytest

from adjoint import costs
from adjoint.lower.contractions.inner_product_cost import TileWalk
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan, column_axis, plan_at_once
from adjoint.lower.contractions.split_k_plan import SplitKPlan
from tests.lower.contractions.test_contractions import AVX512, contraction_of
from tests.lower.contractions.test_inner_product import plan_of
from tests.lower.contractions.test_split_k import weight_gradient


def walk_of(function, **changes):
    """The walk of the tiles of a gradient as inner products, and the vectors along k that an element adds."""
    c = contraction_of(function)
    plan = plan_at_once(AVX512, c)
    assert plan is not None
    steps = c.depth // plan.along.extent
    inside = 1
    for v in plan.inside:
        inside *= v.extent
    deep, across = plan.taps.extent if plan.taps is not None else 1, column_axis(c, plan.unrolled)
    fields = (AVX512, c, plan.along, plan.lanes, plan.rows, plan.columns, deep, across, inside, steps, 1)
    return replace(TileWalk(*fields), **changes), steps * -(-plan.along.extent // plan.lanes)


@pytest.mark.parametrize("shape", [(8, 4, 6, 34, 3), (2, 3, 20, 66, 5), (3, 8, 6, 40, 1)], ids=str)
def test_the_multiply_adds_are_a_lower_bound(shape):
    walk, vectors = walk_of(weight_gradient(*shape))
    _, channels, out, _, window = shape
    least = costs.multiply_add_cycles(AVX512, vectors * channels * out * window**2)
    assert least < walk.cycles() < 4 * least


def test_every_second_element_takes_more_loads():
    together, vectors = walk_of(weight_gradient(8, 4, 6, 34, 3))
    apart, others = walk_of(weight_gradient(8, 4, 6, 66, 3, stride=2))
    assert vectors == others
    assert apart.cycles() > together.cycles()


def test_smaller_tiles_read_operands_again():
    """A tile of one row meets all columns as often as there are rows, wherever they are."""
    large, _ = walk_of(weight_gradient(24, 16, 6, 104, 1), rows=6, columns=1)
    small = replace(large, rows=1)
    assert small.cycles() > 2 * large.cycles()


def test_blocks_of_k_spill_sums_once_each():
    whole, _ = walk_of(weight_gradient(8, 4, 6, 34, 3))
    assert whole.inside > 1
    assert replace(whole, blocks=64).cycles() > whole.cycles()


def test_few_channels_run_as_inner_products_and_many_as_split_k():
    few, many = weight_gradient(2, 1, 96, 18, 3), weight_gradient(4, 32, 48, 36, 11)
    assert isinstance(plan_of(few), InnerProductPlan)
    assert isinstance(plan_of(many), SplitKPlan)
