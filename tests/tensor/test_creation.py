"""Tensors from data, filled and counted; shared memory; what is traced is recorded."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.tensor.trace import Trace, fresh_trace, state
from tests.tensor.comparing import check, message


def test_dtypes_of_data():
    given = [[1, 2], [1.5], [True], 3, np.zeros(2), np.float64(2), [[1], [2.0]], [], torch.ones(2, dtype=torch.int8)]
    found = [torch.tensor(one).dtype for one in given]
    t = torch
    assert found == [t.int64, t.float32, t.bool, t.int64, t.float64, t.float64, t.float32, t.float32, t.int8]
    assert torch.tensor([1, 2], dtype=float).dtype == torch.float64
    assert torch.full((1,), 1e6).dtype == torch.float32
    assert torch.full((1,), np.float64(1.0)).dtype == torch.float32
    assert torch.tensor([torch.tensor(1.0), torch.tensor(2.0)]).tolist() == [1, 2]


def test_nothing_is_compiled_to_fill_and_count():
    before = len(torch.explain_recompiles())
    check(
        (torch.zeros(2, 3), np.zeros((2, 3))),
        (torch.ones((2,)), np.ones(2)),
        (torch.full((2, 2), 7), np.full((2, 2), 7)),
        (torch.empty(0), np.zeros(0)),
        (torch.arange(2, 11, 3), np.arange(2, 11, 3)),
        (torch.arange(0.0, 1.0, 0.25), np.arange(0, 1, 0.25)),
        (torch.arange(5, 0, -2), [5, 3, 1]),
        (torch.linspace(0, 1, 5), np.linspace(0, 1, 5)),
        (torch.logspace(0, 2, 3), [1, 10, 100]),
        (torch.eye(2, 3), np.eye(2, 3)),
        (torch.tril_indices(3, 3), np.stack(np.tril_indices(3))),
        (torch.full_like(torch.arange(2), 4), [4, 4]),
        (torch.zeros_like(torch.ones(2, dtype=torch.float64)), [0, 0]),
        (torch.ones(2).new_zeros(3), np.zeros(3)),
    )
    assert len(torch.explain_recompiles()) == before
    assert torch.full((1,), True).dtype == torch.bool
    assert torch.zeros(1, requires_grad=True).requires_grad


def test_in_a_traced_function_they_are_recorded():
    inner = Trace(fresh_trace().node, True)
    inner.outer, state.trace = state.trace, inner
    try:
        made = [torch.zeros(2), torch.arange(3), torch.full((1,), 2.5)]
        assert all(one._storage is None for one in made)
        assert repr(made[0]) == "<tensor f32[2] of a traced function>"
    finally:
        fresh_trace().outer = None


def test_memory_of_numpy_is_shared():
    array = np.ones(3, np.float32)
    x = torch.from_numpy(array)
    y = x * 2
    array[0] = 5  # after it has been used
    z = x * 2
    x += 1
    x[2] = 9
    assert array.tolist() == [6, 2, 9]
    assert y.tolist() == [2, 2, 2]
    assert z.tolist() == [10, 2, 2]
    assert torch.as_tensor(x) is x
    assert torch.tensor(array).tolist() == [6, 2, 9]


def test_dlpack_both_ways():
    array = np.arange(3.0)
    x = torch.from_dlpack(array)
    array[0] = 7
    assert x.tolist() == [7, 1, 2]
    back = np.from_dlpack(x)
    x += 1
    assert back.tolist() == [8, 2, 3]


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (
            lambda: torch.tensor([[1.0], [2.0, 3.0]]),
            "tensor: the data must be numbers, or nested lists of them of equal lengths, got [[1.0], [2.0, 3.0]]; pad "
            "lists of different lengths",
        ),
        (
            lambda: torch.tensor([1], requires_grad=True),
            "only tensors of a float dtype can require gradients, got i64; pass dtype=float32",
        ),
        (
            lambda: torch.zeros(1, device="cuda"),
            "there is one device, 'cpu', got 'cuda'; use device='cpu', or leave it out",
        ),
        (
            lambda: torch.arange(0, 3, -1),
            "arange: the step must not be 0 and must lead from start to end, got 0 to 3 in steps of -1; "
            "change its sign",
        ),
        (
            lambda: torch.from_numpy([1]),
            "from_numpy: the argument must be a NumPy array, got [1]; use tensor()",
        ),
    ],
)
def test_refusals(call, sentence):
    assert message(call) == sentence


def test_numbers_are_converted_once():
    assert torch.tensor([0.1], dtype=torch.float64).numpy()[0] == 0.1
    assert torch.tensor(2**53 + 1, dtype=torch.int64).item() == 2**53 + 1
    assert torch.tensor([], dtype=torch.int64).dtype == torch.int64


def test_integers_at_equal_distances_are_from_integer_ends():
    """The numbers of PyTorch 2.13."""
    assert torch.arange(0.1, -7.9, -4.0, dtype=torch.int64).tolist() == [0, -4]
    assert torch.linspace(4.3, -3, 5, dtype=torch.int64).tolist() == [4, 2, 0, -1, -3]
    assert torch.logspace(1, 2.9, 2, dtype=torch.int64).tolist() == [10, 100]
