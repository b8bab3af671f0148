"""The text of tensors, compared with what PyTorch 2.13 prints for the same data."""

import pytest

import adjoint as torch

CASES = [
    (lambda: torch.tensor([[1.0, 2.0], [3.0, 4.0]]), "tensor([[1., 2.],\n        [3., 4.]])"),
    (lambda: torch.tensor([1, 20, 300]), "tensor([  1,  20, 300])"),
    (lambda: torch.tensor(3.5), "tensor(3.5000)"),
    (lambda: torch.tensor([1.5, 2e-5, 3e6]), "tensor([1.5000e+00, 2.0000e-05, 3.0000e+06])"),
    (lambda: torch.tensor([0.1, float("nan"), float("-inf")]), "tensor([0.1000,    nan,   -inf])"),
    (lambda: torch.tensor([1.0, float("nan"), 0.0]), "tensor([1., nan, 0.])"),
    (lambda: torch.tensor([0.0, float("-inf")]), "tensor([0., -inf])"),
    (lambda: torch.tensor([1e6, float("inf")]), "tensor([1000000.,      inf])"),
    # PyTorch numbers its classes: MulBackward0.
    (lambda: torch.tensor([1.0], requires_grad=True) * 2, "tensor([2.], grad_fn=<MulBackward>)"),
    (lambda: torch.tensor([True, False]), "tensor([ True, False])"),
    (lambda: torch.tensor([1.0], requires_grad=True), "tensor([1.], requires_grad=True)"),
    (lambda: torch.tensor([1, 2], dtype=torch.int32), "tensor([1, 2], dtype=int32)"),
    (lambda: torch.arange(2000), "tensor([   0,    1,    2,  ..., 1997, 1998, 1999])"),
    (lambda: torch.zeros(2, 0), "tensor([], size=(2, 0))"),
    (lambda: torch.zeros(0, dtype=torch.int64), "tensor([], dtype=int64)"),
    (lambda: torch.zeros(2, 1, 1), "tensor([[[0.]],\n\n        [[0.]]])"),
    (
        lambda: torch.arange(20),
        "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,\n        18, 19])",
    ),
]


@pytest.mark.parametrize(("made", "text"), CASES)
def test_text(made, text):
    assert repr(made()) == str(made()) == text
