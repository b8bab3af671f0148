"""The area under the ROC curve."""

import numpy as np
import pytest

from adjoint.errors import AdjointError
from adjoint.training.metrics import ROCAUC, BinnedROCAUC
from tests.training.metrics.batches import CHANCES, KEPT, LABELS, OUTPUTS, TARGETS, WEIGHTS, batches, of_labels


def pairs(scores, labels, weights=None):
    """How often a positive example has a higher score than a negative one; equal ones count one half."""
    weights = np.ones(len(scores)) if weights is None else weights
    above = np.sign(scores[:, None] - scores) / 2 + 0.5
    both = np.outer(labels * weights, (1 - labels) * weights)
    return (above * both).sum() / both.sum()


def test_ties_count_one_half():
    metric = ROCAUC()
    for batch in batches(CHANCES, LABELS):
        metric.update(*batch)
    assert metric.eval() == pairs(CHANCES, LABELS)
    metric.clear()
    metric.update(CHANCES, LABELS, WEIGHTS)
    assert metric.eval() == pytest.approx(pairs(CHANCES, LABELS, WEIGHTS), rel=1e-15)
    assert metric(np.stack([-CHANCES, CHANCES], axis=1), LABELS) == pairs(CHANCES, LABELS)  # two columns


def test_compiled_bins_are_exact_if_scores_are_their_edges():
    scores = np.minimum(CHANCES, 7 / 8)  # 1.0 is in the last of 8 bins
    assert of_labels()["binned"].eval() == pytest.approx(pairs(scores, LABELS, WEIGHTS), rel=1e-15)


def test_bins_of_logits_are_nearly_exact():
    logits = np.linspace(-3, 3, 23).astype(np.float32)[np.argsort(WEIGHTS, kind="stable")]
    assert BinnedROCAUC(from_logits=True)(logits, LABELS) == pairs(logits, LABELS)  # all are in bins of their own


def test_classes_against_all_others():
    powers = np.exp(OUTPUTS[KEPT].astype(np.float64))
    chances, targets = powers / powers.sum(axis=1, keepdims=True), TARGETS[KEPT]
    wanted = [pairs(chances[:, c], (targets == c) * 1) for c in range(3)]
    metric = ROCAUC(from_logits=True, average=None)
    np.testing.assert_allclose(metric(OUTPUTS[KEPT], targets), [*wanted, np.nan], rtol=1e-15)  # no target is 3
    assert ROCAUC()(chances, targets) == pytest.approx(np.mean(wanted), rel=1e-15)
    part = [np.mean(targets == c) for c in range(3)]
    assert ROCAUC(average="weighted")(chances, targets) == pytest.approx(np.dot(wanted, part), rel=1e-15)
    labels = np.equal(targets[:, None], range(4))
    assert ROCAUC()(chances, labels) == ROCAUC("multilabel")(chances, labels) == ROCAUC()(chances, targets)


def test_the_curve():
    # mindspore.train.ROC(pos_label=1) of MindSpore 2.10, whose first threshold is 1.8, and its auc
    metric = ROCAUC()
    assert metric([0.1, 0.4, 0.35, 0.8], [0, 0, 1, 1]) == 0.75
    fpr, tpr, thresholds = metric.curve()
    assert fpr.tolist() == [0.0, 0.0, 0.5, 0.5, 1.0]
    assert tpr.tolist() == [0.0, 0.5, 0.5, 1.0, 1.0]
    assert thresholds.tolist() == [np.inf, 0.8, 0.4, 0.35, 0.1]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: ROCAUC()([0.1, 0.2], [1, 1]),
            "ROCAUC: a ranking needs positive and negative examples, got 2 of one kind only; evaluate more rows",
        ),
        (
            lambda: BinnedROCAUC(4)([0.1, 0.2], [1, 1]),
            "BinnedROCAUC: a ranking needs positive and negative examples, got those of one kind only; evaluate more "
            "rows",
        ),
        (
            lambda: ROCAUC().update(OUTPUTS, TARGETS[KEPT]),
            "ROCAUC: targets for outputs (23, 4) must be one per row, or one per output, got (22,); outputs are [N] or "
            "[N, C]",
        ),
        (
            lambda: ROCAUC().update(OUTPUTS, TARGETS),
            "ROCAUC: targets must be integers of at least 0 and less than 4, got others; leave out the rows that do "
            "not count",
        ),
        (
            lambda: ROCAUC().update(OUTPUTS[KEPT], TARGETS[KEPT]),
            "ROCAUC: outputs of more than two classes must be probabilities, got rows that do not add up to 1; pass "
            "from_logits=True for logits",
        ),
        (
            lambda: ROCAUC().update([0.1, np.nan], [0, 1]),
            "ROCAUC: outputs must not be NaN, got NaN in 1 of them; find the operation that makes the first one with "
            "adjoint.debug_nan()",
        ),
        (
            lambda: ROCAUC().update(CHANCES, LABELS, WEIGHTS[:2]),
            "ROCAUC: there must be one weight per row, 23, got the shape (2,); pass a weight for each",
        ),
        (
            lambda: [m := ROCAUC("multilabel"), m.update([[0.1]], [[1]]), m.update([[0.1, 0.2]], [[1, 1]])],
            "ROCAUC: all outputs must have as many classes as the first ones, 1, got 2; use another metric",
        ),
        (
            lambda: ROCAUC(average="micro"),
            "ROCAUC: average must be 'macro', 'weighted' or None, got 'micro'; choose one of them",
        ),
        (
            lambda: ROCAUC("binary"),
            "ROCAUC: eval_type must be 'classification' or 'multilabel', got 'binary'; choose one of them",
        ),
        (
            lambda: ROCAUC().curve(),
            "ROCAUC: only a binary classifier has one curve, got no outputs or several classes; update a metric with "
            "one column",
        ),
        (lambda: BinnedROCAUC(1), "BinnedROCAUC: bins must be an int of at least 2, got 1; pass more"),
        (
            lambda: BinnedROCAUC().update(OUTPUTS, TARGETS),
            "BinnedROCAUC: outputs must be floats [N] or [N, 1], got f32[23,4]; pass the scores of the positive class, "
            "or use ROCAUC",
        ),
        (
            lambda: BinnedROCAUC(4)([-0.1, 0.2], [0, 1]),
            "BinnedROCAUC: outputs must be probabilities if there is no threshold, got 1 outside of [0, 1]; pass "
            "from_logits=True for logits",
        ),
    ],
)
def test_refusals(call, message):
    with pytest.raises(AdjointError) as refused:
        call()
    assert refused.value.message == message
