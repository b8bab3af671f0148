"""``adjoint eval``, ``predict`` and ``generate``: trained models from checkpoints."""

import json

import numpy as np
import pytest

from adjoint.cli import main
from tests.cli.helpers import clothes, refusal


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """A checkpoint of a perceptron, and what its run reported."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("adjoint.cli.experiment.load_dataset", lambda _: clothes())
        words = ["--checkpoint", str(folder / "runs"), "--json", str(folder / "run.json"), "--epochs", "2"]
        assert main(["train", "fashion-mnist", *words]) == 0
    return folder / "runs", json.loads((folder / "run.json").read_text())


@pytest.mark.usefixtures("small")
def test_a_checkpoint_has_the_metrics_of_its_run(trained, tmp_path):
    folder, run = trained
    assert main(["eval", str(folder), "--json", str(tmp_path / "eval.json")]) == 0
    assert json.loads((tmp_path / "eval.json").read_text()) == run["metrics"]


@pytest.mark.usefixtures("small")
def test_images_of_files_are_classified(trained, tmp_path, capsys):
    images, labels = clothes().test_images, clothes().test_labels
    np.save(tmp_path / "images.npy", images)
    capsys.readouterr()
    assert main(["predict", str(trained[0]), str(tmp_path / "images.npy"), "--limit", "30"]) == 0
    rows = [line.split("│") for line in capsys.readouterr().out.splitlines() if "images" in line]
    assert len(rows) == 30
    right = np.mean([int(row[2]) == label for row, label in zip(rows, labels, strict=False)])
    assert right > 0.8
    np.save(tmp_path / "small.npy", images[:, :20])
    said = refusal(capsys, "predict", str(trained[0]), str(tmp_path / "small.npy"))
    assert said == (
        f"{tmp_path / 'small.npy'}: images must be uint8 [N, 28, 28, 1], as those of fashion-mnist, got uint8 "
        "[130, 20, 28]; convert them"
    )


@pytest.mark.usefixtures("small")
def test_an_interrupted_run_continues_to_the_same_bits(tmp_path):
    def run(name, *words):
        file = tmp_path / f"{name}.json"
        assert (
            main(["train", "fashion-mnist", "--epochs", "3", "--schedule", "constant", "--json", str(file), *words])
            == 0
        )
        return json.loads(file.read_text())

    straight = run("straight")
    folder = ["--checkpoint", str(tmp_path / "runs"), "--checkpoint-every", "4", "--resume"]
    assert run("first", *folder, "--limit", "14")["steps"] == 14
    resumed = run("second", *folder)
    assert (resumed["steps"], resumed["final_loss"]) == (30, straight["final_loss"])
    assert resumed["metrics"] == straight["metrics"]
    assert [epoch["test_accuracy"] for epoch in resumed["history"]] == [
        epoch["test_accuracy"] for epoch in straight["history"]
    ]
    again = run("third", *folder)  # there is nothing left to do but to evaluate
    assert (again["steps"], again["final_loss"], again["metrics"]) == (30, None, straight["metrics"])


def test_a_gpt_writes_text(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("to be or not to be " * 100)
    words = ["--set", "model.tokens=8", "--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2"]
    folder = str(tmp_path / "runs")
    assert main(["train", str(tmp_path / "text.txt"), *words, "--epochs", "2", "--checkpoint", folder]) == 0
    capsys.readouterr()
    assert main(["generate", folder, "--prompt", "to be", "--count", "20"]) == 0
    written = capsys.readouterr().out
    assert written.startswith("to be")
    assert len(written) == 26
    assert set(written) <= set("to be or not to be\n")
    said = refusal(capsys, "generate", folder, "--prompt", "?")
    assert said.startswith("--prompt: ")
    said = refusal(capsys, "predict", folder, "x.npy")
    assert said == "predict takes a checkpoint of a model for images; use generate for texts"


def test_a_checkpoint_that_is_none_is_refused(tmp_path, capsys):
    said = refusal(capsys, "eval", str(tmp_path / "none"))
    assert said == f"there is no checkpoint at {tmp_path / 'none'}; name a file or folder of adjoint train"
