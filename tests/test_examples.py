"""The examples run and show what they say."""

import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

from tests.conftest import OWN_CACHE

EXAMPLES = Path(__file__).parent.parent / "examples"


def load(name):
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_linear_regression_finds_the_weights(capsys):
    load("linear_regression").main()
    out = capsys.readouterr().out.splitlines()
    assert out[-1] == "weights [2. 3.]"
    assert out[0].startswith("step   0  loss ")


def test_fashion_mnist_learns_in_one_epoch(real, capsys, monkeypatch):
    example = load("fashion_mnist_mlp")
    example.EPOCHS = 1
    monkeypatch.setattr(example.data, "fashion_mnist", lambda: real)
    example.main()
    (accuracy,) = re.findall(r"epoch 1  loss [\d.]+  test accuracy ([\d.]+)%", capsys.readouterr().out)
    assert float(accuracy) > 80


def test_the_cnn_learns_and_predicts_the_same_in_another_process(real, tmp_path):  # noqa: ARG001
    def printed(*words):
        environment = dict(os.environ)  # with a cache for the tests, where the data are not
        if (OWN_CACHE / "fashion-mnist").is_dir():
            environment.setdefault("ADJOINT_DATA", str(OWN_CACHE / "fashion-mnist"))
        command = [sys.executable, EXAMPLES / "fashion_mnist_cnn.py", *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True, timeout=100
        ).stdout.splitlines()

    assert len((EXAMPLES / "fashion_mnist_cnn.py").read_text().splitlines()) <= 40
    *epochs, trained = printed()
    assert len(epochs) == 2
    (accuracy,) = re.findall(r"test accuracy ([\d.]+)%  mean score -?[\d.]+", trained)
    assert float(accuracy) >= 88
    assert printed("predict") == [trained]


def test_every_example_is_run_here():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == {"linear_regression", "fashion_mnist_cnn", "fashion_mnist_mlp"}
