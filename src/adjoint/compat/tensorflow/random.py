"""``tf.random``: random tensors. Seeds give other numbers than TensorFlow's."""

from typing import Any

import adjoint
from adjoint.compat.tensorflow.mathematics import _shape
from adjoint.compat.uncovered import uncovered
from adjoint.ir import as_dtype
from adjoint.tensor.tensor import Tensor

__all__ = ["normal", "set_seed", "shuffle", "truncated_normal", "uniform"]
__getattr__ = uncovered(__name__, {}, "adjoint")


def set_seed(seed: int) -> None:
    """Seed all random numbers."""
    adjoint.manual_seed(seed)


def normal(shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = "float32", seed: Any = None) -> Any:
    """Normally distributed numbers."""
    del seed
    return adjoint.randn(_shape(shape), dtype=as_dtype(dtype)) * stddev + mean


def truncated_normal(
    shape: Any, mean: float = 0.0, stddev: float = 1.0, dtype: Any = "float32", seed: Any = None
) -> Tensor:
    """Normally distributed numbers, of which those beyond two standard deviations are drawn again."""
    del seed
    made = adjoint.empty(_shape(shape), dtype=as_dtype(dtype))
    return adjoint.nn.init.trunc_normal_(made, mean, stddev, mean - 2 * stddev, mean + 2 * stddev)


def uniform(shape: Any, minval: Any = 0, maxval: Any = None, dtype: Any = "float32", seed: Any = None) -> Any:
    """Uniformly distributed numbers."""
    del seed
    wanted = as_dtype(dtype)
    if wanted.kind in "iu":
        return adjoint.randint(int(minval), int(maxval), _shape(shape), dtype=wanted)
    high = 1.0 if maxval is None else maxval
    return adjoint.rand(_shape(shape), dtype=wanted) * (high - minval) + minval


def shuffle(value: Any) -> Any:
    """The rows in random order."""
    rows: Tensor = value[adjoint.randperm(len(value))]
    return rows
