"""When programs run, and which operations belong to one program."""

import threading

import numpy as np
import pytest

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor import record as recording
from adjoint.tensor import trace as traces
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.explain import explain_recompiles
from adjoint.tensor.structure import Node
from adjoint.tensor.trace import growing, state
from tests.tensor.making import compilations, leaf, plain


def test_operations_are_recorded_and_run_when_an_element_is_read():
    x = plain([1.0, 2.0])
    with compilations() as compiled:
        y = x * 3.0 + x
        z = y * y
        assert compiled() == 0
        assert z.tolist() == [16.0, 64.0]
        assert compiled() == 1
        assert y.tolist() == [4.0, 8.0]  # it was in use when the program ran
        assert compiled() == 1


def test_the_same_structure_compiles_once_for_other_elements():
    def program(x):
        return (x * x - x).tolist()

    with compilations() as compiled:
        assert program(plain([3.0, 5.0])) == [6.0, 20.0]
        assert program(plain([4.0, 1.0])) == [12.0, 0.0]
        assert compiled() == 1
        assert program(plain([4.0])) == [12.0]
        assert compiled() == 2


def test_temporaries_are_not_results_of_the_compiled_program():
    x = plain(np.ones((4, 61)))  # a shape that no other test has
    kept = x * 2.0
    for _ in range(5):
        kept = kept * 2.0
    kept.elements()
    (plan,) = x_plans(x)
    assert len(plan.outputs) == 1
    assert kept.tolist()[0] == [64.0] * 61


def x_plans(x):
    """The plans of the program that a tensor entered first."""
    node = growing.root.children[x._spec]
    for _ in range(6):
        (node,) = node.children.values()
    return node.plans.values()


def test_after_backward_an_empty_trace_waits_for_what_follows():
    w = leaf([2.0])
    loss = (w * w) @ w
    program = state.trace
    loss.backward()
    assert state.trace is not program
    assert not program.done
    running = loss * 1.0  # belongs to the program of the loss
    assert running._trace is program
    assert running.item() == 8.0
    assert program.done


def test_a_rebound_leaf_runs_its_program_when_it_is_used_for_gradients():
    w = leaf([2.0])
    with no_grad():
        w *= 3.0
    program = state.trace
    assert not program.done
    loss = w @ w
    assert program.done
    loss.backward()
    assert w.grad.tolist() == [12.0]


def test_another_thread_reads_what_is_pending_here():
    x = plain([1.0, 2.0])
    y = x * 10.0
    found = []
    other = threading.Thread(target=lambda: found.append(y.tolist()))
    other.start()
    other.join()
    assert found == [[10.0, 20.0]]
    assert (y + x).tolist() == [11.0, 22.0]  # this thread goes on with a new trace


def test_a_program_that_another_thread_has_run_is_not_continued():
    x = plain([1.0, 2.0])

    def program():
        y = x * 10.0
        yield y
        yield y + x

    for part in program():  # both structures are known afterwards
        part.tolist()
    y = x * 10.0
    other = threading.Thread(target=y.tolist)
    other.start()
    other.join()
    z = plain([5.0, 5.0])
    assert ((y + x) * z).tolist() == [55.0, 110.0]
    assert (x * 10.0).tolist() == [10.0, 20.0]


def test_threads_record_traces_of_their_own():
    results = {}

    def work(n):
        x = plain([float(n)])
        for _ in range(20):
            x = x + 1.0
        results[n] = x.item()

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: n + 20.0 for n in range(4)}


def test_a_long_program_is_run_in_parts(monkeypatch):
    monkeypatch.setattr(recording, "LONGEST", 10)
    monkeypatch.setattr(traces, "LONGEST", 10)
    x = plain([0.0] * 3)
    with compilations() as compiled:
        for _ in range(40):
            x = x + 1.0
        assert x.tolist() == [40.0] * 3
        assert compiled() == 1  # all parts but the last are the same program
    assert explain_recompiles()[-1].operations <= 12


def test_the_trie_starts_again_when_it_has_too_many_nodes(monkeypatch):
    growing = traces.growing
    monkeypatch.setattr(growing, "most", 5)
    monkeypatch.setattr(growing, "count", 0)
    monkeypatch.setattr(growing, "root", Node(None))
    root = growing.root
    x = plain([1.0])
    for n in range(8):
        x = x + float(n)
    assert growing.root is not root
    assert x.item() == 29.0
    assert (plain([2.0]) * 2.0).item() == 4.0


def test_in_place_operations_rebind_the_tensor_and_reuse_its_memory():
    x = plain([1.0, 2.0])
    memory = x.elements().address
    x += 1.0
    x *= 2.0
    assert x.tolist() == [4.0, 6.0]
    assert x.elements().address == memory


def test_in_place_operations_leave_tensors_with_the_same_elements_alone():
    x = plain([1.0, 2.0])
    y = x * 1.0
    y.elements()
    storage = y.elements()
    y += 1.0
    assert y.tolist() == [2.0, 3.0]
    assert storage.array.tolist() == [1.0, 2.0]  # somebody still held the old elements


def test_a_leaf_that_requires_gradients_is_not_changed_in_place_where_they_are_recorded():
    w = leaf([1.0])
    with pytest.raises(InvalidValueError) as error:
        w += 1.0
    assert error.value.message == (
        "add: a leaf that requires a gradient cannot be changed in place, got f32[1]; do it within no_grad(), or "
        "compute a new tensor"
    )
    assert w.tolist() == [1.0]


def test_a_tensor_changed_in_place_keeps_its_type():
    x = plain([1.0])
    with pytest.raises(TypeRuleError) as error:
        x += plain([[1.0], [2.0]])
    assert error.value.message == (
        "add: a tensor changed in place keeps its type, got f32[2,1] for f32[1]; compute a new tensor"
    )
    assert x.tolist() == [1.0]
