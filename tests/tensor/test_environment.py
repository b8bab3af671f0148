"""The one device, the default dtype, threads, and what scripts ask about accelerators."""

import pytest

import adjoint as torch
from tests.tensor.comparing import message


def test_there_is_one_device():
    assert str(torch.device("cpu")) == "cpu"
    assert torch.device("cpu:0") == torch.device("cpu")
    assert message(lambda: torch.device("cuda:1")) == (
        "there is one device, 'cpu', got 'cuda:1'; use device='cpu', or leave it out"
    )
    kinds = (torch.accelerator, torch.cuda, torch.backends.mps, torch.mps)
    assert [kind.is_available() for kind in kinds] == [False] * 4
    assert torch.cuda.device_count() == 0
    torch.backends.cudnn.deterministic = True
    torch.cuda.manual_seed_all(1)


@pytest.fixture
def restored():
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("restored")
def test_the_default_dtype():
    torch.set_default_dtype(torch.float64)
    assert torch.get_default_dtype() == torch.zeros(1).dtype == torch.tensor([1.0]).dtype == torch.float64
    assert message(lambda: torch.set_default_dtype(torch.int32)) == (
        "the default dtype must be float, got i32; use float32 or float64"
    )


def test_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    assert torch.get_num_threads() == 1
    torch.set_num_threads(before)
    assert message(lambda: torch.set_num_threads(0)) == "the number of threads must be positive, got 0; pass at least 1"


def test_questions():
    x = torch.ones(2)
    assert torch.is_tensor(x)
    assert not torch.is_tensor([1])
    assert torch.is_floating_point(x)
    assert not torch.is_complex(x)
    assert torch.numel(x) == 2
    assert torch.is_nonzero(x[0])
    assert message(lambda: torch.is_nonzero(x)) == (
        "is_nonzero: the tensor must have one element, got 2; use any() or all()"
    )


def test_gradients_are_off_where_that_is_asked_for():
    x = torch.ones(2, requires_grad=True)
    with torch.inference_mode():
        assert not (x * 2).requires_grad
    with torch.inference_mode(False):
        assert (x * 2).requires_grad


def test_shapes_and_dtypes_of_operations():
    assert torch.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3)
    assert torch.promote_types(torch.int64, torch.float16) == torch.float16
    assert torch.is_same_size(torch.ones(2, 3), torch.zeros(2, 3))
    assert not torch.is_same_size(torch.ones(2, 3), torch.zeros(3, 2))
    assert message(lambda: torch.broadcast_shapes((2, 3), 4)) == (
        "broadcast_shapes: sizes must be equal or 1, got [2, 3], [4]; reshape one"
    )
