"""What all metrics have: counts that compiled code updates in place, and sentences where there is no figure."""

import numpy as np
import pytest

import adjoint
from adjoint import jit, nn
from adjoint.errors import AdjointError, InvalidValueError, TypeRuleError
from adjoint.training.metrics import ROCAUC, Accuracy, ConfusionMatrix, Metric, Precision
from tests.training.metrics.batches import KEPT, OUTPUTS, PREDICTED, TARGETS, batches


class Errors(Metric):
    """The number of wrong predictions: a metric as a user writes it."""

    name = "errors"

    def __init__(self):
        super().__init__()
        self.add_count("wrong")

    def update(self, outputs, targets):
        self.wrong.add_((outputs.argmax(1) != targets).sum())

    def result(self):
        return int(self.total("wrong"))


def test_compiled_updates_change_counts_where_they_are_and_are_traced_once_per_shape(monkeypatch):
    metric, matrix = Accuracy(), ConfusionMatrix(4)

    @jit
    def update(x, y):
        metric.update(x, y)
        matrix.update(x, y)

    first, second, rest = batches(OUTPUTS, TARGETS)
    update(*first)
    places = [buffer.elements().array.ctypes.data for buffer in (metric.correct, matrix.matrix)]
    graph = update.lower(*first)
    assert len(graph.attrs["donate"]) == len(graph.results) == 9  # all counts of both
    with monkeypatch.context() as patch:
        patch.setattr("adjoint.func.jit.lift", None)
        update(*second)
    assert [buffer.elements().array.ctypes.data for buffer in (metric.correct, matrix.matrix)] == places
    assert matrix.eval().sum() == KEPT[:20].sum()
    update(*rest)
    assert matrix.eval().sum() == KEPT.sum()
    assert metric.eval() == (PREDICTED == TARGETS)[KEPT].mean()
    metric.clear()  # keeps what is compiled
    with monkeypatch.context() as patch:
        patch.setattr("adjoint.func.jit.lift", None)
        update(*first)
    assert metric.eval() == (PREDICTED == TARGETS)[:10][KEPT[:10]].mean()


def test_order_and_sizes_of_batches_make_no_difference():
    metric, whole = Accuracy(), Accuracy()
    for x, y in reversed(list(batches(OUTPUTS, TARGETS))):
        metric.update(x, y)
    assert metric.eval() == whole(OUTPUTS, TARGETS) == (PREDICTED == TARGETS)[KEPT].mean()
    assert whole(OUTPUTS, TARGETS) == metric.eval()  # a call forgets what came before


def test_a_function_with_a_dynamic_size_counts_the_rows_that_there_are():
    metric = Precision(average="micro")

    @jit(dynamic={"x": {0: "n"}, "y": {0: "n"}})
    def update(x, y):
        metric.update(x, y)

    for x, y in batches(OUTPUTS, TARGETS):
        update(x, y)
    assert metric.eval() == (PREDICTED == TARGETS)[KEPT].mean()
    assert len(list(update.programs())) == 1


def test_a_metric_of_ones_own_is_updated_with_tensors_and_needs_no_gradients():
    metric = Errors()
    weight = adjoint.eye(4).requires_grad_()
    for x, y in batches(OUTPUTS, TARGETS):
        metric.update(adjoint.tensor(x) @ weight, list(y))
    assert metric.eval() == (PREDICTED != TARGETS).sum()
    assert not metric.wrong.requires_grad
    metric.clear()
    assert metric.total("wrong") == 0


def test_a_metric_of_metrics_clears_them():
    class Both(Metric):
        def __init__(self):
            super().__init__("both")
            self.parts = nn.ModuleList([Errors(), Accuracy()])

        def update(self, *batch):
            for part in self.parts:
                part.update(*batch)

        def result(self):
            return [part.eval() for part in self.parts]

    both = Both()
    for _ in range(2):
        assert both(OUTPUTS, TARGETS) == [(PREDICTED != TARGETS).sum(), (PREDICTED == TARGETS)[KEPT].mean()]


def test_sizes_are_those_of_the_first_batch():
    metric = Precision(average=None)
    assert metric(OUTPUTS, TARGETS).shape == (4,)
    with pytest.raises(InvalidValueError) as refused:
        metric.update(OUTPUTS[:, :3], TARGETS)
    assert refused.value.message == (
        "Precision: all outputs must be of 4 classes, as the first ones or num_classes say, got 3; use another metric"
    )


def test_a_lazy_layer_gets_its_size_in_a_compiled_function():
    layer = nn.LazyLinear(3)
    assert jit(lambda x: layer(x).detach())(OUTPUTS).shape == (23, 3)
    assert layer.in_features == 4


def test_sizes_are_not_stored_in_functions_that_are_traced_otherwise():
    with pytest.raises(TypeRuleError) as refused:
        adjoint.checkpoint(lambda x: Precision().update(x, TARGETS))(adjoint.tensor(OUTPUTS))
    assert refused.value.message == (
        "Precision takes sizes from the first batch, which a traced function cannot store, got a first batch in one; "
        "give the sizes to its constructor, or call it once outside of the function"
    )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: Accuracy().eval(),
            "Accuracy: a metric needs a batch, got none since it was made or cleared; call update first",
        ),
        (
            lambda: Accuracy()(OUTPUTS, TARGETS * 0 - 100),
            "Accuracy: a metric needs an example that counts, got none in 1 updates; are all targets ignored, or all "
            "weights 0?",
        ),
        (
            lambda: Precision()(OUTPUTS, TARGETS * 0 - 100),
            "Precision: a metric needs an example that counts, got none in 1 updates; are all targets ignored, or all "
            "weights 0?",
        ),
        (
            lambda: Accuracy()(np.where(OUTPUTS == 3, np.nan, OUTPUTS).astype("f4"), TARGETS),
            f"Accuracy: outputs must not be NaN, got NaN in {(OUTPUTS == 3).any(1)[KEPT].sum()} of them; find the "
            "operation that makes the first one with adjoint.debug_nan()",
        ),
        (
            lambda: Accuracy()(OUTPUTS, TARGETS + 3),
            f"Accuracy: classes must be at least 0 and less than the number of classes, labels 0 or 1, got "
            f"{((TARGETS + 3 >= 4) | (TARGETS + 3 == -97)).sum()} that are not; pass ignore_index for targets that do "
            "not count",
        ),
        (
            lambda: Accuracy(name=3),
            "Accuracy: the name must be a string, got an int; pass options by their names",
        ),
        (
            lambda: Metric().update(1),
            "Metric: a metric must define update(self, ...), which changes its buffers in place, got none; add it",
        ),
        (
            lambda: Metric().result(),
            "Metric: a metric must define result(self), which returns the figure, got none; add it",
        ),
        (
            lambda: jit(lambda x, y: ROCAUC().update(x, y))(OUTPUTS, TARGETS),
            "ROCAUC: the metric collects outputs on the host, got an update in a traced function; return the outputs, "
            "and call update outside",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
