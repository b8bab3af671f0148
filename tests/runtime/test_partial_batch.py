"""Short batches are passed as they are where a program reads nothing behind them, and filled up where it does."""

import numpy as np
import pytest

from adjoint import costs
from adjoint.codegen.targets import target_for
from adjoint.kernel.program import Argument
from adjoint.pipeline import lower_function
from adjoint.runtime.partial_batch import filled_up
from tests.lower.schedule.test_bound_rows import classifier


def argument(together):
    return Argument("x", (8, 3), np.dtype(np.float32), 0, together=together)


@pytest.mark.parametrize(("together", "rows"), [(1, 5), (2, 6), (4, 4), (0, 8)])
def test_an_array_that_has_all_rows_that_are_read_is_passed_as_it_is(together, rows):
    array = np.ones((rows, 3), np.float32)
    assert filled_up(argument(together), array) is array


@pytest.mark.parametrize(("together", "filled"), [(2, 6), (3, 6), (4, 8), (0, 8)])
def test_rows_that_are_read_are_copies_of_the_last_one(together, filled):
    array = np.arange(15, dtype=np.float32).reshape(5, 3)
    np.testing.assert_array_equal(filled_up(argument(together), array), array[[*range(5), *[4] * (filled - 5)]])


def test_several_elements_belong_to_a_row():
    array = np.arange(12, dtype=np.float32).reshape(4, 3)
    assert filled_up(argument(1), array, each=2) is array
    assert len(filled_up(argument(4), array, each=2)) == 8


def test_a_program_says_how_many_rows_it_reads_together(monkeypatch):
    """The features in tiles of a product; all targets, because their values are checked."""
    monkeypatch.setattr(costs, "BOUNDED_WORK", 0)
    step, target = classifier(64, (32, 32, 10))["step"], target_for("avx512")
    found = {a.name: a.together for a in lower_function(step, target).arguments}
    assert found["x"] == 8
    assert found["targets"] == found["w0"] == 0
    monkeypatch.setattr(costs, "BOUNDED_WORK", 1 << 40)
    assert not any(a.together for a in lower_function(step, target).arguments)
