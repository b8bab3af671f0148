"""Inner products in blocks of k: which gradients run so, what is read ahead, and results at every vector width."""

from dataclasses import replace
from math import prod

import pytest

from adjoint import costs
from adjoint.kernel.ir import Prefetch, walk
from adjoint.lower.contractions.inner_product_plan import InnerProductPlan
from adjoint.lower.contractions.schedules import contraction_kernels, schedules
from adjoint.lower.program import contractions_of
from adjoint.pipeline import after_graph_passes, lower_function, value_names
from tests.hardware import needs, shared_among_levels
from tests.lower.contractions.test_contractions import AVX512
from tests.lower.contractions.test_inner_product import (
    agrees_on_narrow_vectors,
    agrees_with_the_reference,
    plan_of,
    pointwise_gradient,
)

#: Batch, channels, size, outputs, stride, groups: remainders of rows, columns and vectors, splits of k, blocks of
#: several images, and either operand the larger one.
CASES = [
    (10, 192, 25, 24, 1, 4),
    (6, 62, 37, 10, 1, 1),
    (12, 45, 41, 13, 1, 1),
    (56, 38, 10, 20, 1, 2),
    (3, 8, 69, 41, 1, 1),
    (4, 51, 28, 5, 1, 1),
]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_gradients_of_few_rows_run_in_blocks_of_k(case):
    batch, channels, _, outputs, *_ = case
    plan = plan_of(pointwise_gradient(*case))
    assert isinstance(plan, InnerProductPlan)
    assert plan.swept
    assert plan.order == ("columns" if channels > outputs else "rows")
    # Both sides of a tile share what they load.
    assert min(plan.rows, plan.columns) > 1
    assert batch % plan.parts == 0


#: The same where windows move by two: rows that divide vectors or not, shorter ones, and copies of either operand.
APART = [
    (56, 62, 36, 10, 2, 1),
    (21, 24, 80, 24, 2, 1),
    (3, 30, 48, 8, 2, 1),
    (24, 9, 65, 40, 2, 1),
    (24, 9, 19, 68, 2, 1),
    (32, 3, 24, 40, 2, 1),
    (26, 16, 72, 18, 2, 2),
    (1, 30, 64, 8, 2, 1),
]


@pytest.mark.parametrize("case", APART, ids=str)
def test_units_copy_every_second_element(case):
    batch, channels, size, outputs, _, groups = case
    function = pointwise_gradient(*case)
    plan = plan_of(function)
    assert plan.swept
    row = (size + 1) // 2
    assert plan.run == row
    # The pixels of an image are contiguous in the copy, which vectors along them read without remainders at each row.
    assert plan.along.extent == (row**2 if batch > 1 else row)
    (products, *_) = lower_function(function, AVX512).kernels
    copies = [buffer for buffer in products.scratch if buffer.name.startswith("copy")]
    per_column = plan.along.extent * prod(plan.blocks)
    by_columns = channels > outputs
    assert {copy.size // per_column for copy in copies} >= {plan.columns if by_columns else channels // groups}


def test_copies_of_rows_count_for_each_group_of_units():
    """Many channels on both sides: each unit would copy all columns, of which others have as many."""
    assert not isinstance(plan_of(pointwise_gradient(48, 232, 26, 260, stride=2)), InnerProductPlan)


def test_small_operands_are_not_split():
    plan = plan_of(pointwise_gradient(4, 51, 28, 5))
    assert plan.parts == 1
    assert plan_of(pointwise_gradient(40, 51, 28, 5)).parts == 8


def test_the_order_of_additions_is_the_same_for_any_number_of_cores():
    function = pointwise_gradient(10, 192, 25, 24, groups=4)
    plans = [plan_of(function, replace(AVX512, cores=cores)) for cores in (1, 2, 64)]
    assert len({(plan.parts, plan.lanes, plan.along.name) for plan in plans}) == 1
    assert plans[0].swept > plans[-1].swept


def test_the_sums_of_a_unit_fit_the_second_level_cache():
    """However many channels: units then have fewer tiles."""
    function = after_graph_passes(pointwise_gradient(8, 512, 28, 512))
    context, planned = contractions_of(function, AVX512, value_names(function))
    ((group, made),) = planned.items()
    (plan,) = (p for p in schedules(context, group, made.contraction) if isinstance(p, InnerProductPlan))
    (products, *_) = contraction_kernels(context, group, plan)
    assert 0 < sum(buffer.nbytes for buffer in products.scratch) <= costs.l2_block_bytes(AVX512)


def test_rows_that_the_next_tiles_read_are_prefetched():
    kernels = lower_function(pointwise_gradient(10, 192, 71, 24, groups=4), AVX512).kernels
    found = [s for kernel in kernels for s in walk(kernel.body) if isinstance(s, Prefetch)]
    assert {s.buffer.name for s in found} == {"x"}


@pytest.mark.parametrize(("case", "level"), shared_among_levels([*CASES, *APART]), ids=str)
def test_gradients_agree_with_the_reference(level, case):
    agrees_with_the_reference(pointwise_gradient(*case), level)


@pytest.mark.parametrize("case", [*CASES, *APART], ids=str)
def test_narrow_vectors_and_any_number_of_threads_give_the_same_bits(case):
    needs("avx512")
    agrees_on_narrow_vectors(pointwise_gradient(*case))
