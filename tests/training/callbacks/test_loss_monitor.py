"""`LossMonitor`: the lines of MindSpore's, at the steps that were asked for."""

import pytest

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import LossMonitor
from tests.training.callbacks.running import FakeRun

LOSSES = [[52.0, 58.0304], [0.0846553, 5.42138]]  # of MindSpore 2.10 for the linear model of its documentation


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize(
    ("every", "shown"),
    [
        (1, [(1, 1, "52"), (1, 2, "58.0304"), (2, 1, "0.0846553"), (2, 2, "5.42138")]),
        (2, [(1, 2, "58.0304"), (2, 2, "5.42138")]),
        (3, [(2, 1, "0.0846553")]),
        (0, [(1, 2, "58.0304"), (2, 2, "5.42138")]),
    ],
)
def test_losses_are_printed_with_their_steps(every, shown, late, capsys):
    FakeRun(LOSSES, late=late).train(LossMonitor(every))
    lines = [f"epoch: {epoch} step: {step}, loss is {loss}\n" for epoch, step, loss in shown]
    assert capsys.readouterr().out == "".join(lines)


@pytest.mark.parametrize("given", [-1, 1.5, True])
def test_the_number_of_steps_is_checked(given):
    with pytest.raises(InvalidValueError) as error:
        LossMonitor(given)
    assert error.value.message == f"LossMonitor: per_print_times must be an int of at least 0, got {given}"
