"""Accuracy of classes, labels and binary classifiers."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import Accuracy
from tests.training.metrics.batches import (
    CHANCES,
    KEPT,
    LABELS,
    OUTPUTS,
    PREDICTED,
    TARGETS,
    WEIGHTS,
    of_classes,
    of_labels,
)


def test_classes():
    assert of_classes()["accuracy"].eval() == (PREDICTED == TARGETS)[KEPT].mean()


def test_a_binary_classifier_with_weights():
    right = ((CHANCES > 0.5) == LABELS) * WEIGHTS  # multiples of 1/4, so sums are exact
    assert of_labels()["accuracy"].eval() == right.sum() / WEIGHTS.sum()


def test_numbers_of_mindspore():
    # mindspore.train.Accuracy("classification") and ("multilabel") of MindSpore 2.10
    outputs = [[0.2, 0.5], [0.3, 0.1], [0.9, 0.6]]
    assert Accuracy("classification")(outputs, [1, 0, 1]) == 2 / 3
    assert Accuracy()(outputs, [[0, 1], [1, 0], [0, 1]]) == 2 / 3  # one-hot
    outputs = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 0]], np.float32)
    assert Accuracy("multilabel")(outputs, [[0, 1, 1], [1, 0, 0], [1, 1, 0]]) == 2 / 3


def test_class_indices_logits_of_one_class_and_classes_on_the_last_axis():
    assert Accuracy()([1, 2, 3, 9], [1, 2, 0, 0]) == 0.5
    assert Accuracy(threshold=0.0)([[-2.0], [3.0], [0.5]], [0, 1, 0]) == 2 / 3
    sequence = np.eye(5, dtype=np.float32)[[[0, 1, 2], [3, 4, 0]]]  # [B, T, C]
    assert Accuracy(axis=-1)(sequence, [[0, 1, 2], [3, 0, -100]]) == 0.8


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Accuracy()(OUTPUTS, TARGETS[:5]),
            "Accuracy: targets for outputs f32[23,4] must be integers, classes [23], or one-hot [23,4], got "
            "i64[5]; pass one target per row",
        ),
        (
            lambda: Accuracy()(OUTPUTS[None], TARGETS[None]),
            "Accuracy: targets for outputs f32[1,23,4] must be integers, classes [1,4], or one-hot [1,23,4], got "
            "i64[1,23]; pass axis=-1 if the last axis of the outputs is that of the classes",
        ),
        (
            lambda: Accuracy()([1, 2], [1.0, 2.0]),
            "Accuracy: targets for outputs i64[2] must be class indices of the same shape, got f64[2]; pass one target "
            "per row",
        ),
        (
            lambda: Accuracy()(CHANCES, OUTPUTS),
            "Accuracy: targets for outputs f32[23] must be 0 or 1, [23], got f32[23,4]; pass one target per row",
        ),
        (
            lambda: Accuracy("multilabel")(OUTPUTS, TARGETS),
            "Accuracy: targets for outputs f32[23,4] must be 0 or 1 for each label, [23,4], got i64[23]; pass one "
            "target per row",
        ),
        (
            lambda: Accuracy("classes"),
            "Accuracy: eval_type must be 'classification' or 'multilabel', got 'classes'; choose one of them",
        ),
        (
            lambda: Accuracy(axis=0),
            "Accuracy: axis must be an int other than 0, the axis of rows, got 0; pass 1 or -1",
        ),
        (
            lambda: Accuracy(axis=2).update(OUTPUTS, TARGETS),
            "Accuracy: outputs must have the axis of classes, 2, behind that of rows, got f32[23,4]; pass its number "
            "as axis",
        ),
        (
            lambda: Accuracy()(CHANCES * 2, LABELS),
            f"Accuracy: outputs must be probabilities if there is no threshold, got {(CHANCES > 0.5).sum()} outside of "
            "[0, 1]; pass threshold=0.0 for logits",
        ),
        (
            lambda: Accuracy(weighted=True).update(CHANCES, LABELS),
            "Accuracy: a weighted metric needs the weights of rows, got none; pass them to update as the third "
            "argument",
        ),
        (
            lambda: Accuracy().update(CHANCES, LABELS, WEIGHTS),
            "Accuracy: only a weighted metric takes weights of rows, got f64[23]; make it with weighted=True",
        ),
        (
            lambda: Accuracy(weighted=True).update(CHANCES, LABELS, WEIGHTS[:3]),
            "Accuracy: there must be one weight per target, 23, got f64[3]; pass a weight for each",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
