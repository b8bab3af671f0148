"""`LambdaCallback`: functions in place of methods."""

import pytest

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from adjoint.training.callbacks import LambdaCallback
from tests.training.callbacks.running import FakeRun


def test_functions_are_called_in_order():
    seen = []

    def note(name):
        return lambda run: seen.append((name, run.step))

    names = ("on_train_begin", "on_train_epoch_begin", "on_train_step_end", "on_eval_begin", "on_eval_end")
    more = ("on_train_epoch_end", "on_train_end")
    callback = LambdaCallback(every=2, **{name: note(name) for name in (*names, *more)})
    FakeRun([[1.0, 1.0]], [{"loss": 1.0}]).train(callback)
    assert seen == [(name, 0 if name in names[:2] else 2) for name in (*names, *more)]


def test_errors_are_passed_on():
    seen = []
    callback = LambdaCallback(on_exception=lambda run, error: seen.append((run, error)))
    callback.on_exception("run", "error")
    assert seen == [("run", "error")]


@pytest.mark.parametrize(
    ("options", "kind", "message"),
    [
        (
            {"on_step_end": print},
            NameLookupError,
            "LambdaCallback: functions must have names of methods of Callback, got on_step_end; pass one of "
            "on_train_begin, on_train_epoch_begin, on_train_step_end, on_train_epoch_end, on_train_end, on_eval_begin, "
            "on_eval_step_end, on_eval_end, on_exception",
        ),
        (
            {"on_train_end": 3},
            TypeRuleError,
            "LambdaCallback takes functions, got the int 3 as on_train_end; pass a function",
        ),
        (
            {"on_train_step_end": print},
            InvalidValueError,
            "LambdaCallback: on_train_step_end needs every=STEPS or seconds=SECONDS between its calls, got neither; "
            "pass every=1 to call it after every step",
        ),
    ],
)
def test_refusals(options, kind, message):
    with pytest.raises(kind) as error:
        LambdaCallback(**options)
    assert error.value.message == message
