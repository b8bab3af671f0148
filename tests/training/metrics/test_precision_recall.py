"""Precision, recall and F-scores, per class and averaged."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import F1, Fbeta, Precision, Recall
from tests.training.metrics.batches import (
    CHANCES,
    CLASSES,
    KEPT,
    LABELS,
    PREDICTED,
    TARGETS,
    WEIGHTS,
    of_classes,
    of_labels,
)

#: For each class, whether rows that count are predicted as it and whether they are in it.
FOUND = np.equal(PREDICTED[KEPT, None], range(CLASSES))
TRUE = np.equal(TARGETS[KEPT, None], range(CLASSES))


def precision_of(number):
    return TRUE[FOUND[:, number], number].mean()


def test_precision_per_class_and_averages():
    wanted = [precision_of(c) for c in range(CLASSES)]  # class 3 is predicted, but never right
    np.testing.assert_allclose(of_classes()[None].eval(), wanted, rtol=1e-15)
    assert wanted[3] == 0
    assert of_classes()["macro"].eval() == pytest.approx(np.mean(wanted), rel=1e-15)
    assert of_classes()["weighted"].eval() == pytest.approx(np.dot(wanted, TRUE.mean(axis=0)), rel=1e-15)
    assert of_classes()["micro"].eval() == (PREDICTED == TARGETS)[KEPT].mean()


def test_recall_and_f_scores_per_class():
    recalls = of_classes()["recall"].eval()
    scores = of_classes()["f2"].eval()
    for c in range(3):
        recall = FOUND[TRUE[:, c], c].mean()
        assert recalls[c] == pytest.approx(recall, rel=1e-15)
        assert scores[c] == pytest.approx(5 * precision_of(c) * recall / (4 * precision_of(c) + recall), rel=1e-15)
    assert recalls[3] == scores[3] == 0  # there are no targets of this class


def test_a_binary_classifier_has_one_class_the_positive_one():
    found, true = CHANCES > 0.5, LABELS == 1
    right = WEIGHTS[found & true].sum()
    precision, recall = right / WEIGHTS[found].sum(), right / WEIGHTS[true].sum()
    assert of_labels()["F1"].eval() == pytest.approx(2 * precision * recall / (precision + recall), rel=1e-15)


def test_numbers_of_mindspore():
    # mindspore.train.Precision("classification"), Recall("classification") and F1() of MindSpore 2.10
    outputs, targets = [[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]], [1, 0, 1]
    assert Precision("classification", average=None)(outputs, targets).tolist() == [0.5, 1.0]
    assert Recall("classification", average=None)(outputs, targets).tolist() == [1.0, 0.5]
    assert F1(average=None)(outputs, targets).tolist() == [2 / 3, 2 / 3]


def test_labels_are_classes_and_absent_ones_do_not_count_for_macro():
    outputs = [[0.9, 0.8, 0.1], [0.2, 0.7, 0.3]]
    targets = [[1, 0, 0], [1, 1, 0]]
    assert Recall("multilabel", average=None)(outputs, targets).tolist() == [0.5, 1.0, 0.0]
    assert Recall("multilabel")(outputs, targets) == 0.75
    assert Precision("multilabel", average="micro")(outputs, targets) == 2 / 3


def test_class_indices_need_the_number_of_classes():
    assert Recall(num_classes=3, average=None)([0, 1, 1], [0, 1, 2]).tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Recall().update([0, 1], [0, 1]),
            "Recall: outputs that are class indices do not tell the number of classes, got them without num_classes; "
            "pass num_classes",
        ),
        (
            lambda: Precision(average="mean"),
            "Precision: average must be 'macro', 'micro', 'weighted' or None, got 'mean'; choose one of them",
        ),
        (lambda: Fbeta(0.0), "Fbeta: beta must be positive, got 0.0; pass 1.0 for F1"),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
