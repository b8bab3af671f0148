"""Sequences of different lengths in one tensor."""

import numpy as np
import pytest

import adjoint as torch
from adjoint.errors import AdjointError
from adjoint.nn.utils import rnn
from tests.tensor.comparing import check


def test_padding_and_removing_it():
    words = [torch.tensor([1, 2, 3]), torch.tensor([4]), torch.tensor([5, 6])]
    vectors = [torch.ones(2, 2), torch.full((1, 2), 3.0)]
    padded = rnn.pad_sequence(words, batch_first=True)
    left = rnn.pad_sequence(vectors, padding_value=-1.0, padding_side="left")
    first, second, third = rnn.unpad_sequence(padded, [3, 1, 2], batch_first=True)
    check(
        (padded, [[1, 2, 3], [4, 0, 0], [5, 6, 0]]),
        (left, np.stack([np.ones((2, 2)), [[-1, -1], [3, 3]]], 1)),
        (first, [1, 2, 3]),
        (second, [4]),
        (third, [5, 6]),
    )
    assert padded.dtype == torch.int64


REFUSALS = {
    "pad_sequence takes tensors with an axis, got []; pass at least one": lambda: rnn.pad_sequence([]),
    "pad_sequence: padding_side must be 'right' or 'left', got 'top'; use one": lambda: rnn.pad_sequence(
        [torch.ones(1)], padding_side="top"
    ),
    "pack_padded_sequence: lengths must be in decreasing order, got [1, 2]; pass enforce_sorted=False": lambda: (
        rnn.pack_padded_sequence(torch.ones(2, 2), [1, 2])
    ),
    "pack_padded_sequence: lengths must be 2 numbers from 1 to 3, got [4, 1]; pass one for each sequence": lambda: (
        rnn.pack_padded_sequence(torch.ones(3, 2), [4, 1])
    ),
    "pad_packed_sequence: total_length must be at least the greatest length, 2, got 1; increase it": lambda: (
        rnn.pad_packed_sequence(rnn.pack_padded_sequence(torch.ones(2, 1), [2]), total_length=1)
    ),
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSALS[sentence]()
    assert error.value.message == sentence
