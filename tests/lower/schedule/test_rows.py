"""Rows of elements: exact for every element of a buffer, and bounds that hold for all values of other variables."""

from itertools import product

import numpy as np
import pytest

from adjoint.kernel.index import Var, as_index
from adjoint.kernel.interpreter import evaluate
from adjoint.kernel.ir import Buffer, Coordinate
from adjoint.lower.schedule.rows import Batch, RowLayout, least, lowest

U, J, K = Var("u", 4), Var("j", 6), Var("k", 10)
ROWS = Buffer("rows", np.dtype(np.int32), 1, "external")
X = Buffer("x", np.dtype(np.float32), 24, "external")


def value(index, **at):
    env = {var: at[var.name] for var in index.variables()}
    return int(evaluate(Coordinate(index, np.dtype(np.int64)), env | {ROWS: np.array([at.get("rows", 0)], np.int32)}))


def row(layout, index, facts=(), guarded=False):
    return Batch(ROWS, 8, {X: layout}).row(X, index, dict(facts), guarded)


@pytest.mark.parametrize(
    ("layout", "wanted"),
    [
        (RowLayout(3), lambda i: i // 3),
        (RowLayout(3, 4), lambda i: i // 3 % 4),
        (RowLayout(6, step=2), lambda i: i // 6 * 2),
        (RowLayout(3, first=as_index(5)), lambda i: i // 3 + 5),
        (RowLayout(3, shift=as_index(2)), lambda i: (i + 2) // 3),
    ],
)
def test_an_element_belongs_to_the_row_of_its_layout(layout, wanted):
    index = as_index(U) * 6 + as_index(J)
    for u, i in product(range(4), range(6)):
        assert value(row(layout, index), u=u, j=i) == wanted(6 * u + i)


def test_a_row_does_not_depend_on_what_stays_within_it():
    """Though no single factor divides all terms: k*2 and the 4 elements of l are less than 32."""
    index = as_index(U) * 96 + as_index(J) * 32 + as_index(K) * 2 + as_index(Var("l", 4))
    found = row(RowLayout(256), index)
    assert found.variables() == {U, J}
    assert all(value(found, u=u, j=i) == (96 * u + 32 * i) // 256 for u, i in product(range(4), range(6)))


def test_conditions_narrow_what_stays_within_a_row():
    index = as_index(U) * 5 + as_index(J)
    assert row(RowLayout(5), index).variables() == {U, J}
    assert row(RowLayout(5), index, {J: (0, 4)}.items()) == as_index(U)


def test_conditions_on_sums_narrow_what_stays_within_a_row():
    """Of six tiles of four elements each, of which the last has two, the others are in the first row of 22 elements."""
    tile, i = as_index(U) * 2 + as_index(J), Var("i", 4)
    index = as_index(K) * 22 + tile * 4 + as_index(i)
    assert row(RowLayout(22), index, {tile: (0, 4)}) == as_index(K)
    assert row(RowLayout(22), index, {tile: (0, 5)}) != as_index(K)
    assert row(RowLayout(22), index, {as_index(U) * 2 + as_index(J) * 3: (0, 4)}) != as_index(K)


def test_a_guard_keeps_a_load_in_its_row():
    index = as_index(U) * 12 + as_index(J) - 1
    assert row(RowLayout(12), index, guarded=True) == as_index(U)
    assert row(RowLayout(12), index - 24, guarded=True) is None


def test_the_lowest_value_is_a_bound_that_is_reached():
    index = (as_index(U) * 6 + as_index(J)) // 4 - as_index(K) + as_index(U) % 3 + 2
    found = lowest(index, frozenset((U,)))
    assert found.variables() == {U}
    for u in range(4):
        values = [value(index, u=u, j=i, k=k) for i, k in product(range(6), range(10))]
        assert value(found, u=u) == min(values)


def test_the_least_of_several_rows_is_never_after_another():
    assert least([as_index(U) + 3, as_index(U), as_index(U) + as_index(J)]) == as_index(U)
    assert least([as_index(U), as_index(3)]) == as_index(U)
    assert least([as_index(U), as_index(J)]) is None
    assert least([]) is None


@pytest.mark.parametrize(("rows", "computed"), [(-3, 0), (0, 0), (1, 4), (4, 4), (5, 8), (8, 8), (99, 8)])
def test_rows_are_computed_in_whole_granules_up_to_all(rows, computed):
    assert value(Batch(ROWS, 8, {}, granule=4).computed, rows=rows) == computed
