"""Averaged models, with the names of ``torch.optim.swa_utils``."""

import numpy as np
import pytest

from adjoint import nn, optim
from adjoint.errors import AdjointError
from adjoint.optim.swa_utils import (
    SWALR,
    AveragedModel,
    get_ema_avg_fn,
    get_ema_multi_avg_fn,
    get_swa_multi_avg_fn,
    update_bn,
)
from adjoint.tensor.tensor import from_array


def test_models_average_the_parameters_that_they_are_shown():
    model = nn.Linear(2, 1, bias=False)
    makers = {
        "mean": lambda: AveragedModel(model),
        "ema": lambda: AveragedModel(model, avg_fn=get_ema_avg_fn(0.75)),
        "multi mean": lambda: AveragedModel(model, multi_avg_fn=get_swa_multi_avg_fn()),
        "multi": lambda: AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.75)),
    }
    averaged = {name: make() for name, make in makers.items()}
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    path = []
    for i in range(4):
        model.weight.grad = from_array(np.array([[1.0, -i]], np.float32))
        optimizer.step()
        for each in averaged.values():
            each.update_parameters(model)
        path.append(np.array(model.weight.numpy(force=True)))
    moving = path[0]
    for p in path[1:]:
        moving = 0.75 * moving + 0.25 * p
    found = {name: each.module.weight.numpy(force=True) for name, each in averaged.items()}
    np.testing.assert_allclose(found["mean"], np.mean(path, 0), rtol=1e-5)
    np.testing.assert_allclose(found["multi mean"], np.mean(path, 0), rtol=1e-5)
    np.testing.assert_allclose(found["ema"], moving, rtol=1e-5)
    np.testing.assert_allclose(found["multi"], moving, rtol=1e-5)
    x = from_array(np.array([[1.0, 2.0]], np.float32))
    np.testing.assert_allclose(averaged["ema"](x).numpy(force=True), moving @ [[1.0], [2.0]], rtol=1e-5)
    assert set(averaged["ema"].state_dict()) == {"n_averaged", "module.weight"}
    assert int(averaged["ema"].n_averaged) == 4


def test_buffers_are_copied_or_averaged():
    model = nn.BatchNorm1d(1)
    copied, averaged = AveragedModel(model), AveragedModel(model, use_buffers=True)
    for mean in (1.0, 3.0):
        model.running_mean = from_array(np.array([mean], np.float32))
        copied.update_parameters(model)
        averaged.update_parameters(model)
    assert float(copied.module.running_mean) == 3.0
    assert float(averaged.module.running_mean) == 2.0


def test_running_statistics_are_computed_anew():
    model = nn.Sequential(nn.BatchNorm1d(2), nn.InstanceNorm1d(2, track_running_stats=True)).eval()
    model[0].running_mean = from_array(np.array([5.0, 5.0], np.float32))
    data = np.random.default_rng(0).standard_normal((3, 4, 2, 5)).astype(np.float32)
    update_bn(((from_array(batch), None) for batch in data), model)
    found, mean, var = model[0], data.mean((1, 3)).mean(0), data.var((1, 3), ddof=1).mean(0)
    np.testing.assert_allclose(found.running_mean.numpy(), mean, rtol=1e-5)
    np.testing.assert_allclose(found.running_var.numpy(), var, rtol=1e-5)
    assert (int(found.num_batches_tracked), found.momentum, model.training) == (3, 0.1, False)
    update_bn([], nn.Linear(1, 1))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: AveragedModel(nn.Identity(), avg_fn=get_ema_avg_fn(), multi_avg_fn=get_ema_multi_avg_fn()),
            "AveragedModel takes one of avg_fn and multi_avg_fn, got both; omit one",
        ),
        (lambda: get_ema_avg_fn(1.5), "get_ema_avg_fn: decay must be from 0 to 1, got 1.5"),
        (
            lambda: SWALR(optim.SGD(nn.Linear(1, 1).parameters()), 0.1, anneal_strategy="exp"),
            "SWALR: anneal_strategy must be 'cos' or 'linear', got 'exp'",
        ),
        (
            lambda: SWALR(optim.SGD(nn.Linear(1, 1).parameters()), 0.1, anneal_epochs=-1),
            "SWALR: anneal_epochs must be an int of at least 0, got -1",
        ),
    ],
)
def test_refusals(make, message):
    with pytest.raises(AdjointError) as error:
        make()
    assert error.value.message == message
