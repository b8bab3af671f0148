"""Overlap of regions."""

import numpy as np
import pytest

from adjoint.training.metrics import Dice, MeanIoU
from tests.training.metrics.batches import CLASSES, KEPT, PREDICTED, TARGETS, of_classes


def test_overlap_per_class():
    found, true = PREDICTED[KEPT], TARGETS[KEPT]
    for c in range(CLASSES):
        a, b = set(np.flatnonzero(found == c)), set(np.flatnonzero(true == c))
        assert of_classes()["iou"].eval()[c] == pytest.approx(len(a & b) / len(a | b), rel=1e-15)
        assert of_classes()["dice"].eval()[c] == pytest.approx(2 * len(a & b) / (len(a) + len(b)), rel=1e-15)


def test_images():
    maps = np.array([[[0, 1], [1, 1]], [[2, 2], [0, 0]]])
    outputs = np.moveaxis(np.eye(3, dtype=np.float32)[maps], -1, 1)  # [N, C, H, W]
    targets = np.array([[[0, 1], [1, 0]], [[2, 0], [0, 255]]])
    assert MeanIoU(ignore_index=255)(outputs, targets) == pytest.approx((2 / 4 + 2 / 3 + 1 / 2) / 3, rel=1e-15)
    assert Dice(ignore_index=255)(outputs, targets) == pytest.approx((4 / 6 + 4 / 5 + 2 / 3) / 3, rel=1e-15)
