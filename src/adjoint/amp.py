"""Mixed precision, as ``torch.amp``: the context in which products compute in half floats, and the scaler of losses."""

from contextlib import ContextDecorator
from typing import Any, Self

import numpy as np

from adjoint.errors import InvalidValueError
from adjoint.ir import DTYPES, as_dtype
from adjoint.optim import GradScaler
from adjoint.tensor.autocasting import contexts, mode

__all__ = ["GradScaler", "autocast"]

_HALVES = (DTYPES["bf16"], DTYPES["f16"])


class autocast(ContextDecorator):  # noqa: N801
    """A context, or decorator, in which products of f32 tensors compute in half floats; `torch.autocast`.

    Matrix products, linear layers, convolutions, recurrent layers and attention convert their operands to `dtype`, and
    add their terms in f32. Losses, `prod`, `quantile`, `cdist`, linear systems, three-dimensional pooling and
    `grid_sample` convert theirs to f32. Normalization computes in f32 and returns the dtype of its input, and softmax
    computes half floats in f32. Everything else keeps the dtypes of its operands; where they differ, the wider one
    counts. Parameters stay f32, and so do their gradients.

    Parameters
    ----------
    device_type : str, default "cuda"
        The device whose operations are converted. There are none of another device than ``"cpu"``.
    dtype : dtype, default bfloat16
        ``bfloat16`` or ``float16``. Use `GradScaler` for the latter.
    enabled : bool, default True
        Whether the context has an effect; if not, it turns off the one around it.
    cache_enabled : bool, optional
        Accepted for compatibility: conversions that occur twice are computed once anyway.

    Raises
    ------
    InvalidValueError
        If the dtype is another one.

    Notes
    -----
    Call ``backward()`` outside of the context, as in PyTorch; within it, it computes the same.
    """

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: Any = None,
        enabled: bool = True,
        cache_enabled: bool | None = None,  # noqa: ARG002
    ) -> None:
        chosen = DTYPES["bf16"] if dtype is None else as_dtype(dtype)
        chosen = next((each for each in _HALVES if each == chosen), chosen)  # compiled functions compare identities
        on_cpu = str(device_type).partition(":")[0] == "cpu"
        if on_cpu and enabled and chosen not in _HALVES:
            raise InvalidValueError(f"autocast: dtype must be bfloat16 or float16, got {chosen}; use bfloat16")
        self._on_cpu = on_cpu
        self._dtype = chosen if enabled else None
        self._before: list[np.dtype | None] = []

    def __enter__(self) -> Self:
        self._before.append(mode.dtype)
        if self._on_cpu:
            mode.dtype = self._dtype
        contexts.count(1)
        return self

    def __exit__(self, *error: object) -> None:
        mode.dtype = self._before.pop()
        contexts.count(-1)
