"""Dropout whose key is a state of the model: every step draws other numbers, the same on any number of threads."""

import numpy as np
import pytest

from adjoint import ops
from adjoint.ir import Function, IRModule, param
from adjoint.losses import MSELoss
from adjoint.optim import SGD
from adjoint.testing import interpret
from adjoint.training import SetupTrainer, Trainer

ROWS, WIDTH, RATE = 16, 512, 0.25


def perceptron(dropped=True):
    x, key = param("x", (ROWS, 4)), param("key", (2,), "u32")
    w, v = param("w", (4, WIDTH)), param("v", (WIDTH, 1))
    next_key, now = ops.random.split(key)
    h = ops.relu(x @ w)
    y = (ops.dropout(h, now, RATE) if dropped else h) @ v
    results = (y, next_key) if dropped else (y,)
    return Function("backbone" if dropped else "backbone_inference", (x, w, v, key), results)


@pytest.fixture(scope="module")
def module():
    functions = (perceptron(), perceptron(dropped=False))
    model = IRModule(functions, {"param_num": 2, "state_num": 1, "init": (("key", "key"),)})
    return SetupTrainer(MSELoss(), SGD(0.02))(model)


def batches(count):
    rng = np.random.default_rng(1)
    x = rng.standard_normal((count, ROWS, 4)).astype(np.float32)
    return [(rows, rows[:, :1] - rows[:, 1:2] * rows[:, 2:3]) for rows in x]


def made(module, cache, threads=1, seed=3):
    trainer = Trainer(module, threads=threads, options=cache, seed=seed)
    trainer.init_parameters()
    return trainer


def test_a_model_trains_alike_on_any_number_of_threads(module, cache):
    losses = []
    for threads in (1, 2):
        trainer = made(module, cache, threads)
        losses.append([trainer.update(*batch) for batch in batches(60)])
    assert losses[0] == losses[1]
    assert np.mean(losses[0][-10:]) < 0.5 * np.mean(losses[0][:10])


def test_every_step_drops_others_and_every_seed(module, cache):
    one, other = made(module, cache), made(module, cache, seed=4)
    ((x, y),) = batches(1)
    for trainer in (one, other):
        trainer.hyper["lr"] = 0.0
    losses = [trainer.update(x, y) for trainer in (one, one, other)]
    assert len(set(losses)) == 3
    np.testing.assert_array_equal(one.predict(x), one.predict(x), err_msg="nothing is dropped in predictions")


def test_the_loss_is_that_of_the_interpreted_step(module, cache):
    trainer = made(module, cache)
    ((x, y),) = batches(1)
    state = trainer.export_params()
    key = trainer.export_states()["key"]
    loss, *_ = interpret(module["backbone_loss"], x, state["w"], state["v"], key, y, np.int32(ROWS))
    assert trainer.update(x, y) == pytest.approx(float(loss), rel=1e-5)


def test_a_saved_model_goes_on_with_the_same_numbers(module, cache, tmp_path):
    trainer = made(module, cache)
    first, *rest = batches(4)
    trainer.update(*first)
    trainer.save(tmp_path / "model.safetensors")
    again = Trainer.load(tmp_path / "model.safetensors", options=cache)
    assert [again.update(*batch) for batch in rest] == [trainer.update(*batch) for batch in rest]


def test_rows_that_are_absent_do_not_change_what_others_drop(module, cache):
    """The mask of a row does not depend on how many rows there are, so the loss is that of these rows alone."""
    ((x, y),) = batches(1)
    few, filled = made(module, cache), made(module, cache)
    loss = few.update(x[:5], y[:5])
    x, y = x.copy(), y.copy()
    x[5:], y[5:] = 0, 0
    assert loss == pytest.approx(filled.update(x, y) * ROWS / 5, rel=1e-5)
