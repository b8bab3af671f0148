"""Angles between vectors."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import CosineSimilarity
from tests.training.metrics.batches import GUESSES, NUMBERS, of_numbers


def test_the_mean_cosine():
    x, y = GUESSES.astype(np.float64), NUMBERS.astype(np.float64)
    cosines = [a @ b / np.linalg.norm(a) / np.linalg.norm(b) for a, b in zip(x, y, strict=True)]
    assert of_numbers()["cosine"].eval() == pytest.approx(np.mean(cosines), rel=1e-14)


def test_zeros_have_the_cosine_0():
    assert CosineSimilarity()([[0.0, 0.0], [3.0, 4.0]], [[1.0, 2.0], [-3.0, -4.0]]) == -0.5


def test_refusals():
    with pytest.raises(AdjointError) as refused:
        CosineSimilarity().update([1.0], [1.0])
    assert refused.value.message == (
        "CosineSimilarity: outputs must have rows and an axis -1 of vectors, got f64[1]; pass [N, C]"
    )
