"""The base class of callbacks: when its methods are called, and what it saves by default."""

import pytest

from adjoint.training.callbacks import Callback
from tests.training.callbacks.running import FakeRun


def test_a_callback_that_asks_for_no_steps_has_no_interval():
    assert (Callback.every, Callback.seconds) == (None, None)


def test_every_method_may_be_left_as_it_is():
    run = FakeRun([[1.0, 2.0]], [{"loss": 1.0}]).train(Callback())
    Callback().on_train_step_end(run)
    Callback().on_eval_step_end(run)
    Callback().on_exception(run, ValueError())
    assert run.step == 2


def test_nothing_is_saved_by_default():
    callback = Callback()
    callback.load_state_dict({})
    callback.load_state_arrays({})
    assert callback.state_dict() == callback.state_arrays() == {}


@pytest.mark.parametrize(("every", "steps"), [(1, [1, 2, 3, 4, 5]), (2, [2, 4])])
def test_steps_are_counted_over_the_whole_run(every, steps):
    class Note(Callback):
        def on_train_step_end(self, run):
            noted.append(run.step)

    noted, callback = [], Note()
    callback.every = every
    FakeRun([[1.0, 1.0, 1.0], [1.0, 1.0]]).train(callback)
    assert noted == steps
