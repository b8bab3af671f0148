"""`Input`: where a model of the functional interface begins."""

from collections.abc import Sequence
from typing import Any

from adjoint.compat.tensorflow.keras.layers.base import KerasTensor
from adjoint.compat.uncovered import uncovered

__all__ = ["Input"]
__getattr__ = uncovered(__name__, {}, "adjoint")


def Input(  # noqa: N802
    shape: Sequence[int | None] | None = None, batch_size: int | None = None, dtype: Any = "float32",
    name: str | None = None, **_: Any,
) -> KerasTensor:  # fmt: skip
    """A symbolic tensor with this shape after the batch axis."""
    del batch_size, name
    return KerasTensor((None, *(shape or ())), None, str(dtype))
