"""Perplexity."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import Perplexity
from tests.training.metrics.batches import KEPT, OUTPUTS, TARGETS, of_classes


def test_ignored_targets_do_not_count():
    x = OUTPUTS[KEPT].astype(np.float64)
    losses = np.log(np.exp(x).sum(axis=1)) - x[np.arange(len(x)), TARGETS[KEPT]]
    # Logarithms of probabilities are f32, and off by a few units in the last place of numbers up to 6.
    assert of_classes()["perplexity"].eval() == pytest.approx(np.exp(losses.mean()), rel=4 * 6 * 2**-24)


def test_numbers_of_mindspore():
    # mindspore.train.Perplexity() of MindSpore 2.10
    outputs = np.array([[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], np.float32)
    assert Perplexity(from_logits=False)(outputs, [1, 0, 1]) == pytest.approx(2.2314431850023855, rel=1e-6)


def test_sequences_and_weights():
    chances = np.array([[[0.5, 0.25, 0.25], [0.25, 0.5, 0.25]]])  # [B, T, C]
    metric = Perplexity(ignore_label=None, from_logits=False, weighted=True)
    assert metric(chances, [[0, 2]], [[3.0, 1.0]]) == pytest.approx(2 ** (3 / 4) * 4 ** (1 / 4), rel=1e-15)
    assert Perplexity(0, from_logits=False)(chances, [[0, 2]]) == pytest.approx(4, rel=1e-15)
    assert Perplexity(from_logits=False)([[1.0, 0.0]], [1]) == pytest.approx(1e10, rel=1e-14)  # not infinite


def test_refusals():
    with pytest.raises(AdjointError) as refused:
        Perplexity().update([0, 1], [0, 1])
    assert refused.value.message == (
        "Perplexity: outputs must be floats with an axis of at least 2 classes, got i64[2]; pass logits [..., C]"
    )
