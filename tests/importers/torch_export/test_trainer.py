"""`from_torch`: training agrees with PyTorch, and everything is written back."""

import copy
import re

import numpy as np
import pytest

import adjoint
from adjoint.errors import InvalidValueError, TypeRuleError

torch = pytest.importorskip("torch")
F = torch.nn.functional


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def pytorch_losses(module, optimizer, loss, batches):
    found = []
    for inputs, target in batches:
        optimizer.zero_grad()
        value = loss(module(*inputs), target)
        value.backward()
        optimizer.step()
        found.append(value.item())
    return found


def agree(module, theirs, rtol=1e-5):
    for (name, a), b in zip(module.state_dict().items(), theirs.state_dict().values(), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol, atol=1e-6, err_msg=name)


class Net(torch.nn.Module):
    """Convolution, normalization, tied weights, a counter, masks, and tensors that are changed in place."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(1, 2, 3, bias=False)
        self.norm = torch.nn.BatchNorm2d(2)
        self.a, self.b = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)
        self.b.weight = self.a.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))
        self.register_buffer("average", torch.zeros(2))
        self.register_buffer("mask", torch.arange(8) % 2 == 0, persistent=False)

    def forward(self, x, scale=1.0):
        self.calls += 1
        y = F.relu_(self.norm(self.conv(x)))
        if self.training:
            self.average = 0.9 * self.average + 0.1 * y.detach().mean((0, 2, 3))
        z = self.a(y.flatten(1)) * scale
        z = torch.where(self.mask, z, self.b(z))
        z[:, 1:3] = z[:, :2].clone() * 2
        z[:, 0].mul_(0.5)
        rows = torch.arange(x.shape[0])
        return torch.einsum("bi,bj->bij", z, z)[rows, rows % 8] / 10


def test_losses_weights_and_buffers_are_pytorchs_also_of_a_short_batch():
    torch.manual_seed(0)
    module = Net()
    theirs = copy.deepcopy(module)
    criterion = torch.nn.CrossEntropyLoss(weight=torch.arange(1.0, 9), label_smoothing=0.1)
    trainer = adjoint.from_torch(
        module, criterion, torch.optim.SGD(module.parameters(), lr=0.1), ((draw(4, 1, 4, 4),), {"scale": 2.0})
    )
    batches = [((draw(n, 1, 4, 4, seed=n), 2.0), torch.arange(n) % 8) for n in (4, 5, 3)]
    expected = pytorch_losses(theirs, torch.optim.SGD(theirs.parameters(), lr=0.1), criterion, batches)
    np.testing.assert_allclose([trainer.update(x, y).item() for (x, _), y in batches], expected, rtol=1e-5)
    assert list(trainer.state_dict()) == list(theirs.state_dict())
    trainer.sync()
    agree(module, theirs)
    assert (module.calls.item(), module.b.weight is module.a.weight) == (3, True)
    x = draw(4, 1, 4, 4)
    np.testing.assert_allclose(trainer.predict(x), theirs.eval()(x, 2.0).detach(), rtol=1e-5, atol=1e-6)
    assert trainer.state_dict()["average"].tolist() == pytest.approx(theirs.average.tolist(), rel=1e-5)


class Outputs(dict):
    """As transformers have it."""

    def __getattr__(self, name):
        return self[name]


torch.utils._pytree.register_pytree_node(
    Outputs,
    lambda one: (list(one.values()), list(one)),
    lambda items, names: Outputs(zip(names, items, strict=True)),
)


class Returning(torch.nn.Module):
    """Returns an object with names, with its loss if it gets labels."""

    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(3, 2)

    def forward(self, x=None, labels=None, flag=False):
        logits = self.linear(x)
        found = {} if labels is None else {"loss": F.cross_entropy(logits, labels)}
        return Outputs(**found, logits=logits, rows=x.shape[0]) if flag else (logits,)


def test_a_module_that_returns_its_loss_is_called_by_names():
    module = Returning()
    theirs = copy.deepcopy(module)
    example = {"x": draw(4, 3), "labels": torch.zeros(4, dtype=torch.int64), "flag": True}
    trainer = adjoint.from_torch(module, None, adjoint.optim.SGD(lr=0.1), example)
    batch = {"labels": torch.arange(5) % 2, "x": draw(5, 3, seed=1)}
    expected = theirs(**batch, flag=True)
    assert trainer.predict(**batch).rows == 5
    assert trainer.update(batch).item() == pytest.approx(expected.loss.item(), rel=1e-5)
    assert trainer.update(x=batch["x"], labels=batch["labels"]).item() < expected.loss.item()
    with pytest.raises(InvalidValueError) as error:
        trainer.update(draw(4, 3))
    assert error.value.message == (
        "from_torch: a batch must have the inputs x, labels, got 1 array; pass them as in example_inputs"
    )


@pytest.mark.parametrize(
    "loss", [lambda out, y: F.mse_loss(out.logits, y), adjoint.nn.MSELoss(), adjoint.nn.functional.mse_loss]
)
def test_losses_of_both_kinds(loss):
    module = Returning()
    named = not type(loss).__module__.startswith("adjoint") and loss is not adjoint.nn.functional.mse_loss
    trainer = adjoint.from_torch(
        module if named else module.linear,
        loss,
        adjoint.optim.SGD(lr=0.1),
        {"x": draw(4, 3), "flag": True} if named else draw(4, 3),
    )
    x, y = draw(4, 3), draw(4, 2, seed=2)
    assert trainer.update(x, y).item() == pytest.approx(F.mse_loss(module.linear(x), y).item(), rel=1e-5)


def test_training_over_a_loader_of_pytorch_in_epochs():
    torch.manual_seed(0)
    module = torch.nn.Sequential(torch.nn.Linear(3, 8), torch.nn.ReLU(), torch.nn.Dropout(0.1), torch.nn.Linear(8, 2))
    x = draw(50, 3)
    data = torch.utils.data.TensorDataset(x, (x[:, 0] > 0).long())
    loader = torch.utils.data.DataLoader(data, 8, shuffle=True)
    trainer = adjoint.from_torch(
        module, torch.nn.CrossEntropyLoss(), torch.optim.Adam(module.parameters(), 0.05), draw(4, 3)
    )
    run = trainer.train(loader, 4, valid_dataset=loader)
    assert run.metrics["loss"] < 0.3
    assert "%2._parameters" not in str(trainer.show())
    assert re.search(r"%\S*0\.weight: f32\[8,3\]", str(trainer.show()))
    assert "kernel" in str(trainer.profile(x[:8], data.tensors[1][:8], runs=1))
    assert trainer.load_state_dict({name: 0 * one for name, one in module.state_dict().items()}) == ([], [])
    np.testing.assert_array_equal(trainer.predict(x[:2]), np.zeros((2, 2)))


def test_arrays_of_float64_are_rounded():
    trainer = adjoint.from_torch(torch.nn.Linear(3, 2), F.mse_loss, adjoint.optim.SGD(lr=0.1), draw(4, 3))
    rounded = trainer.update(np.full((4, 3), 1 / 3), np.ones((4, 2)))
    assert rounded.dtype == np.float32


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_recurrent_layers(kind):
    module = getattr(torch.nn, kind)(2, 3, 2, batch_first=True, bidirectional=True)
    theirs = copy.deepcopy(module)

    def loss(out, factor):
        return (out[0] ** 2).mean() + (out[1][0] * factor).sum()

    trainer = adjoint.from_torch(module, loss, torch.optim.SGD(module.parameters(), lr=0.1), draw(2, 3, 2))
    batches = [((draw(2, 3, 2, seed=n),), torch.tensor(0.1)) for n in range(2)]
    expected = pytorch_losses(theirs, torch.optim.SGD(theirs.parameters(), lr=0.1), loss, batches)
    np.testing.assert_allclose([trainer.update(*x, y).item() for x, y in batches], expected, rtol=1e-5)
    trainer.sync()
    agree(module, theirs)


@pytest.mark.parametrize(
    ("module", "loss", "example", "error", "message"),
    [
        (3, None, (), TypeRuleError, "from_torch takes a torch.nn.Module, got an int; pass the module"),
        (
            torch.nn.Linear(3, 2),
            None,
            4,
            TypeRuleError,
            "from_torch: example_inputs must be a tensor of PyTorch, a tuple or a dict, got an int; pass a batch",
        ),
        (
            torch.nn.Linear(3, 2),
            None,
            (),
            InvalidValueError,
            "from_torch: example_inputs must have at least one tensor, got none; pass a batch",
        ),
        (
            torch.nn.Linear(3, 2),
            torch.nn.MSELoss,
            torch.zeros(4, 3),
            TypeRuleError,
            "from_torch: the loss must be a module of adjoint, or a module or function of PyTorch, got the class "
            "MSELoss; pass torch.nn.CrossEntropyLoss()",
        ),
    ],
)
def test_refusals(module, loss, example, error, message):
    with pytest.raises(error) as refused:
        adjoint.from_torch(module, loss, None, example)
    assert refused.value.message == message
