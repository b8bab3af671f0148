"""Low-rank updates: what they compute, what is trained, and what is left when they are merged."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn
from adjoint.nn.lora import LoRALinear, add_lora, merge_lora
from tests.tensor.comparing import message


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3, bias=False))


def test_an_update_begins_with_zero_and_is_a_product_of_rank_two():
    model, x = network(), torch.randn(2, 4)
    before = model(x)
    assert add_lora(model, ["0"], rank=2, alpha=6) is model
    layer = model[0]
    assert np.array_equal(model(x).detach().numpy(), before.detach().numpy())
    with torch.no_grad():
        layer.lora_b.copy_(torch.randn(5, 2))
    a, b, w, bias = (
        t.detach().numpy().astype(np.float64) for t in (layer.lora_a, layer.lora_b, layer.weight, layer.bias)
    )
    expected = x.numpy() @ (w + 3 * b @ a).T + bias
    np.testing.assert_allclose(layer(x).detach().numpy(), expected, rtol=0, atol=1e-5)
    merged = merge_lora(model)[0]
    assert type(merged) is nn.Linear
    np.testing.assert_allclose(merged.weight.detach().numpy(), w + 3 * b @ a, rtol=0, atol=1e-5)
    assert all(parameter.requires_grad for parameter in model.parameters())


def test_only_updates_and_named_modules_are_trained():
    model = add_lora(network(), ["0"], trained=["2"])
    model(torch.randn(2, 4)).sum().backward()
    assert {name for name, p in model.named_parameters() if p.grad is not None} == {"0.lora_a", "0.lora_b", "2.weight"}


def test_dropout_is_part_of_training_only():
    layer = LoRALinear(nn.Linear(3, 3), 1, 1.0, dropout=1.0)
    layer.lora_b.data = torch.ones(3, 1)
    x = torch.ones(1, 3)
    plain = nn.functional.linear(x, layer.weight, layer.bias).detach().numpy()
    assert np.array_equal(layer(x).detach().numpy(), plain)
    assert not np.array_equal(layer.eval()(x).detach().numpy(), plain)


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: add_lora(network(), ["query"]),
            "add_lora: targets must be names of modules of Sequential, got 'query', which is none; print(network) "
            "shows them",
        ),
        (
            lambda: add_lora(network(), ["1"]),
            "add_lora: targets must be linear layers without an update, got '1', a Tanh; name others",
        ),
        (
            lambda: add_lora(network(), ["0"], rank=0),
            "LoRALinear: rank must be at least 1, got 0; pass a small number such as 8",
        ),
    ],
)
def test_refusals(call, sentence):
    assert message(call) == sentence
