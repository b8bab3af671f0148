"""Average precision."""

import numpy as np
import pytest

from adjoint.training.metrics import AveragePrecision
from tests.training.metrics.batches import CHANCES, LABELS, WEIGHTS


def test_the_sum_over_distinct_scores():
    wanted, recall = 0.0, 0.0
    for threshold in sorted(set(CHANCES), reverse=True):
        found = threshold <= CHANCES
        right = WEIGHTS[found & (LABELS == 1)].sum()
        rise = right / WEIGHTS[LABELS == 1].sum() - recall
        recall += rise
        wanted += rise * right / WEIGHTS[found].sum()
    metric = AveragePrecision()
    metric.update(CHANCES, LABELS, WEIGHTS)
    assert metric.eval() == pytest.approx(wanted, rel=1e-14)


def test_a_ranking_without_ties():
    # scikit-learn's documentation: average_precision_score([0, 0, 1, 1], [0.1, 0.4, 0.35, 0.8])
    assert AveragePrecision()(np.array([0.1, 0.4, 0.35, 0.8]), [0, 0, 1, 1]) == pytest.approx(0.83, abs=0.005)
