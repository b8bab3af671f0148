"""ONNX models as modules: that they train as in PyTorch, their names, modes, and what they refuse."""

import copy

import numpy as np
import pytest

pytest.importorskip("onnx")

import adjoint as torch
from adjoint import nn
from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError
from tests.importers.onnx.models import ROWS, convolutional, model, perceptron, weights

#: The losses, the first row of results, and the running variances of these steps in PyTorch 2.13: Conv2d(2, 4, 3,
#: padding=1, bias=False), BatchNorm2d(4), relu, max_pool2d(2) and Linear(36, 3) with the same numbers; SGD(lr=0.1,
#: momentum=0.9) on cross_entropy.
LOSSES = [0.990602, 0.94022, 0.857783, 0.806772, 0.739156, 0.650051, 0.579107, 0.499508, 0.458207, 0.474117]
FIRST = [-0.043485, -1.371263, 0.128867]
VARIANCES = [0.828244, 1.156004, 1.082361, 1.063547]


def test_a_model_trains_as_in_pytorch():
    x, y = torch.tensor(weights(5, 2, 6, 6) * 2), torch.tensor([0, 1, 2, 0, 1])
    network = torch.from_onnx(convolutional())
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9)
    losses = []
    for _ in LOSSES:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(network(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    np.testing.assert_allclose(losses, LOSSES, atol=2e-6)
    network.eval()
    np.testing.assert_allclose(network(x)[0].detach().numpy(), FIRST, atol=1e-5)
    np.testing.assert_allclose(network.bn.running_var.numpy(), VARIANCES, atol=2e-6)


def by_jit(network, optimizer):
    @torch.jit
    def step(x):
        optimizer.zero_grad()
        network(x).sum().backward()
        optimizer.step()

    return step


def by_model(network, optimizer):
    step = torch.Model(network, lambda results, _: results.sum(), optimizer).train_step
    return lambda x: step(x, x)


@pytest.mark.parametrize("door", [by_jit, by_model])
def test_other_doors_take_the_same_steps(door):
    network = torch.from_onnx(perceptron())
    x, w, b = weights(4, 3), weights(3, 2), weights(2)
    door(network, torch.optim.SGD(network.parameters(), lr=0.1))(torch.tensor(x))
    active = (x @ w + b > 0).astype(np.float32)  # the gradient of relu
    np.testing.assert_allclose(network.layer.w.detach().numpy(), w - 0.1 * x.T @ active, atol=1e-6)
    np.testing.assert_allclose(network.layer.b.detach().numpy(), b - 0.1 * active.sum(0), atol=1e-6)


def test_parameters_and_buffers_have_the_names_of_the_file():
    network = torch.from_onnx(convolutional())
    assert [name for name, _ in network.named_parameters()] == [
        *("conv.weight", "bn.weight", "bn.bias", "head.weight", "head.bias"),
    ]
    assert [name for name, _ in network.named_buffers()] == ["bn.running_mean", "bn.running_var"]
    assert network.input_names == ("x",)
    assert network.output_names == ("y",)
    assert repr(network).startswith("OnnxModule(\n  (x) -> (y), 13 nodes")


def test_names_that_attributes_cannot_have_are_changed():
    stored = {"onnx::w": weights(3), "train": weights(3), "a": weights(3), "a.b": weights(3), "c..d": weights(3)}
    nodes = [("Sum", ["x", *stored], ["y"])]
    network = torch.from_onnx(model(nodes, ROWS, ["y"], stored))
    assert sorted(network.state_dict()) == ["a", "a_.b", "c._.d", "onnx__w", "train_"]
    x = torch.zeros(1, 3)
    np.testing.assert_allclose(network(x)[0].detach().numpy(), 5 * weights(3), rtol=1e-6)


def test_batches_of_any_size_and_copies():
    network = torch.from_onnx(perceptron())
    other = copy.deepcopy(network)
    x = weights(4, 3)
    expected = np.maximum(x @ weights(3, 2) + weights(2), 0)
    np.testing.assert_allclose(network(torch.tensor(x)).detach().numpy(), expected, atol=1e-6)
    np.testing.assert_allclose(network(x=x[:2]).detach().numpy(), expected[:2], atol=1e-6)
    with torch.no_grad():
        network.layer.w.zero_()
    np.testing.assert_allclose(other(torch.tensor(x[:2])).detach().numpy(), expected[:2], atol=1e-6)


def test_dropout_drops_in_training_only():
    nodes = [("Constant", [], ["rate"], {"value_float": 0.5}), ("Dropout", ["x", "rate"], ["y"])]
    network = torch.from_onnx(model(nodes, ROWS, ["y"]))
    torch.manual_seed(0)
    x = torch.ones(100, 3)
    dropped = set(network(x).numpy().ravel().tolist())
    assert dropped == {0.0, 2.0}
    assert (network.eval()(x) == 1).all()


def test_what_is_trained_can_be_chosen():
    network = torch.from_onnx(perceptron(), trainable=["layer.b"])
    assert [name for name, _ in network.named_parameters()] == ["layer.b"]
    assert [name for name, _ in network.named_buffers()] == ["layer.w"]
    with pytest.raises(NameLookupError) as error:
        torch.from_onnx(perceptron(), trainable=["b"])
    assert error.value.message == (
        "from_onnx: trainable must name float initializers, got 'b'; there are layer.w, layer.b"
    )


@pytest.mark.parametrize(
    ("x", "kind", "message"),
    [
        ([1.0], TypeRuleError, "the input 'x' must be a tensor, got a list; convert it with adjoint.tensor"),
        (
            np.zeros((2, 3), np.int64),
            TypeRuleError,
            "the input 'x' must be f32, got i64; convert it with to('f32')",
        ),
        (
            np.zeros((2, 4), np.float32),
            InvalidValueError,
            "the input 'x' must have the shape [n, 3], got [2, 4]; export the model with dynamic axes for other sizes",
        ),
    ],
)
def test_inputs_must_fit(x, kind, message):
    with pytest.raises(kind) as error:
        torch.from_onnx(perceptron())(x)
    assert error.value.message == message


def test_inputs_are_passed_once():
    network = torch.from_onnx(perceptron())
    x = torch.zeros(2, 3)
    for args, named in (((x, x), {}), ((), {}), ((x,), {"x": x}), ((), {"z": x})):
        with pytest.raises(TypeRuleError, match=r"^net: the inputs must be x, got .* by name; pass each once"):
            network(*args, **named)


def test_sizes_of_the_same_name_are_equal():
    given = {"x": (1, ["n", 3]), "z": (1, ["n", 3])}
    network = torch.from_onnx(model([("Add", ["x", "z"], ["y"])], given, ["y"]))
    with pytest.raises(InvalidValueError, match=r"the input 'z' must have the shape \[n, 3\], got \[1, 3\]"):
        network(torch.zeros(2, 3), torch.zeros(1, 3))
