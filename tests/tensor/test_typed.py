"""Constructors that are named after a dtype, as in older scripts of PyTorch."""

import numpy as np

import adjoint as torch


def test_data_sizes_and_dtypes():
    assert repr(torch.Tensor([1, 2])) == "tensor([1., 2.])"
    assert torch.Tensor(2, 3).shape == (2, 3)
    assert torch.Tensor().shape == (0,)
    assert torch.FloatTensor(torch.ones(2, 2).shape).tolist() == [[0, 0], [0, 0]]
    assert torch.FloatTensor((1, 2)).tolist() == [1, 2]
    found = torch.LongTensor(np.array([1.5, 2]))
    assert found.dtype == torch.int64
    assert found.tolist() == [1, 2]
    assert torch.BoolTensor([0, 1]).tolist() == [False, True]


def test_they_stand_for_dtypes():
    assert torch.ones(2).type(torch.LongTensor).dtype == torch.int64
    assert repr(torch.HalfTensor) == "<constructor HalfTensor>"
