"""Accuracy of the k best predictions."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import Top5CategoricalAccuracy, TopKCategoricalAccuracy
from tests.training.metrics.batches import KEPT, OUTPUTS, PREDICTED, TARGETS, of_classes


def test_of_equal_outputs_those_of_lower_classes_are_better():
    best = np.argsort(-OUTPUTS[KEPT], axis=1, kind="stable")[:, :2]
    assert of_classes()["top_2"].eval() == (best == TARGETS[KEPT, None]).any(axis=1).mean()
    assert of_classes()["top_1"].eval() == (PREDICTED == TARGETS)[KEPT].mean()


def test_numbers_of_mindspore():
    # mindspore.train.TopKCategoricalAccuracy(3) of MindSpore 2.10
    outputs = [[0.2, 0.5, 0.3, 0.6, 0.2], [0.1, 0.35, 0.5, 0.2, 0.0], [0.9, 0.6, 0.2, 0.01, 0.3]]
    assert TopKCategoricalAccuracy(3)(outputs, [2, 0, 1]) == 2 / 3


def test_names():
    assert Top5CategoricalAccuracy().name == "top_5_accuracy"
    assert TopKCategoricalAccuracy(3).name == "top_3_accuracy"
    assert TopKCategoricalAccuracy(3, name="top").name == "top"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: TopKCategoricalAccuracy(0),
            "TopKCategoricalAccuracy: k must be an int of at least 1, got 0; pass a number of classes",
        ),
        (
            lambda: Top5CategoricalAccuracy().update(OUTPUTS, TARGETS),
            "Top5CategoricalAccuracy: outputs must be floats with an axis of at least 5 classes, got f32[23,4]; pass "
            "logits or probabilities [N, C], or a smaller k",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
