"""Trainer: compiled steps against NumPy, what it holds, and what it refuses."""

import gc
import json
import weakref
from pathlib import Path

import numpy as np
import pytest

from adjoint.errors import AdjointError, DataError, InvalidValueError, TypeRuleError, VerifyError
from adjoint.ir import TensorType
from adjoint.losses import CrossEntropyLoss, MSELoss
from adjoint.models import mlp
from adjoint.optim import SGD, Adam, AdamW
from adjoint.training import SetupTrainer, Trainer
from adjoint.training.parts import PARTS
from tests.closeness import close_to_product
from tests.golden.torch import formulas
from tests.training.models import BATCH, LOGITS, SIZES, batches, normalising, widened
from tests.training.reference import mlp_step

CURVES = json.loads((Path(__file__).parents[1] / "golden/torch/training.json").read_text())["runs"]
ONE_HOT = TensorType((BATCH, 3), "i64")
X, Y = np.zeros((BATCH, 12), np.float32), np.zeros(BATCH, np.int64)


def test_training_is_the_hand_written_steps(trainer):
    expected, buffers = widened(trainer.export_params()), None
    for x, y in batches(30):
        loss = trainer.update(x, y)
        wanted, expected, buffers = mlp_step(
            expected, x.astype(np.float64), np.eye(3)[y], 0.1, 0.01, 0.9, buffers, reduction="mean"
        )
        assert type(loss) is float
        np.testing.assert_allclose(loss, wanted, rtol=1e-4, atol=1e-6)
    for name, value in trainer.export_params().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-3, atol=2e-5)
    for name, value in trainer.export_optimizer_state().items():
        np.testing.assert_allclose(value, buffers[name.removesuffix("_momentum_buffer")], rtol=1e-2, atol=2e-5)


def test_the_tutorial_trains_on_one_hot_int64_labels(cache):
    module = SetupTrainer(CrossEntropyLoss("sum"), SGD(0.01, weight_decay=0.01), [LOGITS, ONE_HOT])(mlp(SIZES, BATCH))
    trainer = Trainer(module, options=cache)
    trainer.init_parameters()
    expected = widened(trainer.export_params())
    for x, y in batches(20):
        one_hot = np.eye(3, dtype=np.int64)[y]
        loss = trainer.update(x, one_hot)
        wanted, expected, _ = mlp_step(expected, x.astype(np.float64), one_hot, 0.01, 0.01)
        np.testing.assert_allclose(loss, wanted, rtol=1e-4)


@pytest.mark.parametrize("run", CURVES, ids=lambda r: f"{r['optimizer']}-{r['reduction']}")
def test_losses_follow_pytorch(run, cache):
    """The MLP of Relax's tutorial at its full size, on identical data and initial weights."""
    optimizer = {"SGD": SGD, "AdamW": AdamW}[run["optimizer"]](**run["settings"])
    types = [TensorType((64, 10)), TensorType((64,), "i64")]
    module = SetupTrainer(CrossEntropyLoss(run["reduction"]), optimizer, types)(mlp())
    trainer = Trainer(module, options=cache)
    trainer.load_params(formulas.mlp_start())
    got = [trainer.update(x, y) for x, y in formulas.mlp_batches(len(run["losses"]))]
    np.testing.assert_allclose(got[:20], run["losses"][:20], rtol=1e-4)
    # Later a relu may switch where its input is within rounding of 0 (1e-7 at step 14 of the run with momentum).
    np.testing.assert_allclose(got, run["losses"], rtol=1e-2)


def test_the_same_seed_trains_to_the_same_bits(module, cache):
    ends = []
    for threads in (1, 2, 2):
        trainer = Trainer(module, threads=threads, options=cache, seed=3)
        trainer.init_parameters()
        losses = [trainer.update(x, y) for x, y in batches(10)]
        ends.append((losses, trainer.export_params()))
    for losses, params in ends[1:]:
        assert losses == ends[0][0]
        for name, value in params.items():
            np.testing.assert_array_equal(value, ends[0][1][name])


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([X[:, :4], Y], r"^update: x must have shape \(8, 12\), got \(8, 4\)"),
        ([X.astype(np.float64), Y], "x must be float32, got float64; convert it"),
        ([X], r"^update takes 2 arguments \(x, targets\), got 1; give it all of them"),
        ([X, Y, Y], "got 3"),
        ([X, np.full(BATCH, 3)], r"targets must be in \[0, 3\) or -100, got 3 at 0; nothing was updated"),
        ([X, np.where(np.arange(BATCH) == 5, -1, 0)], "got -1 at 5"),
    ],
)
def test_batches_that_do_not_fit_are_refused_and_change_nothing(trainer, arrays, message):
    before = trainer.export_params()
    with pytest.raises(AdjointError, match=message):
        trainer.update(*arrays)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])


def test_check_finite_names_the_input_and_the_place(module, cache):
    trainer = Trainer(module, options=cache, check_finite=True)
    trainer.init_parameters()
    (x, y), *_ = batches(1)
    assert np.isfinite(trainer.update(x, y))
    before = trainer.export_params()
    x[3, 7] = np.nan
    with pytest.raises(DataError, match=r"x must be finite with check_finite, got nan at \(3, 7\)"):
        trainer.update(x, y)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])


def test_check_finite_reports_a_loss_that_is_not(module, cache):
    trainer = Trainer(module, options=cache, check_finite=True)
    trainer.init_parameters()
    (x, y), *_ = batches(1)
    params = trainer.export_params()
    params["b2"][:] = np.inf
    trainer.load_params(params)
    with pytest.raises(InvalidValueError, match=r"the loss is (nan|inf) after this step, which has updated"):
        trainer.update(x, y)


def test_without_check_finite_nothing_is_looked_at(trainer):
    (x, y), *_ = batches(1)
    x[0, 0] = np.nan
    assert np.isnan(trainer.update(x, y))


def test_states_are_kept_updated_and_left_alone_by_predict(cache):
    types = [TensorType((4, 2)), TensorType((4, 2))]
    module = SetupTrainer(MSELoss(), Adam(0.01), types)(normalising())
    trainer = Trainer(module, options=cache)
    trainer.init_parameters()
    trainer.load_states({"mean": np.array([1, 2, 3], np.float32)})
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((4, 3)).astype(np.float32), np.ones((4, 2), np.float32)
    trainer.update(x, y)
    expected = 0.9 * np.array([1, 2, 3]) + 0.1 * x.mean(0)
    np.testing.assert_allclose(trainer.export_states()["mean"], expected, rtol=1e-5)
    params = trainer.export_params()
    close_to_product(trainer.predict(x[:2]), x[:2] - trainer.export_states()["mean"], params["w"], params["b"])
    np.testing.assert_allclose(trainer.export_states()["mean"], expected, rtol=1e-5)
    assert trainer.export_optimizer_state()["step"] == 1


@pytest.mark.parametrize("threads", [0, 1025, True])
def test_a_wrong_number_of_threads_is_refused_at_the_users_line(trainer, threads):
    with pytest.raises(InvalidValueError, match=f"threads must be an integer from 1 to 1024, got {threads}") as refused:
        Trainer(trainer.module, threads=threads)
    assert refused.value.where.rpartition(":")[0] == __file__


def test_the_parts_of_a_step_are_profiled_and_nothing_is_trained(trainer):
    (x, y), *_ = batches(1)
    before = trainer.export_params()
    profile = trainer.profile(x, y, runs=5)
    assert profile.forward > 0
    assert profile.step > 0
    assert profile.backward >= 0
    assert profile.optimizer >= 0
    assert len(profile.kernels) > 0
    text = str(profile)
    assert all(word in text for word in ("forward", "backward", "optimizer", "step", profile.kernels[0].kernel.name))
    assert "Measured on copies of the trainer's arrays as they are now, and on the given batch" in text
    assert "after 3 runs that warm up the caches" in text
    account = profile.account
    assert account.step == pytest.approx(profile.step * 1e3)
    assert account.kernels == pytest.approx(sum(timed.nanoseconds for timed in profile.kernels))
    assert account.kernels + account.slower + account.between + account.entry == pytest.approx(account.step)
    assert all(name in text for name, _ in account.lines())
    for timed, part in zip(profile.kernels, profile.parts, strict=True):
        kernel = timed.kernel
        assert part in PARTS
        assert len(kernel.operators) == len(kernel.lines) == len(kernel.values)
        assert f"{part:<16}{kernel.listed_operators()} [{kernel.listed_lines()}]" in text
    forward = profile.kernels[0].kernel
    assert "matmul" in forward.operators
    assert forward.listed_lines().startswith("models.py:")
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])
    with pytest.raises(InvalidValueError, match="runs must be at least 1, got 0"):
        trainer.profile(x, y, runs=0)
    with pytest.raises(TypeRuleError, match=r"^profile takes a batch \(x, targets\), got 0 arrays; pass what update"):
        trainer.profile()
    with pytest.raises(TypeRuleError, match=r"^profile: x must have shape \(8, 12\), got \(8, 11\)"):
        trainer.profile(x[:, :11], y)


def test_modules_that_are_not_set_up_are_refused(module):
    with pytest.raises(VerifyError, match="no function 'step'; create it with SetupTrainer"):
        Trainer(mlp(SIZES, BATCH))
    for attrs, message in [
        ({"input_num": 2}, "Trainer: the attributes describe 19 inputs of @step, which has 18"),
        ({"hyper": 3}, "attribute hyper, pairs of name and value"),
        ({"hyper": ((1, 2),)}, r"attribute hyper must hold pairs of name and value, got \(1, 2\)"),
        ({"target_num": -1}, "target_num, an integer of at least 0, got -1"),
    ]:
        with pytest.raises(AdjointError, match=message):
            Trainer(module.with_attrs(**attrs))


def test_nothing_runs_before_the_parameters_have_values(module, cache):
    """The step compiles without them. "zeros" is a value too, given on purpose."""
    trainer = Trainer(module, options=cache).compile()
    for name, call in [
        ("update", lambda: trainer.update(X, Y)),
        ("run_epoch", lambda: trainer.run_epoch((X, Y))),
        ("run_epoch", lambda: trainer.run_epoch(iter([(X, Y)]))),
        ("predict", lambda: trainer.predict(X)),
        ("profile", lambda: trainer.profile(X, Y, runs=1)),
        ("save", lambda: trainer.save("no_file")),
    ]:
        with pytest.raises(InvalidValueError) as caught:
            call()
        assert caught.value.message == (
            f"{name}: the parameters have no values yet; call trainer.init_parameters() or trainer.load_params(...) "
            "first"
        )
    assert trainer.last_epoch is None
    trainer.init_parameters("zeros")
    assert np.isclose(trainer.update(X, Y), np.log(3))
    loaded = Trainer(module, options=cache)
    loaded.load_params({name: np.zeros_like(array) for name, array in trainer.export_params().items()})
    assert np.array_equal(loaded.predict(X), np.zeros((BATCH, 3)))


def test_a_call_outlives_its_trainer_and_dropped_trainers_are_collected(module, cache):
    """What the fast way in points to must live as long as it does, in whatever order things are freed."""
    calls, arrays = [], []
    for _ in range(8):
        trainer = Trainer(module, options=cache)
        trainer.init_parameters()
        trainer.update(X, Y)  # puts the compiled step in its place
        calls.append(trainer._step)
        arrays.append(weakref.ref(trainer._params.arrays["w0"]))
        del trainer
        gc.collect()
    assert all(ref() is not None for ref in arrays)
    assert all(np.isfinite(call(X, Y)) for call in calls)
    calls.clear()
    gc.collect()
    assert all(ref() is None for ref in arrays)
