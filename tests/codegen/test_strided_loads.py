"""Offsets of lanes against Python's integers."""

import pytest

from adjoint.codegen.strided_loads import contiguous_run, lane_offsets
from adjoint.kernel.index import Dynamic, Var, as_index

LANE, OTHER = Var("l", 16), Var("i", 5)


@pytest.mark.parametrize(
    ("index", "meaning"),
    [
        (lambda v: v, lambda i: i),
        (lambda v: v * 3, lambda i: 3 * i),
        (lambda v: v // 2, lambda i: i // 2),
        (lambda v: (v // 8) * 10 + v % 8, lambda i: i // 8 * 10 + i % 8),
        (lambda v: ((v + 3) // 4) * 7, lambda i: (i + 3) // 4 * 7),
        (lambda v: -v, lambda i: -i),
    ],
)
def test_what_a_lane_adds(index, meaning):
    made = index(as_index(LANE)) + as_index(OTHER) * 100 + 7
    assert lane_offsets(made, LANE, 16) == [meaning(i) for i in range(16)]


def test_lanes_that_also_depend_on_something_else_have_no_offsets():
    assert lane_offsets((as_index(LANE) + as_index(OTHER)) // 3, LANE, 16) == []
    assert lane_offsets(as_index(Dynamic(_Reading(LANE), 9)), LANE, 16) == []


class _Reading:
    """Stands for an expression that depends on a variable."""

    def __init__(self, var):
        self.var = var

    def variables(self):
        return frozenset({self.var})


@pytest.mark.parametrize(
    ("offsets", "length"),
    [
        ([0, 1, 2, 3, 4, 5, 6, 7], 8),
        ([0, 1, 2, 3, 10, 11, 12, 13], 4),
        ([0, 1, 5, 6, 2, 3, 9, 10], 2),
        ([0, 2, 4, 6], 1),
        ([5, 5, 5, 5], 1),
    ],
)
def test_lengths_of_runs(offsets, length):
    assert contiguous_run(offsets) == length
