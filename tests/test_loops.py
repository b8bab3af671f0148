"""The training loops of the examples agree with PyTorch.

The first test compares with numbers that PyTorch computed once; the others need PyTorch, and compare twenty steps from
its own random weights.
"""

import numpy as np
import pytest

import adjoint
from tests.loop_numbers import NUMBERS
from tests.loops import LOOPS, SMALL, figures


@pytest.mark.parametrize("name", LOOPS)
def test_the_first_steps_are_those_of_pytorch(name):
    found = figures(LOOPS[name](adjoint, adjoint.float64, 5))
    np.testing.assert_allclose(found, NUMBERS[name], rtol=1e-8)


LARGER = {
    "char_gpt": {"LAYERS": 2, "HEADS": 2, "WIDTH": 16, "TOKENS": 12, "BATCH": 4},
    "resnet": {"BLOCKS": 2, "WIDTH": 8},
    "vae": {"HIDDEN": 50, "CODE": 5},
    "two_heads": {"WIDTH": 4},
}


@pytest.mark.parametrize("name", LOOPS)
def test_twenty_steps_agree_with_pytorch_from_the_same_weights(name, monkeypatch):
    torch = pytest.importorskip("torch")
    monkeypatch.setitem(SMALL, name, LARGER[name])
    weights = {}

    def drawn(model, *_):
        weights.update({key: tensor.clone() for key, tensor in model.state_dict().items()})
        return model

    def loaded(model, *_):
        assert str(model.load_state_dict(weights)) == "<All keys matched successfully>"
        return model

    torch.manual_seed(0)
    expected = LOOPS[name](torch, torch.float32, 20, drawn)
    found = LOOPS[name](adjoint, adjoint.float32, 20, loaded)
    np.testing.assert_allclose(found.losses, expected.losses, rtol=1e-4)
    state = found.model.state_dict()
    assert list(state) == list(expected.model.state_dict())
    for key, tensor in expected.model.state_dict().items():
        np.testing.assert_allclose(state[key].numpy(), tensor.numpy(), rtol=1e-3, atol=1e-4, err_msg=key)
    if name == "resnet":
        assert state["bn.num_batches_tracked"].item() == 20
        np.testing.assert_allclose(found.predicted, expected.predicted, rtol=1e-3, atol=1e-4)
