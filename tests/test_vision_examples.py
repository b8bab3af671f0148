"""The examples with images train as PyTorch trains them, and their `main` runs."""

import re

import numpy as np
import pytest

import adjoint
from benchmarks.model_zoo.entry import EXAMPLES
from tests.test_examples import losses, small
from tests.vision_cases import CASES, first_losses

#: Losses of PyTorch 2.13 on one thread: ``first_losses(name, torch)``, where `torch` is PyTorch.
PYTORCH = {
    "lenet": [2.49507, 2.39718, 2.353168],
    "resnet18": [2.353709, 2.278658, 2.285063],
    "mobilenetv2": [2.297606, 2.32787, 2.330943],
    "unet": [0.6923814, 0.6928445, 0.6922776],
    "vit": [2.415826, 2.3187, 2.193757],
    "dcgan": [2.180005, 2.154420, 2.157156],
}


@pytest.mark.parametrize("name", CASES)
def test_the_first_losses_are_pytorchs(name):
    np.testing.assert_allclose(first_losses(name, adjoint), PYTORCH[name], rtol=2e-6)


def test_lenet_learns(monkeypatch, capsys):
    small("lenet", monkeypatch, BATCH=40, EPOCHS=2).main()
    lines = capsys.readouterr().out.splitlines()
    first, last = losses("\n".join(lines))
    assert last < first
    assert re.search(r"test accuracy [\d.]+%$", lines[-1])


def test_the_pytorch_examples_with_images_differ_from_pytorch_in_their_imports_only():
    for name in ("lenet", "resnet18", "mobilenetv2", "unet", "vit", "dcgan"):
        source = (EXAMPLES / f"{name}.py").read_text()
        assert len(source.splitlines()) < 130
        allowed = {"import adjoint as torch", "import adjoint.nn.functional as F", "from adjoint import nn"}
        data = {"from adjoint.data import fashion_mnist"}
        lines = {line for line in source.splitlines() if "adjoint" in line}
        assert allowed <= lines <= allowed | data
