"""Memory and failures of compiled programs."""

import gc
import weakref

import numpy as np
import pytest

from adjoint import ops, optim
from adjoint.compiler import CompileOptions
from adjoint.errors import InvalidValueError
from adjoint.tensor import plan
from adjoint.tensor.record import operation
from adjoint.tensor.step_entry import Update
from adjoint.tensor.updates import record_step
from tests.tensor.making import compilations, leaf, plain

W = np.array([1.0, 2.0], np.float32)
sgd = optim.SGD(0.5)


def step(w, lr):
    w.grad = None
    loss = w @ w
    loss.backward()
    record_step(Update(sgd, [w], [], [lr]), [w.grad])
    return loss


def test_a_step_without_gradients_that_are_kept_updates_parameters_in_their_own_memory():
    w, lr = leaf(W), plain(0.25)
    memory = w.elements().address
    for n in range(1, 5):
        loss = step(w, lr)
        w.grad = None
        assert loss.item() == float(W @ W) / 4 ** (n - 1)
        assert w.elements().address == memory
    np.testing.assert_array_equal(w.numpy(force=True), W / 16)


def test_elements_that_another_tensor_needs_are_not_overwritten():
    w, lr = leaf(W), plain(0.25)
    held = (w @ w) * 1.0
    held.elements()  # its history has the old elements
    step(w, lr).item()
    held.backward()
    assert w.grad.tolist() == (2 * W + 2 * W).tolist()


def test_results_of_earlier_runs_are_not_overwritten():
    x = plain(W)
    held = []
    for _ in range(6):
        held.append(x * 2.0)
        held[-1].elements()
        x = x + 1.0
    assert [h.tolist() for h in held] == [(2 * (W + n)).tolist() for n in range(6)]


def test_arrays_of_results_are_not_overwritten():
    x, arrays = plain(W), []
    for _ in range(6):
        arrays.append((x * 2.0).numpy())
        x = x + 1.0
    assert [a.tolist() for a in arrays] == [(2 * (W + n)).tolist() for n in range(6)]


def test_memory_is_flat_over_many_iterations():
    w, lr = leaf(W), plain(0.0)
    step(w, lr).item()
    gc.collect()
    before = len(gc.get_objects())
    for _ in range(50):
        step(w, lr).item()
    gc.collect()
    assert len(gc.get_objects()) - before < 20


def test_the_history_of_a_tensor_dies_with_it():
    w = leaf(W)
    y = w * w
    y.elements()
    history = weakref.ref(y._trace)
    assert history() is not None
    del y
    gc.collect()
    assert history() is None


@operation
def picked(table, index):
    return ops.take(table, index)


def test_indices_out_of_range_leave_everything_as_it_was():
    w, lr = leaf([[1.0], [2.0]]), plain(0.5)
    before = w.tolist()
    rows = picked(w, plain([0, 2], np.int64))
    loss = (rows * rows) @ plain([1.0])
    assert loss.shape == (2,)
    w.grad = None
    loss.backward(plain([1.0, 1.0]))
    record_step(Update(sgd, [w], [], [lr]), [w.grad])
    with pytest.raises(InvalidValueError) as error:
        w.elements()
    assert error.value.message.endswith("holds indices and must be in [0, 2), got 2 at 1; correct the data")
    assert w.tolist() == before
    with pytest.raises(InvalidValueError):
        loss.tolist()


def test_at_most_so_many_programs_are_kept(monkeypatch):
    monkeypatch.setattr(plan.options, "most_plans", 3)
    x = plain(W)
    for n in range(1, 6):
        for _ in range(n):
            x = x * 1.0
        x.elements()
    assert len(plan.options.plans) == 3


def test_programs_are_compiled_with_the_options(monkeypatch):
    monkeypatch.setattr(plan.options, "compile", CompileOptions(threads=1, cache=False))
    with compilations() as compiled:
        assert (plain(W) * 7.0 - 3.0).tolist() == [4.0, 11.0]
        assert compiled() == 1
