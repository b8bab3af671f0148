"""Optimizers of PyTorch continue as those of adjoint: settings, groups and state, there and back."""

import numpy as np
import pytest

import adjoint
from adjoint.errors import InvalidValueError, TypeRuleError

torch = pytest.importorskip("torch")

X, Y = torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), torch.ones(6, 2)
loss_function = torch.nn.MSELoss()


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Tanh(), torch.nn.Linear(4, 2))


def step(module, optimizer):
    optimizer.zero_grad()
    loss = loss_function(module(X), Y)
    loss.backward()
    optimizer.step()
    return loss.item()


def groups(module):
    return [{"params": list(module[0].parameters()), "lr": 0.05}, {"params": list(module[2].parameters())}]


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "weight_decay": 0.01}),
        ("AdamW", {"lr": torch.tensor(0.01), "betas": (0.8, 0.9), "amsgrad": True}),
        ("RMSprop", {"lr": 0.01, "centered": True, "momentum": 0.5}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1}),
        ("NAdam", {"maximize": True}),
        ("Rprop", {}),
    ],
)
def test_training_continues_here_and_there(name, settings):
    own, theirs = model(), model()
    kind = getattr(torch.optim, name)
    first, second = kind(groups(own), **settings), kind(groups(theirs), **settings)
    step(own, first), step(theirs, second)
    trainer = adjoint.from_torch(own, loss_function, first, X)
    found = [trainer.update(X, Y).item() for _ in range(2)]
    np.testing.assert_allclose(found, [step(theirs, second) for _ in range(2)], rtol=1e-5)
    assert trainer.sync() is own
    step(own, first), step(theirs, second)  # with the state that adjoint has written back
    for a, b in zip(own.parameters(), theirs.parameters(), strict=True):
        np.testing.assert_allclose(a.detach(), b.detach(), rtol=1e-5, atol=1e-6)


def test_schedules_of_pytorch_are_followed():
    own, theirs = model(), model()
    first, second = (torch.optim.SGD(groups(one), lr=0.1, momentum=0.5) for one in (own, theirs))
    trainer = adjoint.from_torch(own, loss_function, first, X)
    schedules = [torch.optim.lr_scheduler.OneCycleLR(one, [0.2, 0.3], total_steps=5) for one in (first, second)]
    for _ in range(4):
        loss = trainer.update(X, Y).item()
        assert loss == pytest.approx(step(theirs, second), rel=1e-5)
        for one in schedules:
            one.step()


def test_own_optimizers_are_bound_to_what_requires_gradients():
    module = model()
    module[0].requires_grad_(False)
    trainer = adjoint.from_torch(module, loss_function, adjoint.optim.SGD(lr=0.1), X)
    assert [list(one.shape) for one in trainer.optimizer.param_groups[0]["params"]] == [[2, 4], [2]]
    bound = adjoint.optim.SGD(trainer.network.parameters(), lr=0.1)
    assert adjoint.from_torch(module, loss_function, bound, X).optimizer is bound


@pytest.mark.parametrize(
    ("optimizer", "error", "message"),
    [
        (
            lambda m: torch.optim.LBFGS(m.parameters()),
            TypeRuleError,
            "from_torch: the optimizer must be one of adjoint.optim, or one of torch.optim that adjoint.optim has too, "
            "got a LBFGS; pass adjoint.optim.AdamW(lr=1e-3)",
        ),
        (
            lambda m: type("AdamW", (), {}),  # noqa: ARG005
            TypeRuleError,
            "from_torch: the optimizer must be one of adjoint.optim, or one of torch.optim that adjoint.optim has too, "
            "got the class AdamW; pass adjoint.optim.AdamW(lr=1e-3)",
        ),
        (
            lambda m: torch.optim.SGD(model().parameters()),  # noqa: ARG005
            InvalidValueError,
            "from_torch: the optimizer must train parameters of the module, got others in SGD; pass "
            "module.parameters() to it",
        ),
        (
            lambda m: torch.optim.SGD([{"params": m.parameters(), "clip": 3.0}], lr=0.1),
            InvalidValueError,
            "from_torch: SGD has no setting clip, which that of PyTorch has; leave it out",
        ),
    ],
)
def test_refusals(optimizer, error, message):
    module = model()
    with pytest.raises(error) as refused:
        adjoint.from_torch(module, loss_function, optimizer(module), X)
    assert refused.value.message == message
