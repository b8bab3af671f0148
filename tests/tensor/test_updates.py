"""Updates by optimizers, recorded, against the same updates in float64."""

import numpy as np

import adjoint as torch
from adjoint import ops, optim
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.record import operation
from adjoint.tensor.step_entry import Update
from adjoint.tensor.tensor import from_array
from adjoint.tensor.updates import clear_gradients, record_step
from tests.tensor.making import compilations, leaf, plain


def states_of(optimizer, params):
    types = {f"p{n}": p._spec.type for n, p in enumerate(params)}
    states = [from_array(spec.array()) for spec in optimizer.init(types)]
    return states, [from_array(spec.array()) for spec in optimizer.hyper(types)]


def test_momentum_over_several_steps():
    momentum = optim.SGD(0.1, momentum=0.9)
    w = leaf([1.0, 2.0])
    states, hypers = states_of(momentum, [w])
    p, b = np.array([1.0, 2.0]), np.zeros(2)
    with compilations() as compiled:
        for _ in range(5):
            w.grad = None
            (w @ w).backward()
            record_step(Update(momentum, [w], states, hypers), [w.grad])
            b = 0.9 * b + 2 * p
            p = p - 0.1 * b
        np.testing.assert_allclose(w.tolist(), p, rtol=1e-5)
        np.testing.assert_allclose(states[0].tolist(), b, rtol=1e-5)
        assert compiled() <= 2


def test_two_parameters_and_a_rate_that_changes():
    sgd = optim.SGD(0.5)
    w, v = leaf([1.0, 2.0]), leaf([3.0])
    for lr in (0.5, 0.25, 0.125):
        w.grad = v.grad = None
        ((w @ w) * v).backward()
        before = np.array(w.tolist()), np.array(v.tolist())
        record_step(Update(sgd, [w, v], [], [plain(lr)]), [w.grad, v.grad])
        np.testing.assert_allclose(w.tolist(), before[0] - lr * 2 * before[0] * before[1], rtol=1e-6)
        np.testing.assert_allclose(v.tolist(), before[1] - lr * before[0] @ before[0], rtol=1e-6)


def test_gradients_are_computed_after_the_step_only_if_they_are_read():
    momentum = optim.SGD(0.1, momentum=0.9)
    w, x = leaf([1.0, 2.0]), plain([3.0, 4.0])
    states, hypers = states_of(momentum, [w])
    p, b = np.array([1.0, 2.0]), np.zeros(2)

    def step(read):
        nonlocal p, b
        w.grad = None
        loss = (w * x) @ w
        loss.backward()
        record_step(Update(momentum, [w], states, hypers), [w.grad])
        np.testing.assert_allclose(loss.item(), (p * [3, 4]) @ p, rtol=1e-5)
        gradient = 2 * p * [3, 4]
        b = 0.9 * b + gradient
        p = p - 0.1 * b
        np.testing.assert_allclose(w.tolist(), p, rtol=1e-5)
        if read:
            np.testing.assert_allclose(w.grad.tolist(), gradient, rtol=1e-5)

    with compilations() as compiled:
        for _ in range(4):
            step(read=False)
        assert compiled() == 1
        step(read=True)
        assert compiled() == 2  # the gradient from the old parameters
        for _ in range(3):
            step(read=True)
        assert compiled() == 3  # with the gradient at once
    storages = {id(w.elements())}
    for _ in range(6):
        step(read=False)
        storages.add(id(w.elements()))
    assert len(storages) <= 3


def test_gradients_that_are_read_or_changed_before_the_update():
    sgd = optim.SGD(1.0)
    w, lr = leaf([1.0, 2.0]), plain(1.0)
    (w @ w).backward()
    assert w.grad.tolist() == [2.0, 4.0]
    w.grad *= 0.25
    record_step(Update(sgd, [w], [], [lr]), [w.grad])
    assert w.tolist() == [0.5, 1.0]


@operation
def dropped(x, key, draws):
    return ops.dropout(x, ops.random.fold_in(key, draws), 0.5)


def test_the_loss_may_be_read_between_the_backward_pass_and_the_update():
    sgd = optim.SGD(0.1)
    w, x = leaf(np.ones((3, 2))), plain([[1.0, 2.0, 3.0]])
    p = np.ones((3, 2))
    with compilations() as compiled:
        for _ in range(5):
            w.grad = None
            h = x @ w
            loss = (h * h) @ plain([1.0, 1.0])
            loss.backward()
            row = np.array([[1.0, 2.0, 3.0]]) @ p
            np.testing.assert_allclose(loss.tolist(), (row * row).sum(1), rtol=1e-5)
            record_step(Update(sgd, [w], [], [plain(0.01)]), [w.grad])
            p = p - 0.01 * 2 * np.array([[1.0], [2.0], [3.0]]) @ row
            np.testing.assert_allclose(w.tolist(), p, rtol=1e-5)
        # The forward pass, and the rest; each again with the row that the first keeps for the second.
        assert compiled() == 4


def test_what_is_computed_later_is_of_the_same_random_numbers():
    w, key, draws = leaf(np.ones(64)), plain([1, 2], np.uint32), plain(0, np.int64)
    for _ in range(3):
        w.grad = None
        h = dropped(w * 3.0, key, draws)
        draws += 1  # rebound in its own memory, as the state of a generator
        loss = h @ h
        loss.backward()
        value = loss.item()
        gradient = np.array(w.grad.tolist())
        assert value == float(
            (gradient**2).sum() / 144
        )  # d/dw (6 w)^2 = 72 w where it is kept, which is 36 of the loss
    assert draws.item() == 3


def test_gradients_that_are_zeroed_in_place_are_accumulated_again():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    kept = w.detach()
    for _ in range(4):
        (w * w).sum().backward()
        with torch.no_grad():
            w -= 0.25 * w.grad
        w.grad.zero_()
    assert w.tolist() == kept.tolist() == [0.5**4, 2 * 0.5**4]
    assert w.grad.tolist() == [0, 0]


def test_two_losses_and_two_optimizers_are_one_program():
    sgd = optim.SGD(0.1)
    w, v, x = leaf([1.0, 2.0]), leaf([0.5, -1.0]), plain([3.0, 4.0])
    rate = plain(0.01)
    p, q = np.array([1.0, 2.0]), np.array([0.5, -1.0])
    with compilations() as compiled:
        for _ in range(4):
            h = w * x
            first = h @ h
            w.grad = None
            first.backward()
            record_step(Update(sgd, [w], [], [rate]), [w.grad])
            target = x * 0.5  # belongs to no program yet
            second = (v - target) @ (v * 1.0)
            v.grad = None
            second.backward()
            record_step(Update(sgd, [v], [], [rate]), [v.grad])
            np.testing.assert_allclose(first.item(), ((p * [3, 4]) ** 2).sum(), rtol=1e-5)
            np.testing.assert_allclose(second.item(), (q - [1.5, 2.0]) @ q, rtol=1e-5)
            p = p - 0.01 * 2 * p * np.array([9, 16])
            q = q - 0.01 * (2 * q - [1.5, 2.0])
            np.testing.assert_allclose(w.tolist(), p, rtol=1e-5)
            np.testing.assert_allclose(v.tolist(), q, rtol=1e-5)
        assert compiled() <= 2


def test_a_metric_of_results_and_of_new_tensors_joins_the_program_of_the_step():
    sgd = optim.SGD(0.1)
    w, rate, total = leaf([1.0, 2.0]), plain(0.25), plain(0.0)
    with compilations() as compiled:
        for _ in range(4):
            x = plain([3.0, 4.0])
            out = w * x
            w.grad = None
            (out @ w).backward()
            record_step(Update(sgd, [w], [], [rate]), [w.grad])
            with no_grad():
                scaled = x * 2.0
                total += out @ scaled
        assert total.item() > 0
        assert compiled() <= 3


def test_zero_grad_is_seen_where_a_gradient_is_held_and_costs_nothing_otherwise():
    w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    sgd = optim.SGD([w], lr=0.25)
    for _ in range(2):
        (w * w).sum().backward()
        held, part = w.grad, w.grad[1:]
        sgd.step()
        assert w.sum().item() in (1.5, 0.75)  # the gradient itself has not been computed
        sgd.zero_grad(set_to_none=False)
        assert held is w.grad
        assert (held.tolist(), part.tolist()) == ([0, 0], [0])
    del held, part
    before = [w.grad]
    for _ in range(3):
        del before[:]
        (w * w).sum().backward()
        before.append(id(w.grad))
        clear_gradients([w], set_to_none=False)
        assert id(w.grad) not in before  # zeros have taken its place
        assert w.grad._storage is not None


def test_steps_that_repeat_and_steps_that_differ():
    """The entry of a step is recorded by its own code, until the program or the tensors change."""
    momentum = optim.SGD(0.1, momentum=0.9)
    w = leaf([1.0, 2.0])
    states, hypers = states_of(momentum, [w])
    update = Update(momentum, [w], states, hypers)
    p, b = np.array([1.0, 2.0]), np.zeros(2)
    for n in range(20):
        w.grad = None
        x = np.array([3.0, -1.0]) if n % 5 else np.array([0.5])  # now and then, another program
        loss = (w * plain(x)) @ w
        loss.backward()
        gradient = 2 * x * p
        if n == 8:  # the state has been used, and changed
            states[0].mul_(0.5)
            b = 0.5 * b
        if n == 11:  # another rate, in the same tensor
            hypers[0].fill_(0.05)
        if n == 14:  # the thread has begun with something else
            other = w.detach() * 2.0
        record_step(update, [w.grad])
        b = 0.9 * b + gradient
        p = p - (0.1 if n < 11 else 0.05) * b
        if n == 14:
            assert other is not None
        if n % 7 == 6:
            np.testing.assert_allclose(w.tolist(), p, rtol=1e-4)
            np.testing.assert_allclose(states[0].tolist(), b, rtol=1e-4)
    assert update.repeat is not None
    np.testing.assert_allclose(w.tolist(), p, rtol=1e-4)
