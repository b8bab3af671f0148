"""Settings and shapes that the samples of the convolution operators are made of."""

from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from adjoint.ops.sampling import spread

__all__ = ["CASES", "positive"]

#: Stride, padding, dilation and groups of a convolution, and the shapes of its image and its weight.
Case = tuple[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int], tuple[int, ...], tuple[int, ...]]

#: By number of axes: ``((stride, padding, dilation, groups), shape of the image, shape of the weight)``.
CASES: Mapping[int, tuple[Case, ...]] = MappingProxyType(
    {
        2: (
            (((1, 1), (0, 0), (1, 1), 1), (2, 2, 4, 5), (3, 2, 3, 2)),
            (((1, 1), (1, 2), (1, 1), 1), (1, 2, 3, 4), (2, 2, 3, 3)),
            (((1, 1), (2, 0), (1, 1), 1), (1, 1, 2, 3), (2, 1, 1, 2)),
            (((2, 3), (0, 0), (1, 1), 1), (1, 2, 5, 8), (2, 2, 3, 2)),
            (((2, 2), (1, 1), (1, 1), 1), (2, 1, 4, 5), (2, 1, 3, 3)),
            (((2, 2), (0, 0), (1, 1), 1), (1, 2, 4, 5), (3, 2, 1, 1)),
            (((3, 2), (1, 0), (1, 1), 1), (1, 1, 5, 4), (1, 1, 2, 1)),
            (((1, 1), (1, 0), (2, 1), 1), (1, 2, 4, 3), (2, 2, 2, 3)),
            (((2, 3), (1, 2), (2, 3), 1), (1, 1, 5, 6), (2, 1, 2, 3)),
            (((2, 4), (2, 1), (4, 2), 1), (1, 1, 6, 7), (1, 1, 2, 3)),
            (((1, 1), (0, 0), (1, 1), 2), (1, 4, 3, 3), (4, 2, 2, 2)),
            (((1, 2), (1, 1), (1, 1), 3), (1, 3, 3, 4), (6, 1, 2, 3)),
            (((1, 1), (0, 0), (1, 1), 3), (1, 3, 2, 3), (3, 1, 1, 2)),
        ),
        3: (
            (((2, 1, 1), (1, 0, 1), (1, 2, 1), 1), (1, 2, 3, 3, 2), (2, 2, 2, 2, 2)),
            (((1, 1, 2), (0, 0, 0), (1, 1, 1), 2), (1, 2, 2, 2, 4), (2, 1, 2, 1, 3)),
        ),
    }
)


def positive(*shape: int, dtype: str = "f32") -> np.ndarray:
    """Positive numbers, so that sums of products do not suffer from cancellation."""
    return spread(*shape, dtype=dtype, low=0.1)
