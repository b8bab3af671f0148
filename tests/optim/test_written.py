"""Optimizers that are written as for PyTorch: `step` is Python code that changes tensors in place."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import nn
from adjoint.errors import AdjointError
from adjoint.tensor.explain import explain_recompiles

X = [[1.0, 2.0], [3.0, -1.0]]


class OwnAdam(torch.optim.Optimizer):
    """Adam, as tutorials write it."""

    def __init__(self, params, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self, closure=None):
        """The update."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            first, second = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["step"] = 0
                    state["exp_avg"], state["exp_avg_sq"] = torch.zeros_like(p), torch.zeros_like(p)
                state["step"] += 1
                state["exp_avg"].mul_(first).add_(p.grad, alpha=1 - first)
                state["exp_avg_sq"].mul_(second).addcmul_(p.grad, p.grad, value=1 - second)
                denominator = (state["exp_avg_sq"] / (1 - second ** state["step"])).sqrt().add_(group["eps"])
                p.addcdiv_(state["exp_avg"], denominator, value=-group["lr"] / (1 - first ** state["step"]))
        return loss


def network():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(2, 3), nn.Tanh(), nn.Linear(3, 2))


def losses(model, optimizer, steps, schedule=None):
    """The losses of some steps, and after how many of them something was compiled last."""
    x, found, last = torch.tensor(X), [], 0
    for n in range(steps):
        before = len(explain_recompiles())
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        optimizer.step()
        if schedule is not None:
            schedule.step()
        found.append(loss.item())
        last = last if len(explain_recompiles()) == before else n + 1
    return found, last


def test_it_is_the_optimizer_that_it_is_written_to_be_and_is_compiled():
    own, known = network(), network()
    first, second = OwnAdam(own.parameters(), lr=0.05), torch.optim.Adam(known.parameters(), lr=0.05)
    schedules = [torch.optim.lr_scheduler.StepLR(one, 3, 0.5) for one in (first, second)]
    found, last = losses(own, first, 8, schedules[0])
    expected, _ = losses(known, second, 8, schedules[1])
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert last <= 4  # numbers that vary become inputs, those of all parameters at once
    assert first.param_groups[0]["lr"] == second.param_groups[0]["lr"] == 0.0125
    assert isinstance(first, torch.optim.Optimizer)
    resumed = OwnAdam(own.parameters(), lr=1.0)
    resumed.load_state_dict(first.state_dict())
    assert resumed.state[own[0].weight]["step"] == 8
    assert resumed.state[own[0].weight]["exp_avg"] is not first.state[own[0].weight]["exp_avg"]
    resumed.zero_grad()
    own(torch.tensor(X)).square().sum().backward()
    resumed.step()
    losses(known, second, 1)
    np.testing.assert_allclose(own[0].weight.tolist(), known[0].weight.tolist(), rtol=1e-4)


def test_groups_closures_and_the_scaler():
    model = network()
    optimizer = OwnAdam([{"params": [model[0].weight]}, {"params": model[2].parameters(), "lr": 0.5}])
    assert [group["lr"] for group in optimizer.param_groups] == [1e-3, 0.5]
    assert len(optimizer.state) == 0
    before, expected = model[2].bias.tolist(), model(torch.tensor(X)).sum().item()

    def closure():
        optimizer.zero_grad()
        loss = model(torch.tensor(X)).sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == pytest.approx(expected)
    np.testing.assert_allclose(np.subtract(before, model[2].bias.tolist()), [0.5, 0.5], rtol=1e-5)
    assert sorted(optimizer.state_dict()["state"]) == [0, 1, 2]
    assert optimizer.state_dict()["param_groups"][1]["params"] == [1, 2]
    scaler = torch.amp.GradScaler()
    kept = model[2].bias.tolist()
    (model(torch.tensor(X)).sum() * float("inf")).backward()
    scaler.step(optimizer)
    assert model[2].bias.tolist() == kept


class WithoutStep(torch.optim.Optimizer):
    def __init__(self, params, lr=0.1):
        super().__init__(params, {"lr": lr})


class CallsBase(WithoutStep):
    def step(self, closure=None):
        """What the base class does."""
        return super().step(closure)


def refusals():
    w = torch.ones(2, requires_grad=True)
    yield (
        lambda: WithoutStep([w]),
        "WithoutStep: an optimizer whose __init__ takes params defines step(), got one without; define it, or remove "
        "params there and define update(), the update of one parameter",
    )
    yield (
        lambda: CallsBase([w]).step(),
        "CallsBase: an optimizer whose __init__ takes params has its update in step(), got a call of the base class's; "
        "change the parameters in place instead",
    )
    yield lambda: OwnAdam(0.1), "OwnAdam takes parameters first, got a float; pass model.parameters()"
    yield (
        lambda: OwnAdam([w, w]),
        "OwnAdam: a parameter can be in one group only once, got parameter 1 again; remove it",
    )
    yield (
        lambda: OwnAdam([w]).load_state_dict({"state": {}, "param_groups": [{"params": [0, 1]}]}),
        "load_state_dict: the groups must have as many parameters as those of the optimizer, 1 group of 1, got 1 group "
        "of 2; build the optimizer as it was saved",
    )


def test_refusals():
    for call, message in refusals():
        with pytest.raises(AdjointError) as error:
            call()
        assert error.value.message == message


def test_in_a_compiled_function_settings_count_and_python_state_is_refused():
    class Descent(torch.optim.Optimizer):
        def __init__(self, params, lr):
            super().__init__(params, {"lr": lr})

        @torch.no_grad()
        def step(self):
            """The update."""
            for group in self.param_groups:
                for p in group["params"]:
                    p.add_(p.grad, alpha=-group["lr"])

    def stepping(optimizer):
        @torch.jit
        def step():
            optimizer.zero_grad()
            w.sum().backward()
            optimizer.step()

        return step

    w = torch.zeros(2, requires_grad=True)
    optimizer = Descent([w], 1.0)
    step = stepping(optimizer)
    step()
    optimizer.param_groups[0]["lr"] = 2.0
    step()
    assert w.tolist() == [-3.0, -3.0]
    optimizer = OwnAdam([w])
    w.sum().backward()
    optimizer.step()
    with pytest.raises(AdjointError, match="a traced function must not change Python objects"):
        stepping(optimizer)()
