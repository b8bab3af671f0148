"""The mean precision over all recalls."""

import numpy as np

from adjoint.training.metrics.ranking import Ranking

__all__ = ["AveragePrecision"]


class AveragePrecision(Ranking):
    """The sum of ``(R[n] - R[n - 1]) P[n]`` over the distinct scores, of recalls R and precisions P above each.

    This is the area under the curve of precision and recall without interpolation, as in scikit-learn. It is exact, for
    which all scores are kept. Arguments are those of `Ranking`.
    """

    name = "average_precision"

    def figure(self, positives: np.ndarray, negatives: np.ndarray) -> float:
        """The average."""
        total = positives + negatives
        precisions = np.divide(positives, total, out=np.zeros(total.shape), where=total > 0)
        return float((np.diff(positives, prepend=0.0) * precisions).sum() / positives[-1])
