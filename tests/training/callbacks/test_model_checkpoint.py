"""`ModelCheckpoint`: when it saves, what stays, and that a run continues from it."""

import numpy as np
import pytest

import adjoint
from adjoint import nn, optim
from adjoint.data import ArrayDataset
from adjoint.errors import CheckpointError, InvalidValueError, NameLookupError, TypeRuleError
from adjoint.training.callbacks import Callback, CheckpointConfig, ModelCheckpoint
from adjoint.training.checkpoints import read_snapshot
from adjoint.training.model import Model
from tests.training.callbacks.running import FakeRun

LOSSES = [[4.0, 3.0], [2.0, 1.0]]


def run_of(losses=LOSSES, metrics=None, **options):
    network = nn.Linear(1, 1)
    return FakeRun(losses, metrics, network=network, optimizer=optim.SGD(network.parameters(), lr=0.1), **options)


def names(path):
    return sorted(each.name.removesuffix(".safetensors") for each in path.glob("*.safetensors"))


@pytest.mark.parametrize("async_save", [True, False])
def test_the_newest_three_of_a_save_every_step_stay(tmp_path, async_save):
    config = CheckpointConfig(keep_checkpoint_max=3, async_save=async_save)
    run_of().train(ModelCheckpoint("lin", tmp_path, config))
    assert names(tmp_path) == ["lin-1_2", "lin-2_1", "lin-2_2"]  # as MindSpore's


def test_steps_are_counted_over_the_run_and_its_end_is_saved(tmp_path):
    checkpoint = ModelCheckpoint(directory=tmp_path, config=CheckpointConfig(3))
    run = run_of([[1.0] * 3, [1.0] * 4]).train(checkpoint, until=6)
    run.step, run.step_in_epoch = 7, 4
    checkpoint.on_train_end(run)
    assert names(tmp_path) == ["CKP-1_3", "CKP-2_3", "CKP-2_4"]


def test_seconds_or_a_metric_replace_the_interval_of_one_step():
    assert (ModelCheckpoint().every, ModelCheckpoint().seconds) == (1, None)
    timed = ModelCheckpoint(config=CheckpointConfig(save_checkpoint_seconds=30))
    assert (timed.every, timed.seconds) == (None, 30)
    assert ModelCheckpoint(monitor="accuracy").every is None
    assert ModelCheckpoint(config=CheckpointConfig(7), monitor="accuracy").every == 7


def test_only_the_best_is_saved(tmp_path):
    metrics = [{"accuracy": a} for a in (0.5, 0.7, 0.6, float("nan"))]
    best = ModelCheckpoint("lin", tmp_path, monitor="accuracy", save_best_only=True)
    run_of([[1.0]] * 4, metrics).train(best)
    assert names(tmp_path) == ["lin-1_1", "lin-2_1"]
    assert (best.best, best.best_path) == (0.7, tmp_path / "lin-2_1.safetensors")
    assert read_snapshot(best.best_path).manifest["info"]["metrics"] == {"accuracy": 0.7}


def test_the_best_stays_among_the_newest(tmp_path):
    metrics = [{"loss": a} for a in (0.2, 0.3, 0.4)]
    best = ModelCheckpoint("lin", tmp_path, CheckpointConfig(keep_checkpoint_max=1), monitor="loss")
    run_of([[1.0]] * 3, metrics).train(best)
    assert names(tmp_path) == ["lin-1_1", "lin-3_1"]


def test_a_metric_that_is_missing_is_named(tmp_path):
    with pytest.raises(
        NameLookupError,
        match=r"^ModelCheckpoint: monitor must be a metric of the model or 'train_loss', got 'accuracy'; known are mae",
    ):
        run_of([[1.0]], [{"mae": 1.0}]).train(ModelCheckpoint(directory=tmp_path, monitor="accuracy"))


def test_a_run_continues_from_the_newest(tmp_path):
    config = CheckpointConfig(2, append_info=["epoch_num", "lr", {"note": "a"}])
    first = run_of(config={"seed": 3})
    first.train(ModelCheckpoint("lin", tmp_path, config), until=3)
    first.callbacks[0].on_exception(first, KeyboardInterrupt())  # it was interrupted after step 3

    again = run_of()
    checkpoint = ModelCheckpoint("lin", tmp_path, config, resume=True)
    again.callbacks = [checkpoint]
    assert checkpoint.restore(again) == {"epoch": 1, "step": 2, "step_in_epoch": 2}
    for mine, its in zip(again.network.parameters(), first.network.parameters(), strict=True):
        np.testing.assert_array_equal(mine.detach().numpy(), its.detach().numpy())
    again.resume(2).train(checkpoint)
    assert names(tmp_path) == ["lin-1_2", "lin-2_2"]
    manifest = read_snapshot(tmp_path / "lin-1_2.safetensors").manifest
    assert manifest["config"] == {"seed": 3}
    assert manifest["info"] == {"epoch_num": 1, "lr": 0.1, "metrics": {}, "note": "a"}


class Interrupt(Callback):
    every = 5

    def on_train_step_end(self, run):  # noqa: ARG002
        raise KeyboardInterrupt


def test_a_model_resumes_in_the_middle_of_an_epoch_and_of_an_accumulation_to_the_bit(tmp_path):
    rng = np.random.default_rng(0)
    dataset = ArrayDataset(rng.standard_normal((16, 3), np.float32), rng.integers(0, 2, 16), batch_size=4, seed=1)

    def train(seed, *callbacks):
        adjoint.manual_seed(seed)
        network = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2))
        optimizer = optim.AdamW(network.parameters(), lr=0.1)
        model = Model(network, nn.CrossEntropyLoss(), optimizer, accumulate=2)
        run = model.fit(3, dataset, callbacks=[ModelCheckpoint("m", tmp_path, resume=True), *callbacks])
        return run, {name: tensor.numpy().tobytes() for name, tensor in network.state_dict().items()}

    with pytest.raises(KeyboardInterrupt):
        train(0, Interrupt())
    assert names(tmp_path)[-1] == "m-1_4"  # step 5 was not saved: its callback came first
    (tmp_path / "m-1_4.safetensors").unlink()
    resumed, bits = train(9)
    assert (resumed.step, resumed.resumed) == (12, True)
    for path in tmp_path.glob("*.safetensors"):
        path.unlink()
    whole, same = train(0)
    assert bits == same
    assert resumed.loss == whole.loss


def test_there_may_be_nothing_to_continue(tmp_path):
    run = run_of()
    checkpoint = ModelCheckpoint("lin", tmp_path / "new", resume=True)
    assert checkpoint.restore(run) is None
    run.train(checkpoint)
    assert "lin-2_2" in names(tmp_path / "new")
    assert ModelCheckpoint("lin", tmp_path / "new").restore(run) is None


def test_another_run_in_the_same_directory_gets_a_number(tmp_path):
    run_of([[1.0]]).train(ModelCheckpoint("lin", tmp_path))
    run_of([[1.0]]).train(ModelCheckpoint("lin", tmp_path))
    assert names(tmp_path) == ["lin-1_1", "lin_1-1_1"]


def test_two_runs_at_a_time_in_one_directory_are_refused(tmp_path):
    one = ModelCheckpoint("lin", tmp_path)
    one.on_train_begin(run_of())
    with pytest.raises(CheckpointError, match="a directory takes the checkpoints of one run at a time"):
        run_of().train(ModelCheckpoint("lin", tmp_path))
    one.on_train_end(run_of())


@pytest.mark.parametrize(("error", "name"), [(KeyboardInterrupt, "lin-1_1"), (ValueError, "lin-1_1_breakpoint")])
def test_the_state_at_an_exception_is_saved_if_asked_for(tmp_path, error, name):
    config = CheckpointConfig(100, exception_save=True)
    run = run_of()
    run.train(checkpoint := ModelCheckpoint("lin", tmp_path, config), until=1)
    checkpoint.on_exception(run, error())
    assert names(tmp_path) == [name]


def test_a_run_that_cannot_write_its_last_checkpoint_says_so(tmp_path):
    def remove():
        for path in (tmp_path / "gone").iterdir():
            path.unlink()
        (tmp_path / "gone").rmdir()

    checkpoint = ModelCheckpoint("lin", tmp_path / "gone", CheckpointConfig(100))
    with pytest.raises(CheckpointError, match="gone does not exist; create it first"):
        run_of([[1.0]]).train(checkpoint, step=remove)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: CheckpointConfig(0),
            "CheckpointConfig: save_checkpoint_steps must be an integer of at least 1, got 0",
        ),
        (
            lambda: CheckpointConfig(save_checkpoint_seconds=0),
            "CheckpointConfig: save_checkpoint_seconds must be above 0, got 0",
        ),
        (
            lambda: CheckpointConfig(append_info=["epoch"]),
            "CheckpointConfig: append_info takes mappings and names among epoch_num, step_num, lr, loss, got 'epoch'",
        ),
        (lambda: ModelCheckpoint(mode="most"), "ModelCheckpoint: mode must be 'auto', 'min' or 'max', got 'most'"),
        (
            lambda: ModelCheckpoint(save_best_only=True),
            "ModelCheckpoint: save_best_only needs a metric to compare, got none; pass monitor='accuracy'",
        ),
        (lambda: ModelCheckpoint(config=3), "ModelCheckpoint: config must be a CheckpointConfig, got an int; pass"),
        (lambda: ModelCheckpoint("a/b"), "checkpoints: the prefix must be a text that can begin the name of a file"),
    ],
)
def test_settings_out_of_range_are_refused(make, message):
    with pytest.raises((InvalidValueError, TypeRuleError), match=f"^{message}"):
        make()
