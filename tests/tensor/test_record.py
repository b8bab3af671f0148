"""Keys of recorded operations: what is the same program, and what is not."""

import numpy as np
import pytest

import adjoint as torch
from adjoint import ops, param
from adjoint.errors import TypeRuleError
from adjoint.tensor import arithmetic
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.record import operation
from adjoint.tensor.trace import fresh_trace, growing, state
from tests.tensor.making import compilations, plain


@operation
def stacked(parts, axis=0):
    return ops.stack(parts, axis)


@operation
def halves(x):
    size = x.shape[0] // 2
    return x[:size], x[size:]


@operation
def scaled(x, factor, shift=0.0):
    return x * factor + shift


def test_an_operation_on_graph_values_builds_the_graph():
    x = param("x", (3,))
    assert arithmetic.add(x, 1.0).type == x.type
    assert stacked([x, x]).shape == (2, 3)


def test_sequences_of_tensors_and_keywords_are_part_of_the_structure():
    x, y = plain([1.0, 2.0]), plain([3.0, 4.0])
    first, second, third = stacked([x, y]), stacked([x, y], axis=1), stacked((y, x), 1)
    assert first.tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert second.tolist() == [[1.0, 3.0], [2.0, 4.0]]
    assert third.tolist() == [[3.0, 1.0], [4.0, 2.0]]


def test_an_operation_may_have_several_results():
    low, high = halves(plain([1.0, 2.0, 3.0, 4.0]))
    assert (low.tolist(), high.tolist()) == ([1.0, 2.0], [3.0, 4.0])
    low, high = halves(plain([5.0, 6.0, 7.0, 8.0]))
    assert (low + high).tolist() == [12.0, 14.0]


def test_numbers_of_other_types_and_signs_are_other_programs():
    ones = plain([1, 2], np.int64)
    results = [ones * 2, ones * 2.0, ones * True]
    assert [r.dtype for r in results] == [np.int64, np.float32, np.int64]
    zero = plain([0.0])
    quotients = [1.0 / (zero * sign) for sign in (0.0, -0.0)]
    assert [q.item() for q in quotients] == [np.inf, -np.inf]


def test_a_number_that_varies_becomes_an_input_of_the_program():
    x = plain([1.0, 2.0])
    with compilations() as compiled:
        for n in range(1, 20):
            assert scaled(x, n / 2).tolist() == [n / 2, n]
        assert compiled() == 2  # with the first number as a constant, then with any
        for n in range(1, 20):
            assert scaled(x, 2.0, shift=float(n)).tolist() == [2.0 + n, 4.0 + n]
        assert compiled() <= 5


def test_a_number_that_comes_again_does_not_lead_back_to_a_constant():
    x = plain([1.0, 2.0, 4.0])

    def program(first, second):
        return scaled(scaled(x, first), second).tolist()

    for first in (1.5, 2.5):
        for second in (3.5, 4.5):
            program(first, second)
    with compilations() as compiled:
        for first in (1.5, 2.5, 3.0):
            for second in (3.5, 4.5, 5.0):
                assert program(first, second) == [first * second * n for n in (1.0, 2.0, 4.0)]
        assert compiled() <= 1


def test_a_program_that_waits_outlives_the_constant_that_it_was_recorded_with():
    x = plain([1.0, 2.0, 4.0, 8.0])
    waiting = scaled(x, 1.25)
    fresh_trace()
    assert scaled(plain([1.0, 2.0, 4.0, 8.0]), 2.25).tolist() == [2.25, 4.5, 9.0, 18.0]
    assert waiting.tolist() == [1.25, 2.5, 5.0, 10.0]


def test_recording_a_known_structure_adds_nothing_to_the_trie():
    def program():
        x = plain([1.0, 2.0])
        return (scaled(x, 2.0) + x).tolist()

    program()
    before = growing.count
    for _ in range(3):
        program()
    assert growing.count == before


def test_what_cannot_be_part_of_a_key_is_refused():
    with pytest.raises(TypeRuleError) as error:
        scaled(plain([1.0]), {"a": 1})
    assert error.value.message == (
        "an operation takes tensors and hashable arguments, got a dict; convert it to a tuple"
    )


def test_results_are_given_to_the_tensor_passed_as_out():
    out = plain([0.0, 0.0])
    x = plain([1.0, 2.0])
    assert torch.mul(x, x, out=out) is out
    torch.add(out, 1.0, out=out)
    assert torch.exp(x, out=None) is not None
    assert out.tolist() == [2.0, 5.0]
    with pytest.raises(TypeRuleError) as error:
        torch.mul(x, 2.0, out=plain([1.0]))
    assert error.value.message == (
        "out: a tensor changed in place keeps its type, got f32[2] for f32[1]; compute a new tensor"
    )


def test_errors_of_shape_are_raised_where_the_operation_is_recorded():
    with pytest.raises(TypeRuleError, match=r"shapes must broadcast") as error:
        plain([1.0, 2.0]) + plain([1.0, 2.0, 3.0])
    assert "test_record.py" in error.value.where
    assert (plain([1.0, 2.0]) + 1.0).tolist() == [2.0, 3.0]


def test_nothing_requires_gradients_while_they_are_off():
    x = plain([1.0])
    x.requires_grad = True
    with no_grad():
        y = x * 2.0
        assert not y.requires_grad
    assert (x * 2.0).requires_grad
    assert state.grad
