"""Reading elements: numbers, arrays that share memory, views of them."""

import numpy as np
import pytest

import adjoint as torch
from tests.tensor.comparing import message


def test_numbers():
    x = torch.tensor([1.5])
    assert (x.item(), float(x), int(x), bool(x)) == (1.5, 1.5, 1, True)
    assert [10, 20, 30][torch.tensor(1)] == 20
    assert f"{x.sum():.2f}" == "1.50"
    assert len(torch.zeros(3, 2)) == 3


def test_an_array_shows_what_happens_to_its_tensor():
    x = torch.tensor([1.0, 2.0, 3.0])
    y = x * 2
    array = x.numpy()
    array[0] = 9  # after y was recorded
    z = x * 2
    x.mul_(2)
    assert array.tolist() == x.tolist() == [18, 4, 6]
    assert y.tolist() == [2, 4, 6]
    assert z.tolist() == [18, 4, 6]


def test_the_array_of_a_detached_parameter_is_its_memory():
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    loss = (w * w).sum()
    array = w.detach().numpy()
    array[0] = 3
    assert loss.item() == 5
    with torch.no_grad():
        w.add_(1)
    assert array.tolist() == w.tolist() == [4, 3]


def test_the_array_of_a_view_cannot_be_written_to():
    x = torch.zeros(2, 2)
    array = x[0].numpy()
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    assert np.asarray(x).flags.writeable


def test_results_of_numpy_functions_are_tensors():
    x = torch.tensor([1.0, 4.0])
    assert isinstance(np.sqrt(x), torch.Tensor)
    assert np.sqrt(x).tolist() == [1, 2]
    assert np.add(x, np.float32(1)).dtype == torch.float32
    assert isinstance(np.concatenate([x, x]), np.ndarray)
    assert np.allclose(x, [1, 4])


def test_a_scalar_that_requires_a_gradient_is_read_as_a_copy():
    w = torch.tensor(3.0, requires_grad=True)
    read = (w * w).numpy()
    assert read == 9
    assert not read.flags.writeable
    assert np.asarray(w) == 3


def test_refusals():
    w = torch.ones(2, requires_grad=True)
    assert message(w.numpy) == (
        "numpy() is not differentiable, got a tensor that requires a gradient; use tensor.detach().numpy()"
    )
    assert message(w.item) == "item() reads the only element of a tensor, got f32[2]; use tolist() or numpy()"
    assert message(lambda: bool(w > 0)) == (
        "only a tensor with one element is true or false, got bool[2]; use any() or all()"
    )
    assert message(lambda: len(torch.tensor(1.0))) == (
        "only a tensor with an axis has a length, got a scalar; use item()"
    )
    assert message(lambda: list(torch.tensor(1.0))) == (
        "only a tensor with an axis can be iterated over, got a scalar; use item()"
    )
