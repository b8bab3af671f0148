"""Trainer: compiled steps against NumPy, what it holds, and what it refuses."""

import gc
import json
import weakref
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from adjoint.compiler import CompileOptions
from adjoint.errors import AdjointError, DataError, InvalidValueError, NameLookupError, TypeRuleError, VerifyError
from adjoint.ir import TensorType
from adjoint.losses import CrossEntropyLoss, MSELoss
from adjoint.models import mlp
from adjoint.optim import SGD, Adam, AdamW
from adjoint.training import SetupTrainer, Trainer
from tests.golden.torch import formulas
from tests.training.models import normalising
from tests.training.reference import mlp_step

CURVES = json.loads((Path(__file__).parents[1] / "golden/torch/training.json").read_text())["runs"]
SIZES, BATCH = (12, 16, 8, 3), 8
LOGITS, INDICES, ONE_HOT = TensorType((BATCH, 3)), TensorType((BATCH,), "i64"), TensorType((BATCH, 3), "i64")
X, Y = np.zeros((BATCH, 12), np.float32), np.zeros(BATCH, np.int64)
PARAMS = ["w0", "b0", "w1", "b1", "w2", "b2"]


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    return CompileOptions(threads=1, cache_directory=tmp_path_factory.mktemp("compiled"))


@pytest.fixture(scope="module")
def module():
    return SetupTrainer(CrossEntropyLoss(), SGD(0.1, 0.9, weight_decay=0.01), [LOGITS, INDICES])(mlp(SIZES, BATCH))


@pytest.fixture
def trainer(module, cache):
    made = Trainer(module, options=cache, seed=1)
    made.init_parameters()
    return made


def batches(count, seed=0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((3, 12))
    for _ in range(count):
        y = rng.integers(0, 3, BATCH)
        yield (centres[y] + 0.3 * rng.standard_normal((BATCH, 12))).astype(np.float32), y


def widened(params):
    return {name: array.astype(np.float64) for name, array in params.items()}


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


def test_hyperparameters_change_between_steps(trainer):
    (x, y), *_ = batches(1)
    trainer.update(x, y)
    before = trainer.export_params()
    trainer.hyper["lr"] = 0
    trainer.update(x, y)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])
    trainer.hyper.update(lr=0.05, momentum=0.5)
    expected, buffers = (
        widened(before),
        {n.removesuffix("_momentum_buffer"): b for n, b in widened(trainer.export_optimizer_state()).items()},
    )
    trainer.update(x, y)
    _, expected, _ = mlp_step(expected, x.astype(np.float64), np.eye(3)[y], 0.05, 0.01, 0.5, buffers, reduction="mean")
    for name, value in trainer.export_params().items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-6)


def test_hyperparameters_read_as_they_were_written(trainer):
    assert dict(trainer.hyper) == {"lr": 0.1, "momentum": 0.9, "weight_decay": 0.01}
    trainer.hyper["lr"] = 0.3
    assert trainer.hyper["lr"] == 0.3
    assert repr(trainer.hyper) == "{'lr': 0.3, 'momentum': 0.9, 'weight_decay': 0.01}"
    assert len(trainer.hyper) == 3


@pytest.mark.parametrize(
    ("name", "value", "kind", "message"),
    [
        ("beta1", 0.5, NameLookupError, "no 'beta1', it has lr, momentum, weight_decay; settings that were 0"),
        ("lr", float("nan"), InvalidValueError, "lr is finite in float32, got nan"),
        ("lr", 1e39, InvalidValueError, r"lr is finite in float32, got 1e\+39"),
        ("lr", "0.1", InvalidValueError, "lr is a number, got '0.1'"),
        ("lr", True, InvalidValueError, "lr is a number, got True"),
    ],
)
def test_hyperparameters_that_do_not_exist_or_fit_are_refused(trainer, name, value, kind, message):
    with pytest.raises(kind, match=message):
        trainer.hyper[name] = value
    with pytest.raises(InvalidValueError, match="lr is an input of the compiled step and stays"):
        del trainer.hyper["lr"]
    assert trainer.hyper["lr"] == 0.1


def test_export_and_load_resume_training_exactly(module, cache, trainer):
    data = list(batches(10))
    for x, y in data[:5]:
        trainer.update(x, y)
    other = Trainer(module, options=cache)
    other.load_params(trainer.export_params())
    other.load_optimizer_state(trainer.export_optimizer_state())
    rest = [trainer.update(x, y) for x, y in data[5:]]
    assert [other.update(x, y) for x, y in data[5:]] == rest
    again = Trainer(module, options=cache)
    again.load_params(list(trainer.export_params().values()))
    for name, value in again.export_params().items():
        np.testing.assert_array_equal(value, trainer.export_params()[name])


def test_what_is_exported_or_loaded_is_a_copy(trainer):
    exported = trainer.export_params()
    exported["w0"][:] = 7
    assert not np.any(trainer.export_params()["w0"] == 7)
    trainer.load_params(exported)
    exported["w0"][:] = 8
    assert np.all(trainer.export_params()["w0"] == 7)


def test_parameters_can_be_loaded_between_steps(trainer):
    """The compiled step reads what was loaded: loading writes into the arrays that it is bound to."""
    (x, y), *_ = batches(1)
    start = trainer.export_params()
    first = trainer.update(x, y)
    assert trainer.update(x, y) != first
    trainer.load_params(start)
    trainer.reset_optimizer_state()
    assert trainer.update(x, y) == first


@pytest.mark.parametrize(
    ("change", "kind", "message"),
    [
        (lambda p: p.pop("w1"), NameLookupError, "missing w1; the names are w0, b0, w1, b1, w2, b2"),
        (lambda p: p.update(v=p["w0"]), NameLookupError, "exactly their names, got unknown v;"),
        (lambda p: p.update(v=p.pop("w0")), NameLookupError, "missing w0 and unknown v"),
        (lambda p: p.update(b2=np.zeros(4, np.float32)), TypeRuleError, r"'b2' is f32\[3\], got shape \[4\]; reshape"),
        (lambda p: p.update(w2=p["w2"].T), TypeRuleError, r"'w2' is f32\[8,3\], got shape \[3, 8\]"),
        (lambda p: p.update(b2=np.zeros(3)), TypeRuleError, r"got dtype float64; convert it with .astype\('float32'\)"),
    ],
)
def test_parameters_that_do_not_fit_are_refused_and_none_is_loaded(trainer, change, kind, message):
    before = trainer.export_params()
    given = {name: np.full_like(array, 5) for name, array in before.items()}
    change(given)
    with pytest.raises(kind, match=message):
        trainer.load_params(given)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])


def test_lists_of_the_wrong_kind_or_length_are_refused(trainer):
    arrays = list(trainer.export_params().values())
    with pytest.raises(InvalidValueError, match=r"there are 6 parameters \(w0, b0, w1, b1, w2, b2\), got 5"):
        trainer.load_params(arrays[:5])
    with pytest.raises(TypeRuleError, match="a list or a dict of arrays, got ndarray"):
        trainer.load_params(arrays[0])
    with pytest.raises(InvalidValueError, match="there are 0 states"):
        trainer.load_states([arrays[0]])
    with pytest.raises(NameLookupError, match="optimizer states are given by exactly their names"):
        trainer.load_optimizer_state({})


def test_xavier_uniform_fills_its_range(module):
    trainer = Trainer(module, seed=5)
    trainer.init_parameters("xavier_uniform")
    params = trainer.export_params()
    for i, (fan_in, fan_out) in enumerate(pairwise(SIZES)):
        bound = np.sqrt(6 / (fan_in + fan_out))
        assert np.abs(params[f"w{i}"]).max() <= bound
        assert np.abs(params[f"w{i}"]).max() > 0.8 * bound
        assert np.all(params[f"b{i}"] == 0)
    variance = 2 / (SIZES[0] + SIZES[1])
    assert 0.7 * variance < params["w0"].var() < 1.3 * variance
    trainer.init_parameters("zeros")
    assert all(np.all(a == 0) for a in trainer.export_params().values())
    with pytest.raises(InvalidValueError, match="one of xavier_uniform, zeros, got 'ones'"):
        trainer.init_parameters("ones")


def test_seeds_decide_the_parameters(module):
    def initial(seed):
        trainer = Trainer(module, seed=seed)
        trainer.init_parameters()
        return trainer.export_params()["w1"]

    np.testing.assert_array_equal(initial(1), initial(1))
    assert not np.array_equal(initial(1), initial(2))
    with pytest.raises(InvalidValueError, match="seed is an integer of at least 0, got -1"):
        Trainer(module, seed=-1)


def forward(params, x):
    hidden = x.astype(np.float64)
    for i in range(3):
        hidden = hidden @ params[f"w{i}"] + params[f"b{i}"]
        hidden = np.maximum(hidden, 0) if i < 2 else hidden
    return hidden


@pytest.mark.parametrize("rows", [0, 1, BATCH - 1, BATCH, BATCH + 1, 3 * BATCH, 3 * BATCH + 5])
def test_any_number_of_rows_is_predicted(trainer, rows):
    x = np.random.default_rng(rows).standard_normal((rows, 12)).astype(np.float32)
    got = trainer.predict(x)
    assert got.shape == (rows, 3)
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, forward(widened(trainer.export_params()), x), rtol=1e-4, atol=1e-5)


def test_predict_reads_the_newest_parameters_and_changes_none(trainer):
    (x, y), *_ = batches(1)
    before = trainer.predict(x)
    trainer.update(x, y)
    params = trainer.export_params()
    after = trainer.predict(x)
    assert not np.array_equal(before, after)
    np.testing.assert_allclose(after, forward(widened(params), x), rtol=1e-4, atol=1e-5)
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, params[name])


def test_rows_in_another_order_of_memory_are_predicted(trainer):
    x = np.random.default_rng(0).standard_normal((12, 20)).astype(np.float32).T
    np.testing.assert_array_equal(trainer.predict(x), trainer.predict(np.ascontiguousarray(x)))


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([np.zeros((3, 11), np.float32)], r"x is f32\[8,12\] with any number of rows, got float32\[3, 11\]"),
        ([np.zeros(12, np.float32)], r"got float32\[12\]"),
        ([np.zeros((3, 12))], r"got float64\[3, 12\]"),
        ([np.zeros((3, 12), np.float32)] * 2, "the model takes x, got 2 arrays"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(trainer, arrays, message):
    with pytest.raises(TypeRuleError, match=message):
        trainer.predict(*arrays)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ([X[:4], Y[:4]], r"x must have shape \(8, 12\), got \(4, 12\)"),
        ([X.astype(np.float64), Y], "x must be float32, got float64; convert it"),
        ([X], r"takes 2 arguments \(x, targets\), got 1"),
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
    with pytest.raises(DataError, match=r"x is finite with check_finite, got nan at \(3, 7\)"):
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
    got = trainer.predict(x[:2])
    np.testing.assert_allclose(got, (x[:2] - expected) @ params["w"] + params["b"], rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(trainer.export_states()["mean"], expected, rtol=1e-5)
    assert trainer.export_optimizer_state()["step"] == 1


def test_arrays_stay_where_they_are_and_are_aligned(trainer):
    arrays = trainer._resident()
    assert set(arrays) >= {*PARAMS, "lr", "w0_momentum_buffer"}
    assert all(a.ctypes.data % 64 == 0 and a.flags.c_contiguous for a in arrays.values())
    addresses = [a.ctypes.data for a in arrays.values()]
    (x, y), *_ = batches(1)
    trainer.update(x, y)
    trainer.load_params(trainer.export_params())
    trainer.hyper["lr"] = 0.2
    assert [a.ctypes.data for a in trainer._resident().values()] == addresses


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
    for name, value in trainer.export_params().items():
        np.testing.assert_array_equal(value, before[name])
    with pytest.raises(InvalidValueError, match="runs is at least 1, got 0"):
        trainer.profile(x, y, runs=0)


def test_modules_that_are_not_set_up_are_refused(module):
    with pytest.raises(VerifyError, match="no function 'step'; make it with SetupTrainer"):
        Trainer(mlp(SIZES, BATCH))
    for attrs, message in [
        ({"input_num": 2}, "speak of 18 inputs of @step, which has 17"),
        ({"hyper": 3}, "attribute hyper, pairs of name and value"),
        ({"hyper": ((1, 2),)}, r"attribute hyper holds pairs of name and value, got \(1, 2\)"),
        ({"target_num": -1}, "target_num, an integer of at least 0, got -1"),
    ]:
        with pytest.raises(AdjointError, match=message):
            Trainer(module.with_attrs(**attrs))


def test_a_call_outlives_its_trainer_and_dropped_trainers_are_collected(module, cache):
    """What the fast way in points to must live as long as it does, in whatever order things are freed."""
    calls, arrays = [], []
    for _ in range(20):
        trainer = Trainer(module, options=cache).compile()
        calls.append(trainer._step)
        arrays.append(weakref.ref(trainer._params.arrays["w0"]))
        del trainer
        gc.collect()
    assert all(ref() is not None for ref in arrays)
    assert all(np.isfinite(call(X, Y)) for call in calls)
    calls.clear()
    gc.collect()
    assert all(ref() is None for ref in arrays)
