"""Programs that run again by straight-line code, while what is in use changes."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import InvalidValueError
from adjoint.nn.functional import embedding
from adjoint.tensor import plan
from adjoint.tensor.straight_line import StraightLine
from tests.tensor.making import leaf, plain


@pytest.fixture
def replayed(monkeypatch):
    """For each run of a program by its own code: whether nothing had changed."""
    found = []
    function = StraightLine.function

    def noted(self):
        run = function(self)
        if run.__name__ != "replay":
            return run

        def call(trace):
            found.append(run(trace))
            return found[-1]

        return call

    monkeypatch.setattr(StraightLine, "function", noted)
    return found


def test_what_is_in_use_may_change_from_run_to_run(replayed):
    w, x = leaf([1.0, 2.0]), plain([3.0, -1.0])
    optimizer = torch.optim.SGD([w], lr=0.1, momentum=0.5)
    p, b = np.array([1.0, 2.0]), np.zeros(2)
    held = []
    for n in range(24):
        optimizer.zero_grad()
        product = w * x
        loss = (product * product).sum()
        loss.backward()
        gradient = 2 * p * np.array([9.0, 1.0])
        seen = []
        if n % 8 == 5:
            seen.append((product, p * np.array([3.0, -1.0])))
        if n % 8 == 6:
            held = [(loss, np.sum((p * np.array([3.0, -1.0])) ** 2))]
        if n % 8 == 7:
            np.testing.assert_allclose(w.grad.tolist(), gradient, rtol=1e-5)
        before = (w.detach().clone(), p) if n % 8 == 3 else None
        del product
        optimizer.step()
        b = 0.5 * b + gradient
        p = p - 0.1 * b
        np.testing.assert_allclose(w.tolist(), p, rtol=1e-4, atol=1e-6)
        for tensor, value in [*seen, *held, *([before] if before else [])]:
            np.testing.assert_allclose(tensor.tolist(), value, rtol=1e-4, atol=1e-6)
    assert True in replayed
    assert False in replayed


def test_results_that_are_kept_are_not_overwritten(replayed):
    x = plain([1.0, 2.0])
    kept = []
    for n in range(8):
        result = x * float(n)
        result.elements()
        kept.append(result)
    assert [one.tolist() for one in kept] == [[float(n), 2.0 * n] for n in range(8)]
    shown = []
    for n in range(8):  # arrays are seen too, when their tensors are gone
        shown.append((x * float(n)).numpy())
    assert [array.tolist() for array in shown] == [[float(n), 2.0 * n] for n in range(8)]
    assert True in replayed


def test_a_refused_run_leaves_everything_as_it_was(replayed):
    table = leaf([[1.0], [2.0], [3.0]])
    optimizer = torch.optim.SGD([table], lr=0.5)

    def step(ids):
        optimizer.zero_grad()
        loss = embedding(torch.tensor(ids), table).sum()
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(4):
        step([0, 2]).item()
    assert replayed == [True]
    with pytest.raises(InvalidValueError, match=r"must be in \[0, 3\), got 3 at 1; correct the data"):
        step([0, 3]).item()
    assert table.tolist() == [[-1.0], [2.0], [1.0]]
    assert step([1, 1]).item() == 4.0
    assert table.tolist() == [[-1.0], [1.0], [1.0]]


def test_a_plan_that_is_forgotten_is_made_again(replayed, monkeypatch):
    x = plain([1.0, 2.0])
    for _ in range(4):
        assert (x + x).sum().item() == 6.0
    assert replayed[-1]
    monkeypatch.setattr(plan.options, "most_plans", 1)
    for _ in range(2):
        assert (x - x).sum().item() == 0.0
        assert (x * x).sum().item() == 5.0
    assert (x + x).sum().item() == 6.0
