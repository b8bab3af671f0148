"""Mixed precision, as ``torch.amp``: the scaler of losses, and a context that scripts can turn off."""

from contextlib import ContextDecorator
from typing import Any, Self

from adjoint.errors import InvalidValueError
from adjoint.optim import GradScaler

__all__ = ["GradScaler", "autocast"]


class autocast(ContextDecorator):  # noqa: N801
    """A context without effect, for scripts that turn it off where there is no GPU.

    Parameters
    ----------
    device_type : str, default "cuda"
        The device whose operations are to be converted; there are none of another device than the CPU.
    dtype : dtype, optional
        Accepted for compatibility.
    enabled : bool, default True
        On the CPU, only False is accepted.
    cache_enabled : bool, optional
        Accepted for compatibility.

    Raises
    ------
    InvalidValueError
        If it is enabled for the CPU.
    """

    def __init__(
        self,
        device_type: str = "cuda",
        dtype: Any = None,  # noqa: ARG002
        enabled: bool = True,
        cache_enabled: bool | None = None,  # noqa: ARG002
    ) -> None:
        if enabled and device_type == "cpu":
            raise InvalidValueError(
                "autocast: operations keep the dtypes of their operands, got enabled=True for the CPU; call "
                "model.to(torch.bfloat16) and convert the inputs, or pass enabled=False"
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass
