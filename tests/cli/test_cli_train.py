"""``adjoint train``, on small data where the real ones are not the point."""

import json
import signal
import subprocess
import sys
import textwrap
from dataclasses import replace

import numpy as np
import pytest

import adjoint
from adjoint.cli import main
from adjoint.cli.fit import Run, Settings, fit, make_trainer
from adjoint.errors import InvalidValueError
from tests.cli.helpers import clothes, refusal

FIELDS = {
    "test_accuracy", "train_seconds", "compile_seconds", "steps_per_second", "final_loss", "epochs", "seed", "threads",
}  # fmt: skip


def train(*words):
    return main(["train", "fashion-mnist", "--epochs", "3", *words])


@pytest.mark.usefixtures("small")
def test_training_prints_a_table_and_writes_its_numbers(capsys, tmp_path):
    assert train("--json", str(tmp_path / "run.json"), "--seed", "4", "--threads", "1") == 0
    captured = capsys.readouterr()
    got = json.loads((tmp_path / "run.json").read_text())
    assert got.keys() >= FIELDS
    assert got["epochs"] == len(got["history"]) == 3
    assert got["steps"] == 30
    assert (got["seed"], got["threads"], got["interrupted"]) == (4, 1, False)
    assert got["test_accuracy"] == got["history"][-1]["test_accuracy"] > 0.9
    assert got["history"][-1]["loss"] < got["history"][0]["loss"]
    assert got["steps_per_second"] == pytest.approx(30 / got["train_seconds"])
    assert repr(got["final_loss"]) in captured.out
    assert f"{got['test_accuracy']:.2%}" in captured.out
    assert captured.err.count("test accuracy") == 3


@pytest.mark.usefixtures("small")
def test_the_reported_loss_and_accuracy_are_those_of_a_loop_by_hand(tmp_path):
    assert train("--json", str(tmp_path / "run.json"), "--schedule", "constant", "--lr", "0.003") == 0
    got = json.loads((tmp_path / "run.json").read_text())
    data = clothes()
    trainer = make_trainer(Settings(optimizer="adam", lr=0.003), Run())
    for epoch in (1, 2, 3):
        order = np.random.default_rng((0, epoch)).permutation(640)
        for start in range(0, 640, 64):
            rows = order[start : start + 64]
            x = data.train_images[rows].reshape(64, 784).astype(np.float32) * np.float32(1 / 255)
            loss = trainer.update(x, data.train_labels[rows].astype(np.int64))
    logits = trainer.predict(data.test_images.reshape(-1, 784).astype(np.float32) * np.float32(1 / 255))
    assert got["final_loss"] == loss
    assert got["test_accuracy"] == np.mean(logits.argmax(axis=1) == data.test_labels)


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(tmp_path):
    losses = []
    for number, words in enumerate((["--threads", "1"], ["--threads", "2"], ["--threads", "2"], ["--seed", "1"])):
        assert train("--json", str(tmp_path / f"{number}.json"), *words) == 0
        losses.append(json.loads((tmp_path / f"{number}.json").read_text())["final_loss"])
    assert losses[0] == losses[1] == losses[2]
    assert losses[3] != losses[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.usefixtures("small")
def test_every_optimizer_learns(tmp_path, optimizer):
    assert train("--json", str(tmp_path / "run.json"), "--optimizer", optimizer, "--batch-size", "32") == 0
    assert json.loads((tmp_path / "run.json").read_text())["test_accuracy"] > 0.9


@pytest.mark.usefixtures("small")
def test_the_linear_schedule_ends_near_zero():
    settings, run, data = Settings(optimizer="sgd", lr=0.1, epochs=2), Run(), clothes()
    trainer = make_trainer(settings, run)
    fit(settings, data, trainer, run, lambda *_: None)
    assert trainer.hyper["lr"] == pytest.approx(0.1 / 20, rel=1e-6)
    other, losses = make_trainer(settings, Run()), []
    for step in range(20):
        other.hyper["lr"] = 0.1 * (1 - step / 20)
        rows = np.random.default_rng((0, step // 10 + 1)).permutation(640)[step % 10 * 64 :][:64]
        x = data.train_images[rows].reshape(64, 784) * np.float32(1 / 255)
        losses.append(other.update(x, data.train_labels[rows].astype(np.int64)))
    assert run.losses == losses


@pytest.mark.usefixtures("small")
def test_the_watcher_is_told_every_few_steps_and_after_each_epoch(monkeypatch):
    monkeypatch.setattr("adjoint.cli.fit._EVERY", 4)
    settings, run, seen = Settings(epochs=2), Run(), []
    fit(settings, clothes(), make_trainer(settings, run), run, lambda r, total: seen.append((r.steps, total)))
    assert seen == [(n, 20) for n in (4, 8, 10, 10, 14, 18, 20, 20)]
    assert run.train_seconds > 0


@pytest.mark.usefixtures("small")
def test_a_limit_ends_the_run_within_an_epoch(tmp_path):
    assert train("--json", str(tmp_path / "run.json"), "--limit", "14") == 0
    got = json.loads((tmp_path / "run.json").read_text())
    assert got["steps"] == 14
    assert [epoch["steps"] for epoch in got["history"]] == [10, 14]


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("schedule", ["linear", "constant"])
@pytest.mark.parametrize("stop", [14, 20])
def test_a_run_that_is_interrupted_and_resumed_has_the_bits_of_one_straight_through(tmp_path, schedule, stop):
    """Interrupted within the second epoch, or after it."""
    settings = Settings(epochs=3, schedule=schedule, save=tmp_path / "file")
    straight, first = Run(), Run()
    expected = make_trainer(settings, straight)
    fit(settings, clothes(), expected, straight, lambda *_: None)

    def interrupt(run, _):
        if run.steps == stop:
            raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjoint.cli.fit._EVERY", 2)
        report = fit(settings, clothes(), make_trainer(settings, first), first, interrupt)
    assert (report.interrupted, report.steps) == (True, stop)
    again, second = replace(settings, resume=settings.save), Run()
    trainer = make_trainer(again, second)
    report = fit(again, clothes(), trainer, second, lambda *_: None)
    assert (report.steps, report.interrupted) == (30, False)
    assert first.losses + second.losses == straight.losses
    assert report.history == straight.epochs[(stop // 10) :]
    for name, array in trainer.export_params().items():
        np.testing.assert_array_equal(array, expected.export_params()[name])
    done = Run()
    report = fit(again, clothes(), make_trainer(again, done), done, lambda *_: pytest.fail("there is nothing to do"))
    assert (report.steps, report.final_loss) == (30, None)
    assert report.test_accuracy == straight.epochs[-1].test_accuracy


@pytest.mark.usefixtures("small")
def test_a_run_is_resumed_from_the_command_line_with_its_options_only(capsys, tmp_path):
    path, words = str(tmp_path / "file"), ["--optimizer", "sgd", "--threads", "1"]
    assert train(*words, "--limit", "14", "--save", path) == 0
    capsys.readouterr()
    assert train(*words, "--resume", path, "--json", str(tmp_path / "run.json")) == 0
    got = json.loads((tmp_path / "run.json").read_text())
    assert (got["steps"], [epoch["epoch"] for epoch in got["history"]]) == (30, [2, 3])
    capsys.readouterr()
    message = f"--resume continues a run with the same options, got {path} of another run, in which {{}}; pass the "
    message += "options of that run"
    for other, difference in (
        (["--optimizer", "sgd", "--seed", "3"], "the seed is 0, but 3 in the one given"),
        (["--optimizer", "sgd", "--batch-size", "32"], "input 'x' is f32[64,784], but f32[32,784] in the one given"),
        ([], "optimizer state 'w0_momentum_buffer' is f32[784,128], but missing in the one given"),
        (
            ["--optimizer", "sgd", "--lr", "0.5"],
            "the attribute hyper is (('lr', 0.05), ('momentum', 0.9)), but (('lr', 0.5), ('momentum', 0.9)) in the one "
            "given",
        ),
    ):
        assert refusal(capsys, "train", "fashion-mnist", *other, "--resume", path) == message.format(difference)
    missing = str(tmp_path / "none")
    said = refusal(capsys, "train", "fashion-mnist", "--resume", missing)
    assert said == f"Trainer.load: there is no file {missing}; check the path"


@pytest.mark.usefixtures("small")
def test_a_plot_is_drawn(tmp_path):
    assert train("--plot", str(tmp_path / "run.png")) == 0
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.usefixtures("small")
def test_a_plot_without_matplotlib_names_the_extra(capsys, tmp_path, monkeypatch):
    monkeypatch.setattr("adjoint.cli.plotting.find_spec", lambda _: None)
    message = refusal(capsys, "train", "fashion-mnist", "--plot", str(tmp_path / "run.png"))
    assert message == "plots require matplotlib, which is not installed; run pip install 'adjoint[plot]'"


@pytest.mark.usefixtures("small")
def test_files_that_cannot_be_written_are_refused_before_training(capsys, tmp_path):
    start = ("train", "fashion-mnist")
    assert "--json" in (message := refusal(capsys, *start, "--json", str(tmp_path / "none/run.json")))
    assert message.endswith(f"the folder {tmp_path / 'none'} does not exist; create it first")
    assert refusal(capsys, *start, "--json", str(tmp_path)) == f"--json {tmp_path} is a directory; choose a file"
    assert "end in .png, .svg, .pdf, got run.txt" in refusal(capsys, *start, "--plot", str(tmp_path / "run.txt"))


@pytest.mark.usefixtures("small")
def test_check_finite_stops_a_run_that_diverges(capsys):
    words = ["--check-finite", "--optimizer", "sgd", "--lr", "1e12"]
    assert train(*words) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert "the loss is nan" in error or "the loss is inf" in error
    assert train(*words[1:]) == 0


def test_data_that_cannot_be_had_are_one_sentence(capsys, monkeypatch):
    def missing():
        raise adjoint.errors.DataError("Fashion-MNIST is nowhere")

    monkeypatch.setattr("adjoint.cli.train.fashion_mnist", missing)
    assert refusal(capsys, "train", "fashion-mnist") == "Fashion-MNIST is nowhere"


def test_ctrl_c_ends_with_what_there_is(tmp_path):
    code = f"""
        import sys
        from adjoint.cli import main, train
        from tests.cli.helpers import clothes
        train.fashion_mnist = clothes
        sys.exit(main(["train", "fashion-mnist", "--epochs", "100000", "--json", {str(tmp_path / "run.json")!r}]))
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    first = process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert first.startswith("epoch 1/100000")
    assert process.returncode == 130
    assert "Traceback" not in err
    assert "test accuracy" in out
    got = json.loads((tmp_path / "run.json").read_text())
    assert got["interrupted"] is True
    assert 10 <= got["steps"] < 1_000_000
    assert 0 <= got["test_accuracy"] <= 1


def test_defaults_reach_the_accuracy_that_the_readme_promises(real):
    settings, run = Settings(threads=1), Run()  # the bits are those of any number of threads
    report = fit(settings, real, make_trainer(settings, run), run, lambda *_: None)
    assert report.epochs == 5
    assert report.test_accuracy >= 0.875


@pytest.mark.usefixtures("small")
def test_a_cache_that_cannot_be_written_is_a_warning_and_no_end(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "file"))
    assert train("--limit", "3") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warned
    assert all("compiled code is not kept: the cache directory" in line for line in warned)


def test_a_momentum_of_another_optimizer_is_refused_in_settings():
    with pytest.raises(InvalidValueError, match="momentum requires sgd"):
        Settings(optimizer="adamw", momentum=0.5).make_optimizer()


@pytest.mark.parametrize("command", [("train", "fashion-mnist"), ("profile", "mlp")], ids=["train", "profile"])
def test_more_threads_than_there_can_be_are_refused_at_once(capsys, command):
    said = refusal(capsys, *command, "--threads", "100000")
    assert said.startswith("threads must be an integer from 1 to 1024, got 100000")
