"""Arrays for `Operator.samples`."""

import numpy as np

from adjoint.ir.types import as_dtype

__all__ = ["spread"]


def spread(*shape: int, dtype: object = "f32", low: float = -1.9, high: float = 2.1) -> np.ndarray:
    """Distinct values between `low` and `high`, evenly spaced and shuffled, the same at every call.

    Distinct values avoid ties; with the default bounds, none of up to a few hundred is 0.
    """
    count = int(np.prod(shape))
    order = np.random.default_rng(count).permutation(count)
    values = low + (high - low) * (order + 0.5) / max(count, 1)
    return values.reshape(shape).astype(as_dtype(dtype))
