"""Callbacks in runs of a `Model`, over arrays in native code."""

import json

import numpy as np
import pytest

import adjoint
from adjoint import nn
from adjoint.data import ArrayDataset
from adjoint.errors import NotFiniteError
from adjoint.profiling.machine import Level, Peaks
from adjoint.training.callbacks import (
    EarlyStopping,
    History,
    JSONLinesLogger,
    LearningRateScheduler,
    LossMonitor,
    NaNGuard,
    ReduceLROnPlateau,
    TerminateOnBudget,
)
from adjoint.training.model import Model
from adjoint.training.report import Report

# The linear model of MindSpore's documentation; its losses are those of MindSpore 2.10.
X = np.array([[1, 2], [2, 3], [4, 6], [3, 1]], np.float32)
Y = np.array([[8], [13], [26], [9]], np.float32)
#: Limits that no kernel exceeds.
PEAKS = Peaks("made-up", 256, 1, 1e6, (Level("L1", 10_000, 1e6), Level("memory", None, 1e6)))
LOSSES = [52.0, 58.0304, 0.0846553, 5.42138]


def linear(loss=None, rate=0.01, **options):
    network = nn.Linear(2, 1, bias=False)
    with adjoint.no_grad():
        network.weight.copy_(adjoint.tensor([[2.0, 1.0]]))
    optimizer = adjoint.optim.SGD(network.parameters(), lr=rate)
    return Model(network, loss or nn.MSELoss(reduction="sum"), optimizer, **options)


@pytest.fixture
def data():
    return ArrayDataset(X, Y, batch_size=2, shuffle=False)


def test_a_native_run_calls_its_callbacks(data, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(
        "adjoint.profiling.step.machine_peaks", lambda *_, **__: PEAKS
    )  # which takes seconds to measure
    history, path, page = History(), tmp_path / "run.jsonl", tmp_path / "report.html"
    callbacks = [LossMonitor(), history, JSONLinesLogger(path, every=1), Report(page), NaNGuard()]
    run = linear(metrics={"mse"}).fit(2, data, data, callbacks=callbacks, config={"rate": 0.01})
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    assert [row["loss"] for row in rows if "loss" in row] == pytest.approx(LOSSES, rel=1e-5)
    assert capsys.readouterr().out.splitlines()[1] == "epoch: 1 step: 2, loss is 58.03041"
    assert history.history["train_loss"] == pytest.approx([sum(LOSSES[:2]) / 2, sum(LOSSES[2:]) / 2], rel=1e-5)
    assert history.history["valid_mse"][1] == pytest.approx(1.0036646, rel=1e-5)
    assert run.stop_reason == ""
    text = page.read_text("utf-8")
    assert "finished 2 epochs" in text
    assert "Kernels of the step" in text
    assert "could not be made" not in text


def test_rates_reach_the_native_step(data):
    rates = []
    scheduler = LearningRateScheduler(lambda lr, step: rates.append((step, lr)) or lr / 2)
    run = linear().train(2, data, callbacks=[scheduler])
    assert rates == [(1, 0.01), (2, 0.005), (3, 0.0025), (4, 0.00125)]
    w, losses = np.array([2.0, 1.0]), []
    for step, rows in enumerate((slice(0, 2), slice(2, 4)) * 2):
        error = X[rows] @ w - Y[rows, 0]
        losses.append((error**2).sum())
        w = w - 0.01 / 2**step * 2 * error @ X[rows]
    assert run.losses.tolist() == pytest.approx(losses[2:], rel=1e-4)


def test_a_run_ends_where_callbacks_say(data):
    assert linear().train(9, data, callbacks=TerminateOnBudget(steps=3)).step == 3
    callbacks = [ReduceLROnPlateau(patience=1, factor=0.5), EarlyStopping(patience=2)]
    run = linear(rate=1.0).fit(9, data, data, callbacks=callbacks)
    assert (run.epoch, run.learning_rate) == (3, 0.25)
    assert run.stop_reason == "loss has not improved since epoch 1"


def logarithm(prediction, target):
    return (adjoint.log(prediction) - target).sum()


def test_the_origin_of_a_nan_is_found_in_native_steps(data):
    model = linear(logarithm, rate=1.0)
    with pytest.raises(NotFiniteError) as error:
        model.train(9, data, callbacks=NaNGuard())
    begin = "NaNGuard: the loss must be finite, got nan in step 1 of epoch 2: the first NaN from log, which computes "
    assert error.value.message.startswith(begin)
    assert error.value.where == f"{__file__}:{logarithm.__code__.co_firstlineno + 1}"
    assert model.network.weight.tolist() == [[2.0, 1.0]]
