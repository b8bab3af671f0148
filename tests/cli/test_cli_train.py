"""``adjoint train``, on small data where the real ones are not the point."""

import json
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import adjoint
from adjoint import nn, optim
from adjoint.cli import main
from adjoint.cli.configuration import configured
from adjoint.cli.experiment import made_experiment
from adjoint.data import ArrayDataset, Rows
from adjoint.nn.networks import MLP
from tests.cli.helpers import clothes, refusal

FIELDS = {
    "metrics", "train_seconds", "compile_seconds", "steps_per_second", "final_loss", "threads", "history", "config",
}  # fmt: skip


def train(*words):
    return main(["train", "fashion-mnist", "--epochs", "3", *words])


def results(path):
    return json.loads(path.read_text())


@pytest.mark.usefixtures("small")
def test_training_prints_a_table_and_writes_its_numbers(capsys, tmp_path):
    assert train("--json", str(tmp_path / "run.json"), "--seed", "4", "--threads", "1") == 0
    captured = capsys.readouterr()
    got = results(tmp_path / "run.json")
    assert got.keys() >= FIELDS
    assert got["config"]["train"] == {
        "epochs": 3, "seed": 4, "threads": 1, "limit": None, "amp": "O0", "accumulate": 1
    }  # fmt: skip
    assert len(got["history"]) == 3
    assert (got["steps"], got["threads"], got["interrupted"]) == (30, 1, False)
    assert got["metrics"]["accuracy"] == got["history"][-1]["test_accuracy"] > 0.9
    assert got["history"][-1]["loss"] < got["history"][0]["loss"]
    assert got["steps_per_second"] == pytest.approx(30 / got["train_seconds"])
    assert repr(got["final_loss"]) in captured.out
    assert f"{got['metrics']['accuracy']:.2%}" in captured.out
    assert len([line for line in captured.err.splitlines() if line.startswith("epoch ")]) == 3


@pytest.mark.usefixtures("small")
def test_the_reported_numbers_are_those_of_a_loop_by_hand(tmp_path):
    """The linear schedule ends near zero: the rate of step n of 30 is that of the first times 1 - n / 30."""
    words = ["--json", str(tmp_path / "run.json"), "--optimizer", "sgd", "--lr", "0.1", "--momentum", "0.5"]
    assert train(*words) == 0
    got, data = results(tmp_path / "run.json"), clothes()
    adjoint.manual_seed(0)
    network, step = MLP(784, 10), 0
    optimizer = optim.SGD(network.parameters(), lr=0.1, momentum=0.5)
    rows = ArrayDataset(
        Rows(data.train_images[:, None], 1 / 255, "float32"), Rows(data.train_labels, dtype="int64"), batch_size=64
    )
    for epoch in range(3):
        for x, y in rows.epoch(epoch):
            optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 30)
            loss = nn.functional.cross_entropy(network(adjoint.tensor(x)), adjoint.tensor(y))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
    logits = network(adjoint.tensor(data.test_images[:, None].astype(np.float32) / 255)).detach().numpy()
    assert got["final_loss"] == pytest.approx(loss.item(), rel=1e-4)
    assert got["metrics"]["accuracy"] == np.mean(logits.argmax(axis=1) == data.test_labels)


@pytest.mark.usefixtures("small")
def test_the_same_seed_gives_the_same_bits_on_any_number_of_threads(tmp_path):
    losses = []
    for number, words in enumerate((["--threads", "1"], ["--threads", "2"], ["--threads", "2"], ["--seed", "1"])):
        assert train("--json", str(tmp_path / f"{number}.json"), *words) == 0
        losses.append(results(tmp_path / f"{number}.json")["final_loss"])
    assert losses[0] == losses[1] == losses[2]
    assert losses[3] != losses[0]


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "adamw"])
@pytest.mark.usefixtures("small")
def test_every_optimizer_learns(tmp_path, optimizer):
    assert train("--json", str(tmp_path / "run.json"), "--optimizer", optimizer, "--batch-size", "32") == 0
    assert results(tmp_path / "run.json")["metrics"]["accuracy"] > 0.9


@pytest.mark.usefixtures("small")
def test_a_configuration_chooses_the_network_and_the_optimizer(tmp_path):
    (tmp_path / "run.toml").write_text("[model]\nhidden = [16]\n[train]\nepochs = 2\n[optimizer]\nbetas = [0.8, 0.9]")
    words = ["--config", str(tmp_path / "run.toml"), "--set", "optimizer.weight_decay=0.1", "--limit", "14"]
    assert main(["train", "fashion-mnist", *words, "--json", str(tmp_path / "run.json")]) == 0
    got = results(tmp_path / "run.json")
    assert (got["steps"], len(got["history"])) == (14, 1)
    assert got["config"]["optimizer"]["weight_decay"] == 0.1
    assert got["config"]["model"] == {"name": None, "hidden": [16]}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("model", ["lenet", "resnet20"])
def test_networks_for_images_fit_the_data(model):
    settings = ["model.blocks=1", "model.width=2"] if model == "resnet20" else []
    experiment = made_experiment(configured(None, [f"model.name={model}", *settings], {}))
    assert tuple(experiment.model.predict(np.zeros((2, 1, 28, 28), np.float32)).shape) == (2, 10)


def test_a_gpt_is_trained_on_a_text(tmp_path, capsys):
    (tmp_path / "text.txt").write_text("to be or not to be " * 100)
    words = ["--set", "model.tokens=8", "--set", "model.layers=1", "--set", "model.width=16", "--set", "model.heads=2"]
    assert (
        main(["train", str(tmp_path / "text.txt"), *words, "--json", str(tmp_path / "run.json"), "--epochs", "4"]) == 0
    )
    got = results(tmp_path / "run.json")
    assert got["metrics"]["perplexity"] == pytest.approx(np.exp(got["metrics"]["loss"]), rel=1e-4)
    assert got["metrics"]["perplexity"] < 8  # of 8 different characters
    assert "test perplexity" in capsys.readouterr().out


@pytest.mark.usefixtures("small")
def test_a_network_of_a_file_is_trained(tmp_path, capsys):
    file = tmp_path / "mine.py"
    file.write_text("from adjoint.nn.networks import MLP\ndef network():\n    return MLP(784, 10, (8,))\nother = 3\n")
    assert train("--model", str(file), "--limit", "3", "--json", str(tmp_path / "run.json")) == 0
    assert results(tmp_path / "run.json")["steps"] == 3
    capsys.readouterr()
    said = refusal(capsys, "train", "fashion-mnist", "--model", f"{file}:other")
    assert said == (
        f"'other' of {file} must be an nn.Module or a function that returns one, but it is int; choose another name "
        f"with {file}:NAME"
    )


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--model", "gpt"], "model gpt takes text, but fashion-mnist has images; there are mlp, lenet, resnet20"),
        (["--set", "model.hiden=[3]"], "model mlp takes no 'hiden'; did you mean hidden? (there is hidden)"),
        (["--momentum", "0.5"], "optimizer adam takes no 'momentum'; there are lr, betas, eps, weight_decay, amsgrad, "
                                "maximize"),
        (["--resume"], "--resume is about the checkpoints of a folder; pass --checkpoint DIR as well"),
        (["--batch-size", "641"], "ArrayDataset: batch_size must be at most the number of rows, 640, where incomplete "
                                  "batches are dropped, got 641; choose another"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(capsys, words, message):
    assert refusal(capsys, "train", "fashion-mnist", *words) == message


def test_a_data_set_is_named(capsys):
    assert refusal(capsys, "train").startswith("train takes a dataset, mnist, fashion-mnist, cifar-10")
    assert refusal(capsys, "train", "fashion-mist").endswith("did you mean fashion-mnist?")


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
    words = ["--optimizer", "sgd", "--lr", "1e30"]
    assert train(*words, "--check-finite") == 2
    assert "finite" in capsys.readouterr().err.splitlines()[-1]


def test_data_that_cannot_be_had_are_one_sentence(capsys, monkeypatch):
    def missing():
        raise adjoint.errors.DataError("Fashion-MNIST is nowhere")

    monkeypatch.setattr("adjoint.cli.experiment.load_dataset", lambda _: missing())
    assert refusal(capsys, "train", "fashion-mnist") == "Fashion-MNIST is nowhere"


def test_ctrl_c_ends_with_what_there_is(tmp_path):
    code = f"""
        import sys
        from adjoint.cli import experiment, main
        from tests.cli.helpers import clothes
        experiment.load_dataset = lambda _: clothes()
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
    assert 0 <= got["metrics"]["accuracy"] <= 1


def test_defaults_reach_the_accuracy_that_the_readme_promises(real, monkeypatch):
    monkeypatch.setattr("adjoint.cli.experiment.load_dataset", lambda _: real)
    experiment = made_experiment(configured(None, ["train.threads=1"], {}))  # the bits are those of any number
    run = experiment.model.fit(5, experiment.data.train, experiment.data.test)
    assert run.metrics["accuracy"] >= 0.875


@pytest.mark.usefixtures("small")
def test_a_cache_that_cannot_be_written_is_a_warning_and_no_end(capsys, monkeypatch, tmp_path):
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("ADJOINT_CACHE", str(tmp_path / "file"))
    assert train("--limit", "3") == 0
    warned = [line for line in capsys.readouterr().err.splitlines() if "warning" in line]
    assert warned
    assert all("compiled code is not kept: the cache directory" in line for line in warned)


@pytest.mark.parametrize("command", [("train", "fashion-mnist"), ("profile", "mlp")], ids=["train", "profile"])
def test_more_threads_than_there_can_be_are_refused_at_once(capsys, command):
    said = refusal(capsys, *command, "--threads", "100000")
    assert said.startswith("threads must be an integer from 1 to 1024, got 100000")
