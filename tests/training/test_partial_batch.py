"""Batches of fewer rows: the same step trains on exactly these rows."""

import numpy as np
import pytest

from adjoint import models, ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import Function, IRModule, TensorType, param
from adjoint.losses import CrossEntropyLoss, MSELoss
from adjoint.optim import SGD, Adam
from adjoint.training import SetupTrainer, Trainer
from tests.training.models import batch_normalised

FULL = 8


def classifier(rows):
    setup = SetupTrainer(CrossEntropyLoss(), Adam(0.01), [TensorType((rows, 3)), TensorType((rows,), "i64")])
    return setup(models.mlp((12, 16, 3), rows))


def normalised(rows):
    return SetupTrainer(MSELoss(), SGD(0.05, momentum=0.9), [TensorType((rows, 2))] * 2)(batch_normalised(rows))


def language_model(rows):
    """64 targets for each row of the input."""
    module = models.gpt(1, 2, 16, length=8, batch_size=rows, vocabulary=20)
    logits = module["backbone"].results[0].type
    targets = TensorType(logits.shape[:1], "i64")
    return SetupTrainer(CrossEntropyLoss(), SGD(0.1), [logits, targets])(module)


def classified(rows, rng):
    return rng.standard_normal((rows, 12)).astype(np.float32), rng.integers(0, 3, rows)


def regressed(rows, rng):
    return rng.standard_normal((rows, 3)).astype(np.float32), rng.standard_normal((rows, 2)).astype(np.float32)


def spoken(rows, rng):
    return rng.integers(0, 20, (rows, 8)), rng.integers(0, 20, rows * 8)


CASES = {"classifier": (classifier, classified), "normalised": (normalised, regressed), "gpt": (language_model, spoken)}


def fresh(module, cache, **settings):
    made = Trainer(module, options=cache, seed=3, **settings)
    made.init_parameters()
    return made


def everything(trainer):
    return trainer.export_params() | trainer.export_states() | trainer.export_optimizer_state()


@pytest.mark.parametrize("rows", [2, 5, FULL])
@pytest.mark.parametrize("name", CASES)
def test_fewer_rows_train_as_a_model_for_that_many(name, rows, cache):
    build, batch = CASES[name]
    trainer, smaller = fresh(build(FULL), cache), fresh(build(rows), cache)
    rng = np.random.default_rng(rows)
    for _ in range(3):
        given = batch(rows, rng)
        np.testing.assert_allclose(trainer.update(*given), smaller.update(*given), rtol=1e-5)
    found = everything(trainer)
    for key, wanted in everything(smaller).items():
        np.testing.assert_allclose(found[key], wanted, rtol=2e-4, atol=1e-6, err_msg=key)


@pytest.mark.parametrize("name", CASES)
def test_a_whole_batch_after_a_smaller_one_is_whole(name, cache):
    """The number of rows is set for one step; nothing is compiled for it."""
    build, batch = CASES[name]
    one, other = fresh(build(FULL), cache), fresh(build(FULL), cache)
    one.compile()
    rng = np.random.default_rng(0)
    small, whole = batch(3, rng), batch(FULL, rng)
    start = one.export_params(), one.export_states(), one.export_optimizer_state()
    one.update(*small)
    for load, kept in zip((one.load_params, one.load_states, one.load_optimizer_state), start, strict=True):
        load(kept)
    assert one.update(*whole) == other.update(*whole)
    for key, wanted in everything(other).items():
        np.testing.assert_array_equal(everything(one)[key], wanted)


def test_the_rows_that_are_absent_do_not_matter(cache):
    """The same bits whatever was in memory before."""
    rng = np.random.default_rng(1)
    x, y = classified(3, rng)
    losses = []
    for before in (1, 1e30):
        trainer = fresh(classifier(FULL), cache)
        kept = trainer.export_params(), trainer.export_optimizer_state()
        trainer.update(before * classified(FULL, rng)[0].astype(np.float32), classified(FULL, rng)[1])
        trainer.load_params(kept[0])
        trainer.load_optimizer_state(kept[1])
        losses.append((trainer.update(x, y), trainer.update(x, y)))
    assert losses[0] == losses[1]


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", ["classifier", "normalised"])
def test_an_epoch_ends_with_the_rows_that_are_left(name, threads, cache):
    build, batch = CASES[name]
    rng = np.random.default_rng(5)
    data = batch(2 * FULL + 3, rng)
    trainer, other = fresh(build(FULL), cache, threads=threads), fresh(build(FULL), cache)
    result = trainer.run_epoch(data, shuffle=False, drop_last=False)
    wanted = [other.update(*(a[i : i + FULL] for a in data)) for i in range(0, len(data[0]), FULL)]
    np.testing.assert_array_equal(result.losses, np.array(wanted, np.float32))
    for key, array in everything(other).items():
        np.testing.assert_array_equal(everything(trainer)[key], array)


def test_a_callback_after_the_last_batch_takes_whole_batches(cache):
    rng = np.random.default_rng(6)
    data, whole = classified(FULL + 3, rng), classified(FULL, rng)
    trainer, other = fresh(classifier(FULL), cache), fresh(classifier(FULL), cache)
    seen = []

    def callback(done, _):
        if done == 2:
            seen.append(trainer.update(*whole))

    trainer.run_epoch(data, shuffle=False, drop_last=False, callback=callback)
    other.run_epoch(data, shuffle=False, drop_last=False)
    assert seen == [other.update(*whole)]


def test_batches_from_an_iterable_may_be_shorter(cache):
    rng = np.random.default_rng(7)
    parts = [classified(rows, rng) for rows in (FULL, 2, FULL, 5)]
    trainer, other = fresh(classifier(FULL), cache), fresh(classifier(FULL), cache)
    result = trainer.run_epoch(iter(parts))
    np.testing.assert_array_equal(result.losses, np.array([other.update(*part) for part in parts], np.float32))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (
            (3, 2),
            "update: all arrays of a batch must have the same number of rows, got x 3, targets 2; shorten the longer",
        ),
        ((9, 9), "update: a batch must have from 1 to 8 rows, got 9; split it, or build the model for larger batches"),
        ((0, 0), "update: a batch must have from 1 to 8 rows, got 0"),
    ],
)
def test_numbers_of_rows_that_are_refused(rows, message, cache):
    trainer = fresh(classifier(FULL), cache)
    before = trainer.export_params()
    with pytest.raises(TypeRuleError, match=message):
        trainer.update(np.ones((rows[0], 12), np.float32), np.zeros(rows[1], np.int64))
    for key, kept in before.items():
        np.testing.assert_array_equal(trainer.export_params()[key], kept)


def test_a_refused_batch_leaves_the_number_of_rows_alone(cache):
    trainer, other = fresh(classifier(FULL), cache), fresh(classifier(FULL), cache)
    rng = np.random.default_rng(8)
    x, y = classified(3, rng)
    with pytest.raises(InvalidValueError, match=r"update: targets must be in \[0, 3\) or -100, got 7 at 1; nothing"):
        trainer.update(x, np.array([0, 7, 1]))
    with pytest.raises(TypeRuleError, match=r"x must be float32, got float64"):
        trainer.update(x.astype(np.float64), y)
    whole = classified(FULL, rng)
    assert trainer.update(*whole) == other.update(*whole)


def test_a_single_row_leaves_the_running_variance_alone(cache):
    """It has a mean, but no unbiased variance."""
    trainer = fresh(normalised(FULL), cache)
    x, y = regressed(1, np.random.default_rng(9))
    hidden = x @ trainer.export_params()["w"].astype(np.float64)
    before = trainer.export_states()
    assert np.isfinite(trainer.update(x, y))
    after = trainer.export_states()
    np.testing.assert_array_equal(after["var"], before["var"])
    np.testing.assert_allclose(after["mean"], 0.75 * before["mean"] + 0.25 * hidden[0], rtol=1e-5, atol=1e-6)


def remembering(rows):
    """A state with something for each row."""
    x, w, kept = param("x", (rows, 4)), param("w", (4, 3)), param("kept", (rows, 3))
    y = ops.add(ops.matmul(x, w), kept)
    return IRModule((Function("backbone", (x, w, kept), (y, ops.multiply(y, 0.5))),), {"param_num": 1, "state_num": 1})


def test_a_state_of_each_row_needs_whole_batches(cache):
    types = [TensorType((FULL, 3))] * 2
    trainer = fresh(SetupTrainer(MSELoss(), SGD(0.1), types)(remembering(FULL)), cache)
    message = r"exactly 8 rows, because @backbone_loss returns a state with a batch axis, f32\[8,3\], got 3; drop it"
    with pytest.raises(TypeRuleError, match=message):
        trainer.update(np.ones((3, 4), np.float32), np.ones((3, 3), np.float32))


def contrastive(rows):
    """Every row is compared with every other."""
    x, w = param("x", (rows, 4)), param("w", (4, 3))
    y = ops.matmul(x, w)
    return IRModule(
        (Function("backbone", (x, w), (ops.matmul(y, ops.transpose(y)),)),), {"param_num": 1, "state_num": 0}
    )


def test_a_model_that_compares_rows_takes_whole_batches_only(cache):
    scores = TensorType((FULL, FULL))
    trainer = fresh(SetupTrainer(MSELoss(), SGD(0.1), [scores] * 2)(contrastive(FULL)), cache)
    x, y = np.ones((FULL, 4), np.float32), np.zeros((FULL, FULL), np.float32)
    assert np.isfinite(trainer.update(x, y))
    reason = r"because %2 = matmul\(...\): f32\[8,8\] depends on all rows of a batch"
    with pytest.raises(TypeRuleError, match=f"update: a batch must have exactly 8 rows, {reason}, got 3; drop it, or"):
        trainer.update(x[:3], y)
    x, y = np.ones((11, 4), np.float32), np.zeros((11, FULL), np.float32)
    message = f"run_epoch: a batch must have exactly 8 rows, {reason}, got 3 in the last one; use drop_last=True, or"
    with pytest.raises(InvalidValueError, match=message):
        trainer.run_epoch((x, y), drop_last=False)
