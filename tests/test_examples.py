"""The examples run and show what they say."""

import importlib.util
import re
from pathlib import Path

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


def test_every_example_is_run_here():
    assert {p.stem for p in EXAMPLES.glob("*.py")} == {"linear_regression", "fashion_mnist_mlp"}
