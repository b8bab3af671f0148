"""Mixed precision of older scripts, as ``torch.cuda.amp``: without an effect, because there is no such device."""

from typing import Any

from adjoint import amp
from adjoint.compat.uncovered import uncovered

__all__ = ["GradScaler", "autocast"]


class autocast(amp.autocast):  # noqa: N801
    """`adjoint.amp.autocast` for the device "cuda", of which there is none, so that it has no effect."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """`adjoint.amp.GradScaler` that does not scale, because nothing computes in half floats here."""

    def __init__(self, *args: Any, enabled: bool = False, **kwargs: Any) -> None:  # noqa: ARG002
        super().__init__("cuda", enabled=False)


__getattr__ = uncovered(__name__, {}, "adjoint.amp")
