"""The examples run and show what they say."""

import ast
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np

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


def test_linear_regression_with_tensors_prints_the_losses_of_the_tutorial(capsys):
    load("linear_regression_tensors").main()
    *lines, weights = capsys.readouterr().out.splitlines()
    printed = {int(step): float(loss) for step, loss in (re.findall(r" (\d\S*)", line) for line in lines)}
    expected = {1: 200.0, 2: 58.80001, 3: 19.011995, 50: 0.00345116, 100: 1.9658e-06}  # OneFlow's own figures
    assert printed.keys() == expected.keys()
    np.testing.assert_allclose(list(printed.values()), list(expected.values()), rtol=3e-5)
    np.testing.assert_allclose(ast.literal_eval(weights.removeprefix("weights ")), [2.0, 3.0], atol=1e-6)


def small(name, monkeypatch, **settings):
    """An example with other settings, whose images are few: dark ones of class 0, and bright ones of class 1."""
    module = load(name)
    for key, value in settings.items():
        assert hasattr(module, key)
        setattr(module, key, value)
    labels = np.arange(400, dtype=np.uint8) % 2
    images = (np.random.default_rng(0).random((400, 28, 28)) * 100 + 100 * labels[:, None, None]).astype(np.uint8)
    clothes = SimpleNamespace(train_images=images, train_labels=labels, test_images=images, test_labels=labels)
    monkeypatch.setattr(module, "fashion_mnist", lambda: clothes, raising=False)
    return module


def losses(out, name="loss"):
    return [float(loss) for loss in re.findall(rf"{name} ([\d.]+)", out)]


def test_the_gpt_learns_and_writes(monkeypatch, capsys):
    example = small("char_gpt", monkeypatch, LAYERS=1, HEADS=2, WIDTH=16, TOKENS=8, BATCH=16, STEPS=60, LETTERS=20)
    monkeypatch.setattr(example, "RATE", 1e-2)
    monkeypatch.setattr(example, "topics", {"words": "the cat sat on the mat. " * 20})
    example.main()
    *lines, written = capsys.readouterr().out.splitlines()
    first, *_, last = losses("\n".join(lines))
    assert last < 0.6 * first
    assert len(written) == 20
    assert set(written) <= set("the cat sat on the mat. ")


def test_the_resnet_learns(monkeypatch, capsys):
    small("resnet", monkeypatch, BLOCKS=1, WIDTH=2, BATCH=40, STEPS=6).main()
    out = capsys.readouterr().out
    first, *_, last = losses(out)
    assert last < 0.5 * first
    assert re.search(r"test accuracy [\d.]+%$", out)


def test_the_autoencoder_learns(monkeypatch, capsys):
    small("vae", monkeypatch, HIDDEN=16, CODE=4, BATCH=40, EPOCHS=3, RATE=1e-2).main()
    first, *_, last = losses(capsys.readouterr().out, "loss per image")
    assert last < first


def test_both_heads_learn(monkeypatch, capsys):
    small("two_heads", monkeypatch, WIDTH=4, BATCH=20, STEPS=18).main()
    out = capsys.readouterr().out
    for name in ("class", "brightness"):
        first, *_, last = losses(out, name)
        assert last < 0.8 * first


def test_the_pytorch_examples_differ_from_pytorch_in_their_imports_only():
    for name in ("char_gpt", "resnet", "vae", "two_heads"):
        source = (EXAMPLES / f"{name}.py").read_text()
        assert len(source.splitlines()) < 130
        allowed = {"import adjoint as torch", "import adjoint.nn.functional as F", "from adjoint import nn"}
        data = {"from adjoint.data import fashion_mnist"}
        lines = {line for line in source.splitlines() if "adjoint" in line}
        assert allowed <= lines <= allowed | data


def test_every_example_is_run_here():
    tests = [
        *Path(__file__).parent.glob("test_*examples.py"),
        Path(__file__).parent / "importers/torch_export/test_page.py",
    ]
    source = "".join(path.read_text() for path in tests)
    assert [p.stem for p in EXAMPLES.glob("*.py") if source.count(f'"{p.stem}') == 0] == []
