"""Whole networks: what they return, their numbers of parameters, and what a GPT writes."""

import numpy as np
import pytest

import adjoint
from adjoint.errors import InvalidValueError
from adjoint.nn.networks import GPT, GPT2, MLP, LeNet, Llama, ResNet

# ResNet-20 has 0.27 million parameters (He et al., 2015, table 6); 269,722 with three channels, no biases in
# convolutions, and identity shortcuts, to which two 1x1 convolutions and their normalization are added.
RESNET20 = 269_722 + 16 * 32 + 64 + 32 * 64 + 128


def size(network):
    return sum(tensor.numel() for tensor in network.parameters())


def test_networks_have_their_sizes():
    assert size(MLP(784, 10)) == 784 * 128 + 128 + 128 * 128 + 128 + 128 * 10 + 10
    assert size(LeNet()) == size(LeNet(1, 10, 32)) == 61_706  # LeCun et al., 1998, with full connections in C3
    assert size(ResNet()) == RESNET20
    assert size(GPT(65, 64, 2, 2, 32)) == 65 * 32 + 64 * 32 + 2 * (2 * 32 + 12 * 32 * 32) + 32


def test_networks_take_images_of_their_sizes():
    for network, channels, pixels in ((MLP(784, 10), 1, 28), (LeNet(3, 10, 32), 3, 32), (ResNet(1, blocks=1), 1, 28)):
        assert tuple(network(adjoint.zeros(2, channels, pixels, pixels)).shape) == (2, 10)


@pytest.fixture(scope="module")
def gpt():
    adjoint.manual_seed(0)
    network = GPT(11, tokens=8, layers=1, heads=2, width=16)
    with adjoint.no_grad():
        network.wte.weight.mul_(30.0)  # far from uniform
    return network


def test_a_gpt_takes_the_most_probable_token_at_temperature_zero(gpt):
    prompt = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]  # longer than a sequence
    expected = list(prompt)
    for _ in range(3):
        expected.append(int(gpt(adjoint.tensor([expected[-8:]]))[0, :, -1].argmax()))
    assert list(gpt.generate(prompt, 3, temperature=0)) == expected[10:]
    assert gpt.training


def test_a_gpt_draws_by_its_probabilities(gpt):
    logits = gpt(adjoint.tensor([[1, 2]]))[0, :, -1].detach().numpy().astype(np.float64)
    weights = np.exp(logits - logits.max())
    drawn = [next(iter(gpt.generate([1, 2], 1, temperature=1.0, seed=seed))) for seed in range(40)]
    top = set(np.argsort(weights)[-2:].tolist())
    assert {next(iter(gpt.generate([1, 2], 1, top_k=2, seed=seed))) for seed in range(10)} <= top
    assert np.mean(weights[drawn] / weights.sum()) > 0.5 * np.sum((weights / weights.sum()) ** 2)


def test_a_llama_writes_what_follows():
    adjoint.manual_seed(0)
    network = Llama(11, 64, 1, 2, 8, 8)
    with adjoint.no_grad():
        network.lm.weight.mul_(100.0)
    ids = list(range(10))
    found = list(network.generate(ids, 8, temperature=0))  # more than 16 tokens, so that another length is compiled
    logits = network(adjoint.tensor([ids + found]))[0].argmax(dim=-1).tolist()
    assert found == logits[len(ids) - 1 : -1]
    assert len(set(found)) > 1
    with pytest.raises(InvalidValueError, match=r"^GPT2\.generate: the head must be 'lm', got None; make the network"):
        GPT2(11, 8, 1, 2, 8, head=None).generate([1], 1)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MLP(0, 10), "MLP: inputs must be an integer of at least 1, got 0"),
        (lambda: LeNet(size=11), "LeNet: size must be an integer of at least 12, got 11"),
        (lambda: ResNet(blocks=0.5), "ResNet: blocks must be an integer of at least 1, got 0.5"),
        (lambda: GPT(11, heads=3, width=16), "GPT: width must be a multiple of heads, got 16 and 3"),
        (lambda: GPT(11).generate([], 1), "GPT.generate: the prompt must have at least one token, got none"),
        (lambda: GPT(11).generate([1], 1, temperature=-1), "GPT.generate: temperature must be at least 0, got -1"),
    ],
)
def test_sizes_out_of_range_are_refused(make, message):
    with pytest.raises(InvalidValueError) as raised:
        make()
    assert raised.value.message == message
