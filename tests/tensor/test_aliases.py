"""Views share elements with their base, as in PyTorch, whichever of them is changed."""

import gc

import numpy as np

import adjoint as torch
from adjoint import optim
from adjoint.tensor.trace import state
from tests.tensor.comparing import check, message

X = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], np.float32)


def test_changes_of_a_view_reach_base_and_other_views():
    x = torch.tensor(X)
    row, flat, columns = x[0], x.view(-1), x.T[1:]
    row[1] = 9
    row += 1
    columns[0, 1] = 0
    flat[-1].zero_()
    wanted = np.array([[2, 10, 4], [4, 0, 0]])
    check((x, wanted), (row, wanted[0]), (flat, wanted.ravel()), (columns, wanted.T[1:]))


def test_changes_of_the_base_reach_views_taken_before():
    x = torch.tensor(X)
    views = [x[:, 1], x.T, x.view(3, 2), x.detach(), x[None], x[0].expand(2, 3)]
    x.mul_(2)
    x[0, 0] = 7
    w = X * 2
    w[0, 0] = 7
    check(*zip(views, [w[:, 1], w.T, w.reshape(3, 2), w, w[None], np.tile(w[0], (2, 1))], strict=True))


def test_copies_are_independent():
    x = torch.tensor(X)
    copies = [x.clone(), x.T.reshape(-1), x.T.contiguous(), x + 0, x[[0, 1]]]
    assert x.contiguous() is x
    x.zero_()
    copies[1].add_(1)
    check(*zip(copies, [X, X.T.ravel() + 1, X.T, X, X], strict=True))


def test_views_of_a_base_that_is_gone():
    def parts():
        return (torch.tensor(X) * 2).chunk(2)

    first, second = parts()
    first.zero_()  # the base is pending, so it is recorded once more
    check((first, np.zeros((1, 3))), (second, X[1:] * 2))
    done = torch.tensor(X)
    row, other = done[0], done.view(-1)
    row.tolist(), other.tolist()  # the program that makes them would keep the base
    del done
    gc.collect()
    assert message(lambda: row.add_(1)) == (
        "add: a view of a tensor that is not in use any more cannot be changed in place while other views of it are, "
        "got f32[3]; keep the tensor, or clone() the view"
    )
    del other
    row.add_(1)
    assert row.tolist() == [2, 3, 4]


def test_a_view_takes_the_place_of_a_base_that_is_gone():
    x = torch.arange(12.0).view(3, 4)
    columns = torch.arange(6.0).view(2, 3).t()
    assert x.sum().item() == 66  # the bases have been computed, and dropped
    assert columns.sum().item() == 15
    row, flat = x[0], x.view(-1)
    row += 1
    x[0][1] = 77
    flat[-1] = -5
    x.T[0, 1] = 42
    wanted = np.array([[1, 77, 3, 4], [42, 5, 6, 7], [8, 9, 10, -5]])
    column = columns[0]
    column += 10
    copied = columns.reshape(-1)  # the strides are those of a transposed tensor, so this is a copy
    copied.zero_()
    check((x, wanted), (row, wanted[0]), (flat, wanted.ravel()), (columns, [[10, 13], [1, 4], [2, 5]]))


def test_setting_data_leaves_those_that_share_the_elements_as_they_are():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    backup = w.data  # as averages of weights are swapped in and out
    w.data = torch.tensor([5.0, 6.0])
    first = w.tolist()
    backup.mul_(2)
    row = w[:1].detach()
    w.data = backup
    w.data.add_(1)
    assert first == [5, 6]
    assert (w.tolist(), backup.tolist(), row.tolist()) == ([3, 5], [2, 4], [5])
    part = w.detach()[0]
    part.data = torch.tensor(9.0)
    assert w.tolist() == [3, 5]


def test_loading_a_state_reaches_those_that_share_the_elements():
    layer = torch.nn.Linear(2, 1)
    state = layer.state_dict()
    layer.load_state_dict({"weight": torch.ones(1, 2), "bias": torch.zeros(1)})
    assert state["weight"].tolist() == [[1, 1]]


def test_aliases_of_parameters():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    kept = w.detach()
    w.data.add_(1)
    w.data *= 2
    kept[0] = 5
    (w * w).sum().backward()
    assert w.grad.tolist() == [10, 12]
    assert w.is_leaf
    sgd = optim.SGD([w], lr=0.5)
    sgd.step()
    assert kept.tolist() == w.tolist() == [0, 0]
    w.data = torch.tensor([3.0, 4.0])
    assert (w.tolist(), kept.tolist()) == ([3, 4], [0, 0])
    with torch.no_grad():
        w.view(-1)[1] = 8
    assert w.tolist() == [3, 8]


def test_gradients_flow_through_changed_views():
    w = torch.tensor(X, requires_grad=True)
    y = w * 1
    y.T[0].mul_(w[:, 1])
    (y * y).sum().backward()
    wanted = 2 * X
    wanted[:, 0] = 2 * X[:, 0] * X[:, 1] ** 2
    wanted[:, 1] += 2 * X[:, 0] ** 2 * X[:, 1]
    check((w.grad, wanted))


def test_many_views_of_a_lasting_tensor_are_not_kept():
    x = torch.tensor(X)
    for _ in range(100):
        x.T.tolist()
    assert len(x._alias.group.views) < 40


def test_views_that_are_not_in_use_are_not_updated():
    x = torch.zeros(40)
    for n in range(1, 40):
        x[n] = x[n - 1] + 1
    assert state.trace.node.depth < 400
    assert x.tolist() == list(range(40))


def test_refusals():
    w = torch.tensor(X, requires_grad=True)
    y = w * 2
    assert message(lambda: w[0].add_(1)) == (
        "add: a view of a leaf that requires a gradient cannot be changed in place, got a view of f32[2,3]; do it "
        "within no_grad(), or compute a new tensor"
    )
    assert message(lambda: y.detach().add_(1)) == (
        "add: a detached view of a result that requires a gradient cannot be changed in place, got a view of f32[2,3]; "
        "clone() it first"
    )
    assert message(lambda: torch.ones(1).expand(3).add_(1)) == (
        "add: an expanded tensor cannot be changed in place, because several of its elements are one, got f32[3]; "
        "clone() it first"
    )


def test_data_of_earlier_iterations_does_not_follow_a_weight_while_a_history_is_kept():
    w = torch.ones(3, requires_grad=True)
    histories, counts = [], []
    for _ in range(5):
        loss = torch.tanh(w).square().sum()
        histories.append((w * 2).sum())  # keeps the trace of its iteration, and so what has entered that
        w.grad = None
        loss.backward()
        w.data.add_(w.grad, alpha=-0.1)
        loss.item()
        counts.append(len(w._alias.group.alive(w)))
    assert counts == [0] * 5
    np.testing.assert_allclose([h.item() for h in histories], [6.0, 5.61618, 5.209469, 4.781341, 4.335193], rtol=1e-5)
