"""The area under the ROC curve."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import is_float
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.classes import ClassMetric
from adjoint.training.metrics.ranking import Ranking, counts_above

__all__ = ["ROCAUC", "BinnedROCAUC"]


class ROCAUC(Ranking):
    """The area under the ROC curve: how often a positive example has a higher score than a negative one.

    Equal scores count one half, which is the area under straight lines between the points of the curve, and the
    Mann-Whitney statistic with midranks. It is exact, for which all scores are kept. Arguments are those of `Ranking`.
    """

    name = "roc_auc"

    def figure(self, positives: np.ndarray, negatives: np.ndarray) -> float:
        """The area."""
        return area(positives, negatives)

    def curve(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The ROC curve of a binary classifier.

        Returns
        -------
        fpr, tpr, thresholds : numpy.ndarray
            The rates of false and true positives if scores of at least a threshold are positive, beginning with 0, 0
            and an infinite threshold.

        Raises
        ------
        InvalidValueError
            If there is more than one class, or none of a kind of examples.
        """
        if not self._batches or self.rows()[0].shape[1] != 1:
            raise InvalidValueError(
                "ROCAUC: only a binary classifier has one curve, got no outputs or several classes; update a metric "
                "with one column"
            )
        self.result()
        scores, labels, weights = self.rows()
        thresholds, positives, negatives = counts_above(scores[:, 0], labels[:, 0], weights)
        rates = (np.append(0.0, counts / counts[-1]) for counts in (negatives, positives))
        return (*rates, np.append(np.inf, thresholds))  # type: ignore[return-value]


def area(positives: np.ndarray, negatives: np.ndarray) -> float:
    """The area under the curve through the counts above each threshold, by trapezoids."""
    heights = np.append(0.0, positives)
    widths = np.diff(negatives, prepend=0.0)
    # One division, so that integers give the nearest float.
    return float((widths * (heights[1:] + heights[:-1])).sum() / (2 * positives[-1] * negatives[-1]))


class BinnedROCAUC(ClassMetric):
    """`ROCAUC` of a binary classifier, computed in compiled code, with scores rounded down to one of some bins.

    Its error is at most half the part of pairs, of a positive and a negative example, that are in one bin.

    Parameters
    ----------
    bins : int, default 1000
        The number of bins, of equal width, for probabilities.
    from_logits : bool, default False
        Whether outputs are logits, of which the sigmoid is taken.
    ignore_index : int or None, default -100
        Rows with this target do not count.
    weighted : bool, default False
        Whether `update` takes the weights of rows as a third argument.
    name : str, default "roc_auc"
        The key in results.
    """

    name = "roc_auc"
    for_logits = "from_logits=True"
    higher_is_better = True
    positives: Tensor
    negatives: Tensor

    def __init__(
        self,
        bins: int = 1000,
        *,
        from_logits: bool = False,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        if isinstance(bins, bool) or not isinstance(bins, int) or bins < 2:
            raise InvalidValueError(f"BinnedROCAUC: bins must be an int of at least 2, got {bins!r}; pass more")
        super().__init__(ignore_index=ignore_index, weighted=weighted, name=name)
        self.bins, self.from_logits = bins, from_logits
        self.add_amount("positives", (bins,))
        self.add_amount("negatives", (bins,))

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Count the scores of a batch by bins."""
        axis = self._class_axis(outputs)
        if not is_float(outputs.dtype) or (axis is not None and outputs.shape[axis] != 1):
            raise TypeRuleError(
                f"BinnedROCAUC: outputs must be floats [N] or [N, 1], got {outputs._spec.type}; pass the scores of the "
                "positive class, or use ROCAUC"
            )
        scores = outputs.sigmoid() if self.from_logits else outputs
        read = self.read(scores, targets, weight)
        places = (scores.flatten() * self.bins).nan_to_num().clamp(0, self.bins - 1).long()
        actual = read.actual[:, 0]
        self.positives.index_add_(0, places, read.amounts(actual))
        self.negatives.index_add_(0, places, read.amounts(~actual))

    def result(self) -> float:
        """The area."""
        positives, negatives = (np.cumsum(self.total(n)[::-1].astype(np.float64)) for n in ("positives", "negatives"))
        if not positives[-1] or not negatives[-1]:
            raise InvalidValueError(
                "BinnedROCAUC: a ranking needs positive and negative examples, got those of one kind only; evaluate "
                "more rows"
            )
        return area(positives, negatives)
