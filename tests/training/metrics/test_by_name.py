"""Metrics by their names."""

import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import Accuracy, Loss, MeanMetric, TopKCategoricalAccuracy, get_metrics
from adjoint.training.metrics.by_name import NAMES


def test_names_metrics_and_functions():
    found = get_metrics({"accuracy", "loss", "top_1_accuracy"})
    assert {key: type(metric).__name__ for key, metric in found.items()} == {
        "accuracy": "Accuracy",
        "loss": "Loss",
        "top_1_accuracy": "Top1CategoricalAccuracy",
    }
    assert list(get_metrics(["acc", TopKCategoricalAccuracy(3), Loss(name="mine")])) == [
        "acc",
        "top_3_accuracy",
        "mine",
    ]
    metric = Accuracy()
    found = get_metrics({"a": metric, "b": "mse", "c": max})
    assert found["a"] is metric
    assert found["b"].name == "mse"
    assert isinstance(found["c"], MeanMetric)
    assert get_metrics(None) == {}
    assert list(get_metrics("F1")) == ["F1"]


def test_every_name_makes_a_metric():
    assert len(get_metrics(list(NAMES))) == len(NAMES)
    assert {"accuracy", "acc", "precision", "recall", "F1", "topk", "top_5_accuracy", "mae", "mse", "loss"} <= set(
        NAMES
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["acuracy"], f"metrics: a name must be one of {', '.join(NAMES)}, got 'acuracy'; did you mean 'accuracy'?"),
        (
            ["xyzzy"],
            f"metrics: a name must be one of {', '.join(NAMES)}, got 'xyzzy'; pass an adjoint.training.metrics.Metric",
        ),
        (
            ["loss", Loss()],
            "metrics: each must have a key of its own, got 'loss' twice; pass a dict, or give them names",
        ),
        (
            [Accuracy],
            "metrics: a metric is given by its name or as a Metric, got the class Accuracy; call it: Accuracy()",
        ),
        (
            [len],
            "metrics: a metric is given by its name or as a Metric, got a builtin_function_or_method; pass it in a "
            "dict, with its name",
        ),
        (7, "metrics: a metric is given by its name or as a Metric, got an int; pass names or metrics"),
        ({3: "loss"}, "metrics: keys must be strings, got an int; pass the name in results"),
        (
            dict.fromkeys("ab", Accuracy()),
            "metrics: each must be an object of its own, because it counts for itself, got one twice; make another one",
        ),
    ],
)
def test_refusals(given, message):
    with pytest.raises(AdjointError) as refused:
        get_metrics(given)
    assert refused.value.message == message
