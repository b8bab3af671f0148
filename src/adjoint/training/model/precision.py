"""Mixed precision of a model: its forward pass under `autocast`."""

from typing import Any

import numpy as np

from adjoint.amp import autocast
from adjoint.modules import Module

__all__ = ["Autocast"]


class Autocast(Module):
    """A network whose products compute in half floats.

    Parameters
    ----------
    network : Module
        Returns the loss.
    dtype : dtype
        bfloat16 or float16.
    """

    def __init__(self, network: Module, dtype: np.dtype) -> None:
        super().__init__()
        self.network = network
        self.dtype = dtype

    def forward(self, *batch: Any) -> Any:
        """The loss of a batch, in float32."""
        with autocast("cpu", self.dtype):
            return self.network(*batch).float()
