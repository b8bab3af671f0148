"""How well predicted regions cover the true ones."""

import numpy as np

from adjoint.training.metrics.per_class import PerClass

__all__ = ["Dice", "MeanIoU"]


class Dice(PerClass):
    """The Dice coefficient of the regions of a class, ``2 |A & B| / (|A| + |B|)``, counted over all images.

    Outputs are ``[N, C, H, W]`` and targets ``[N, H, W]``, as for `Accuracy`; arguments are those of `PerClass`. Of
    pixels it is what `F1` is of rows.
    """

    name = "dice"

    def ratios(self, hits: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Twice the intersection, and the sum of the sizes."""
        return 2 * hits, predicted + actual


class MeanIoU(PerClass):
    """The intersection over union of the regions of a class, ``|A & B| / |A | B|``, counted over all images.

    Outputs are ``[N, C, H, W]`` and targets ``[N, H, W]``, as for `Accuracy`; arguments are those of `PerClass`.
    """

    name = "mean_iou"

    def ratios(self, hits: np.ndarray, predicted: np.ndarray, actual: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The intersection and the union."""
        return hits, predicted + actual - hits
