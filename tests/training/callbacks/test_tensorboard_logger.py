"""`TensorBoardLogger`: the scalars that it passes to tensorboardX."""

import importlib.util
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from adjoint.errors import InvalidValueError
from adjoint.training.callbacks import TensorBoardLogger
from tests.training.callbacks.running import FakeRun


@pytest.fixture
def written(monkeypatch):
    """What is passed to a stand-in for tensorboardX."""
    calls = []

    class SummaryWriter:
        def __init__(self, *args, **options):
            calls.append(("open", *args, *options.items()))

        def __getattr__(self, name):
            return lambda *args: calls.append((name, *args))

    module = ModuleType("tensorboardX")
    module.SummaryWriter = SummaryWriter
    module.__spec__ = ModuleSpec("tensorboardX", None)
    monkeypatch.setitem(sys.modules, "tensorboardX", module)
    return calls


def test_scalars_have_the_names_of_the_columns(written, tmp_path):
    FakeRun([[4.0, 3.0]], [{"accuracy": 0.5}]).train(TensorBoardLogger(tmp_path, every=2))
    assert written == [
        ("open", str(tmp_path), ("purge_step", None)),
        ("add_scalar", "loss", 3.0, 2),
        ("add_scalar", "train_loss", 3.5, 2),
        ("add_scalar", "valid_accuracy", 0.5, 2),
        ("flush",),
        ("close",),
    ]


def test_what_a_resume_repeats_is_purged(written):
    logger, run = TensorBoardLogger("runs"), FakeRun([[4.0, 3.0]]).resume(1)
    logger.on_exception(run, ValueError())  # before anything was opened
    run.train(logger, until=1)
    logger.on_exception(run, ValueError())
    assert written == [("open", "runs", ("purge_step", 2)), ("close",)]


def test_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    monkeypatch.setattr("adjoint.training.callbacks.tensorboard_logger.find_spec", lambda _: None)
    with pytest.raises(InvalidValueError) as error:
        TensorBoardLogger("runs")
    assert error.value.message == (
        "TensorBoardLogger requires tensorboardX, which is not installed; run pip install 'adjoint[tensorboard]'"
    )
