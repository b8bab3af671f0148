"""Updates computed when the loss is read before ``step()``, against the same loops in float64."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.tensor import speculation
from adjoint.tensor.speculation import Speculation
from tests.tensor.making import compilations, leaf, plain

X = np.array([[1.0, 2.0], [2.0, 3.0], [4.0, 6.0], [3.0, 1.0]])
Y = np.array([8.0, 13.0, 26.0, 9.0])


@pytest.fixture
def delivered(monkeypatch):
    """For each step that found results waiting: whether it took them."""
    found = []
    deliver = Speculation.deliver

    def counted(self, trace, update, grads):
        found.append(deliver(self, trace, update, grads))
        return found[-1]

    monkeypatch.setattr(Speculation, "deliver", counted)
    return found


class Reference:
    """Linear regression with momentum in float64."""

    def __init__(self, lr=0.01, momentum=0.9):
        self.w, self.b, self.lr, self.momentum = np.zeros(2), None, lr, momentum

    def grad(self):
        return 2 * X.T @ (X @ self.w - Y)

    def loss(self):
        return float(np.sum((X @ self.w - Y) ** 2))

    def step(self, grad=None):
        grad = self.grad() if grad is None else grad
        self.b = grad if self.b is None else self.momentum * self.b + grad
        self.w = self.w - self.lr * self.b


class Loop:
    """The same with tensors; `read` is the part of an iteration before the step."""

    def __init__(self, lr=0.01, momentum=0.9):
        self.w = leaf([0.0, 0.0])
        self.x, self.y = plain(X.astype(np.float32)), plain(Y.astype(np.float32))
        self.optimizer = torch.optim.SGD([self.w], lr=lr, momentum=momentum)

    def loss(self):
        return ((self.x @ self.w - self.y) ** 2).sum()

    def read(self):
        self.optimizer.zero_grad()
        loss = self.loss()
        loss.backward()
        return loss.item()

    def train(self, steps, reference):
        for _ in range(steps):
            np.testing.assert_allclose(self.read(), reference.loss(), rtol=1e-4)
            self.optimizer.step()
            reference.step()

    def check(self, reference):
        np.testing.assert_allclose(self.w.tolist(), reference.w, rtol=1e-4)


def test_the_step_is_computed_when_the_loss_is_read(delivered):
    loop, reference = Loop(0.005), Reference(0.005)
    loop.train(3, reference)
    with compilations() as compiled:
        loop.train(9, reference)
        assert compiled() == 0
    loop.check(reference)
    assert delivered[-9:] == [True] * 9
    np.testing.assert_allclose(loop.optimizer.state[loop.w]["momentum_buffer"].tolist(), reference.b, rtol=1e-4)


def test_what_happens_between_the_read_and_the_step_counts(delivered):
    def other_rate(loop, reference):
        loop.optimizer.param_groups[0]["lr"] = reference.lr = 0.002
        return

    def other_gradient(loop, reference):
        loop.w.grad.mul_(0.5)
        return 0.5 * reference.grad()

    def other_parameter(loop, reference):
        grad = reference.grad()
        with torch.no_grad():
            loop.w.add_(1.0)
        reference.w = reference.w + 1.0
        return grad

    def other_state(loop, reference):
        loop.optimizer.state[loop.w]["momentum_buffer"].zero_()
        reference.b = np.zeros(2)
        return

    def clipped(loop, reference):
        torch.nn.utils.clip_grad_norm_([loop.w], 1.0)
        return reference.grad() / np.linalg.norm(reference.grad())

    for between in (other_rate, other_gradient, other_parameter, other_state, clipped):
        loop, reference = Loop(0.005), Reference(0.005)
        loop.train(4, reference)
        loop.read()
        assert loop.w.tolist() == pytest.approx(reference.w, rel=1e-4)  # the old values, until step() is called
        grad = between(loop, reference)
        loop.optimizer.step()
        reference.step(grad)
        loop.check(reference)
        loop.train(2, reference)
        loop.check(reference)
    assert False in delivered


def test_without_a_step_nothing_has_changed(delivered):
    loop, reference = Loop(0.005), Reference(0.005)
    loop.train(4, reference)
    for _ in range(8):
        assert loop.read() == pytest.approx(reference.loss(), rel=1e-4)
        np.testing.assert_allclose(loop.w.grad.tolist(), reference.grad(), rtol=1e-4)
    loop.check(reference)
    before = len(delivered)
    loop.train(2, reference)
    loop.check(reference)
    assert delivered[before:] == []  # computed in vain too often


def test_gradients_read_after_the_step(delivered):
    loop, reference = Loop(0.005), Reference(0.005)
    loop.train(4, reference)
    loop.read()
    grad = reference.grad()
    loop.optimizer.step()
    assert delivered[-1]
    np.testing.assert_allclose(loop.w.grad.tolist(), grad, rtol=1e-4)


def test_accumulated_gradients():
    loop, reference = Loop(0.002), Reference(0.002)
    for _ in range(5):
        loop.optimizer.zero_grad()
        for _ in range(3):
            loss = loop.loss()
            loss.backward()
            assert loss.item() == pytest.approx(reference.loss(), rel=1e-4)
        loop.optimizer.step()
        reference.step(3 * reference.grad())
        loop.check(reference)


def test_views_of_parameters(delivered):
    loop, reference = Loop(0.005), Reference(0.005)
    seen = loop.w.detach()
    for _ in range(5):
        loop.train(1, reference)
        np.testing.assert_allclose(seen.tolist(), reference.w, rtol=1e-4)
    assert delivered[-2:] == [True, True]


def test_groups(delivered):
    w, v = leaf([0.5, 0.5]), leaf([1.0])
    optimizer = torch.optim.SGD([{"params": [w]}, {"params": [v], "lr": 0.02}], lr=0.01)
    p, q = np.array([0.5, 0.5]), 1.0
    for _ in range(5):
        optimizer.zero_grad()
        loss = ((w * v) ** 2).sum()
        loss.backward()
        assert loss.item() == pytest.approx(np.sum((p * q) ** 2), rel=1e-5)
        optimizer.step()
        p, q = p - 0.01 * 2 * p * q * q, q - 0.02 * 2 * q * np.sum(p * p)
        np.testing.assert_allclose(w.tolist(), p, rtol=1e-5)
        assert v.item() == pytest.approx(q, rel=1e-5)
    assert delivered[-2:] == [True, True]


def test_large_parameters_are_not_held_twice(delivered, monkeypatch):
    monkeypatch.setattr(speculation, "MOST_BYTES", 8)
    loop, reference = Loop(0.005), Reference(0.005)
    loop.train(6, reference)
    loop.check(reference)
    assert delivered == []


def test_an_optimizer_that_is_gone():
    loop, reference = Loop(0.005, 0.0), Reference(0.005, 0.0)
    loop.train(4, reference)
    loop.optimizer = torch.optim.SGD([loop.w], lr=0.01)
    reference.lr = 0.01
    loop.train(3, reference)
    loop.check(reference)


@pytest.mark.parametrize("read", [False, True])
@pytest.mark.parametrize("before", [0, 4])
def test_numpy_may_change_a_parameter_between_the_backward_pass_and_the_step(read, before):
    loop, reference = Loop(0.005), Reference(0.005)
    loop.train(before, reference)
    loop.optimizer.zero_grad()
    loss = loop.loss()
    loss.backward()
    if read:
        loss.item()
    grad = reference.grad()
    loop.w.detach().numpy()[:] = 10.0
    loop.optimizer.step()
    reference.w = np.full(2, 10.0)
    reference.step(grad)
    loop.check(reference)
    np.testing.assert_allclose(loop.w.grad.tolist(), grad, rtol=1e-4)
