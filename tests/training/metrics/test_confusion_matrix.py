"""Confusion matrices."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import ConfusionMatrix
from tests.training.metrics.batches import CHANCES, KEPT, LABELS, PREDICTED, TARGETS, WEIGHTS, of_classes, of_labels


def test_counts_of_pairs():
    wanted = np.zeros((4, 4), np.int64)
    for true, found in zip(TARGETS[KEPT], PREDICTED[KEPT], strict=True):
        wanted[true, found] += 1
    found = of_classes()["matrix"].eval()
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, wanted)


def test_normalized_and_weighted():
    found = of_labels()["matrix"].eval()  # by targets
    for true in (0, 1):
        rows = true == LABELS
        part = WEIGHTS[rows & (CHANCES > 0.5)].sum() / WEIGHTS[rows].sum()
        assert found[true].tolist() == pytest.approx([1 - part, part], rel=1e-15)


@pytest.mark.parametrize(
    ("normalize", "wanted"),
    [
        (None, [[1, 0, 0], [1, 1, 0], [0, 0, 0]]),
        ("no_norm", [[1, 0, 0], [1, 1, 0], [0, 0, 0]]),
        ("prediction", [[0.5, 0, 0], [0.5, 1, 0], [0, 0, 0]]),
        ("all", [[1 / 3, 0, 0], [1 / 3, 1 / 3, 0], [0, 0, 0]]),
    ],
)
def test_ways_to_normalize(normalize, wanted):
    metric = ConfusionMatrix(3, normalize)
    assert metric([0, 0, 1], [0, 1, 1]).tolist() == wanted
    metric.eval()[0] = 7  # a copy
    assert metric.eval().tolist() == wanted


def test_numbers_of_mindspore():
    # mindspore.train.ConfusionMatrix(num_classes=2) of MindSpore 2.10
    assert ConfusionMatrix(num_classes=2)([1, 0, 1, 0], [1, 0, 0, 1]).tolist() == [[1, 1], [1, 1]]


def test_refusals():
    with pytest.raises(AdjointError) as refused:
        ConfusionMatrix(normalize="rows")
    assert refused.value.message == (
        "ConfusionMatrix: normalize must be 'target', 'prediction', 'all', 'no_norm' or None, got 'rows'; choose one "
        "of them"
    )
