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
    "adjoint.nn.utils.rnn has no pack_padded_sequence, because there are no packed sequences; pad them, and mask what "
    "was added": lambda: rnn.pack_padded_sequence,
}


@pytest.mark.parametrize("sentence", REFUSALS)
def test_refusals(sentence):
    with pytest.raises(AdjointError) as error:
        REFUSALS[sentence]()
    assert error.value.message == sentence
