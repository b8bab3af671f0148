"""Models of libraries train as in PyTorch: two of the models of benchmarks/from_torch.py, which has all."""

import pytest

pytest.importorskip("torch")

from benchmarks import from_torch


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["vit", "bert"])
def test_losses_and_weights_agree(name):
    pytest.importorskip(from_torch.CASES[name].package)
    assert max(from_torch.check(name)) < from_torch.TOLERANCE
