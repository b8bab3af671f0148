"""`mindspore.train.callback`: adjoint's callbacks with MindSpore's arguments, and those written for MindSpore."""

from typing import Any

from adjoint.compat.mindspore.train.callback.adapted import Callback, RunContext
from adjoint.compat.uncovered import uncovered
from adjoint.training import callbacks as native
from adjoint.training.callbacks import EarlyStopping, History, LambdaCallback, LossMonitor, ReduceLROnPlateau

__all__ = [
    "Callback",
    "CheckpointConfig",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LossMonitor",
    "ModelCheckpoint",
    "ReduceLROnPlateau",
    "RunContext",
    "TimeMonitor",
]


class TimeMonitor(native.TimeMonitor):
    """``TimeMonitor(data_size=None)``."""

    def __init__(self, data_size: int | None = None, data_time: bool = False) -> None:  # noqa: ARG002
        super().__init__(data_size)


def CheckpointConfig(  # noqa: N802
    save_checkpoint_steps: int = 1,
    save_checkpoint_seconds: float = 0,
    keep_checkpoint_max: int = 5,
    keep_checkpoint_per_n_minutes: float = 0,
    integrated_save: bool = True,  # noqa: ARG001
    async_save: bool = False,
    saved_network: Any = None,
    append_info: Any = None,
    **_options: Any,
) -> native.CheckpointConfig:
    """`adjoint.training.callbacks.CheckpointConfig`, in which MindSpore's 0 for "not" is None."""
    return native.CheckpointConfig(
        save_checkpoint_steps=None if save_checkpoint_seconds else save_checkpoint_steps or None,
        save_checkpoint_seconds=save_checkpoint_seconds or None,
        keep_checkpoint_max=None if keep_checkpoint_per_n_minutes else keep_checkpoint_max or None,
        keep_checkpoint_per_n_minutes=keep_checkpoint_per_n_minutes or None,
        async_save=async_save,
        append_info=() if append_info is None else append_info,
        save_network=saved_network,
    )


class ModelCheckpoint(native.ModelCheckpoint):
    """``ModelCheckpoint(prefix="CKP", directory=None, config=None)``."""

    def __init__(self, prefix: str = "CKP", directory: str | None = None, config: Any = None) -> None:
        super().__init__(
            prefix, "." if directory is None else directory, CheckpointConfig() if config is None else config
        )


__getattr__ = uncovered(__name__, {"SummaryCollector": "use adjoint.training.callbacks.TensorBoardLogger"},
                        "adjoint.training.callbacks")  # fmt: skip
