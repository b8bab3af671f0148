"""What metrics of rankings share: scores and labels collected on the host, and the counts above each score."""

from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.training.metrics.averaging import averaged, check_average
from adjoint.training.metrics.base import Metric, as_array

__all__ = ["Ranking", "counts_above"]

#: How far from 1 the sum of probabilities may be, f16 or bf16 outputs of many classes included.
_SUM_TOLERANCE = 2e-2


def counts_above(scores: np.ndarray, labels: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, ...]:
    """The weights of positive and negative examples whose score is at least each of the distinct scores.

    Parameters
    ----------
    scores : numpy.ndarray
        ``[N]``.
    labels : numpy.ndarray
        Whether each is positive, bool ``[N]``.
    weights : numpy.ndarray
        Of each, f64 ``[N]``.

    Returns
    -------
    thresholds, positives, negatives : numpy.ndarray
        The distinct scores in descending order, and the sums of weights.
    """
    order = np.argsort(-scores, kind="stable")
    sorted_scores = scores[order]
    last = np.flatnonzero(np.append(sorted_scores[1:] != sorted_scores[:-1], True))
    positives = np.cumsum(np.where(labels[order], weights[order], 0.0))[last]
    negatives = np.cumsum(np.where(labels[order], 0.0, weights[order]))[last]
    return sorted_scores[last], positives, negatives


class Ranking(Metric):
    """The base class of metrics that depend on the order of all scores, kept until `eval`.

    Outputs are scores ``[N]`` or ``[N, 1]`` of the positive class, with targets 0 or 1; two columns, whose difference
    is the score; or probabilities ``[N, C]`` with class indices or one-hot targets, each class against all others.

    Parameters
    ----------
    eval_type : {"classification", "multilabel"}, default "classification"
        With "multilabel", outputs and targets are ``[N, L]``, and each label is a class.
    average : {"macro", "weighted"} or None, default "macro"
        The mean over classes that have positive and negative examples, also weighted by the number of positive ones; or
        None for an array ``[C]``, NaN for other classes.
    from_logits : bool, default False
        Whether outputs ``[N, C]`` with C > 2 are logits, of which the softmax is taken.
    name : str, optional
        The key in results.
    """

    compiled: ClassVar[bool] = False
    higher_is_better = True

    def __init__(
        self,
        eval_type: str = "classification",
        *,
        average: str | None = "macro",
        from_logits: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if eval_type not in ("classification", "multilabel"):
            raise InvalidValueError(
                f"{type(self).__name__}: eval_type must be 'classification' or 'multilabel', got {eval_type!r}; choose "
                "one of them"
            )
        check_average(type(self).__name__, average, ("macro", "weighted"))
        self.eval_type, self.average, self.from_logits = eval_type, average, from_logits
        self._batches: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []

    def clear(self) -> None:
        """Forget all batches."""
        super().clear()
        self._batches = []

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Keep the scores of a batch, with the weights of its rows if there are any."""
        own = type(self).__name__
        scores = np.array(as_array(outputs), np.float64)
        labels = self._labels(scores, as_array(targets))
        scores = scores.reshape(len(scores), -1) if scores.ndim else scores
        if np.isnan(scores).any():
            raise InvalidValueError(
                f"{own}: outputs must not be NaN, got NaN in {int(np.isnan(scores).sum())} of them; find the operation "
                "that makes the first one with adjoint.debug_nan()"
            )
        if self.eval_type == "classification" and scores.shape[1] > 1:
            scores = self._of_classes(scores)
            labels = labels[:, 1:] if scores.shape[1] == 1 else labels
        weights = np.ones(len(scores)) if weight is None else np.array(as_array(weight), np.float64)
        if weights.shape != (len(scores),):
            raise TypeRuleError(
                f"{own}: there must be one weight per row, {len(scores)}, got the shape {weights.shape}; pass a weight "
                "for each"
            )
        if self._batches and self._batches[0][0].shape[1] != scores.shape[1]:
            raise InvalidValueError(
                f"{own}: all outputs must have as many classes as the first ones, {self._batches[0][0].shape[1]}, got "
                f"{scores.shape[1]}; use another metric"
            )
        self._batches.append((scores, labels, weights))

    def _labels(self, scores: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Whether each row is in each class, bool ``[N, C]``."""
        own, shape = type(self).__name__, scores.shape
        columns = shape[1] if len(shape) == 2 else 1
        indexed = self.eval_type == "classification" and columns > 1 and targets.shape in (shape[:1], (*shape[:1], 1))
        fits = targets.shape in (shape, shape[:1]) if columns == 1 else targets.shape == shape
        if len(shape) not in (1, 2) or not (fits or indexed):
            raise TypeRuleError(
                f"{own}: targets for outputs {shape} must be one per row, or one per output, got {targets.shape}; "
                "outputs are [N] or [N, C]"
            )
        bound = columns if indexed else 2
        if not ((targets >= 0) & (targets < bound) & (targets == np.floor(targets))).all():
            raise InvalidValueError(
                f"{own}: targets must be integers of at least 0 and less than {bound}, got others; leave out the rows "
                "that do not count"
            )
        column = targets.reshape(len(scores), -1)
        found: np.ndarray = np.equal(column, np.arange(columns)) if indexed else column != 0
        return found

    def _of_classes(self, scores: np.ndarray) -> np.ndarray:
        """The scores of classes that exclude each other."""
        if scores.shape[1] == 2:
            scores = scores[:, 1:] - scores[:, :1]
        elif self.from_logits:
            powers = np.exp(scores - scores.max(axis=1, keepdims=True))
            scores = powers / powers.sum(axis=1, keepdims=True)
        elif (scores < 0).any() or (abs(scores.sum(axis=1) - 1) > _SUM_TOLERANCE).any():
            raise InvalidValueError(
                f"{type(self).__name__}: outputs of more than two classes must be probabilities, got rows that do not "
                "add up to 1; pass from_logits=True for logits"
            )
        return scores

    def figure(self, positives: np.ndarray, negatives: np.ndarray) -> float:
        """The figure of a class, given its `counts_above`; a subclass defines it."""
        raise NotImplementedError

    def rows(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Scores ``[N, C]``, labels ``[N, C]`` and weights ``[N]`` of all batches."""
        scores, labels, weights = (np.concatenate(parts) for parts in zip(*self._batches, strict=True))
        return scores, labels, weights

    def result(self) -> float | np.ndarray:
        """The figure, or an array."""
        scores, labels, weights = self.rows()
        figures = np.full(scores.shape[1], np.nan)
        support = np.where(labels, weights[:, None], 0.0).sum(axis=0)
        defined = (support > 0) & (support < weights.sum())
        for column in np.flatnonzero(defined):
            _, positives, negatives = counts_above(scores[:, column], labels[:, column], weights)
            figures[column] = self.figure(positives, negatives)
        if self.average is None:
            return figures
        if not defined.any():
            raise InvalidValueError(
                f"{type(self).__name__}: a ranking needs positive and negative examples, got {len(scores)} of one kind "
                "only; evaluate more rows"
            )
        return averaged(figures[defined], np.ones(defined.sum()), support[defined], defined[defined], self.average)
