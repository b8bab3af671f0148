"""Confusion matrices and samples, from a network whose predictions are known."""

import numpy as np
import pytest

from adjoint import nn
from adjoint.tensor.making import from_array
from adjoint.training.model import Model
from adjoint.training.report.predictions import confusion_of, predictions_of

#: Rows of 16 numbers, of which the first three are the logits; targets, and what is predicted.
LOGITS = np.array([[4, 0, 0], [0, 3, 0], [0, 0, 2], [5, 0, 0], [0, 1, 0]], np.float32)
TARGETS = np.array([0, 1, 2, 1, 0])
COUNTS = [[1, 1, 0], [1, 1, 0], [0, 0, 1]]


@pytest.fixture(scope="module")
def predict():
    """Takes the first three numbers of a row."""
    linear = nn.Linear(16, 3, bias=False)
    linear.load_state_dict({"weight": from_array(np.eye(3, 16, dtype=np.float32))})
    return Model(nn.Sequential(linear, nn.Dropout(0.9))).predict  # which is off


def batches(logits=LOGITS, targets=TARGETS, size=5):
    rows = np.zeros((len(logits), 16), np.float32)
    rows[:, :3] = logits
    return [(rows[i : i + size], targets[i : i + size]) for i in range(0, len(rows), size)]


def test_the_matrix_counts_true_and_predicted_classes(predict):
    found = predictions_of(predict, batches(), None, 100, 5)
    assert (found.rows, found.confusion.counts.tolist(), found.confusion.names) == (5, COUNTS, ("0", "1", "2"))
    assert found.confusion.accuracy == 0.6
    assert found.confusion.share(1, 0) == 0.5


def test_the_surest_mistakes_come_first(predict):
    found = predictions_of(predict, batches(), ("a", "b", "c"), 100, 5)
    assert [(each.true, each.predicted, each.is_right) for each in found.samples] == [
        ("b", "a", False),
        ("a", "b", False),
        ("c", "c", True),
        ("b", "b", True),
        ("a", "a", True),
    ]
    assert found.samples[0].probability == pytest.approx(np.exp(5) / (np.exp(5) + 2))
    assert found.samples[0].picture.startswith("data:image/png;base64,")


def test_some_samples_are_right(predict):
    found = predictions_of(predict, batches(), None, 100, 2)
    assert [each.is_right for each in found.samples] == [False, True]


def test_no_more_rows_than_asked_for_are_predicted(predict):
    class Dataset:
        def epoch(self, number, start=0):
            assert (number, start) == (0, 0)
            yield from batches(size=1)
            pytest.fail("all rows were read")

    assert predictions_of(predict, Dataset(), None, 3, 0).rows == 3


@pytest.mark.parametrize(
    "dataset",
    [
        [],
        [{"x": LOGITS}],
        [(LOGITS, LOGITS, TARGETS)],
        [(np.zeros((5, 16), np.float32), TARGETS.astype(np.float32))],
        batches(targets=TARGETS + 1),
        batches(targets=TARGETS - 1),
        batches(LOGITS * np.nan),
    ],
)
def test_what_is_no_classifier_has_no_predictions(predict, dataset):
    assert predictions_of(predict, dataset, None, 100, 5) is None


def test_probabilities_are_taken_as_they_are():
    logits = np.array([[0.5, 0.25, 0.25], [0.1, 0.2, 0.7]], np.float32)
    found = predictions_of(lambda x: from_array(x[:, :3].copy()), batches(logits, np.array([0, 2])), None, 10, 2)
    assert [each.probability for each in found.samples] == pytest.approx([0.5, 0.7])


def test_a_metric_can_be_a_matrix():
    found = confusion_of(np.array(COUNTS), ("a", "b", "c"))
    assert (found.names, found.accuracy) == (("a", "b", "c"), 0.6)
    assert confusion_of(0.5, None) is None
    assert confusion_of(np.zeros((101, 101)), None) is None
    assert confusion_of(np.zeros((2, 3)), None) is None
