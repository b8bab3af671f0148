"""Files for TensorBoard, as ``torch.utils.tensorboard``; requires the extra ``tensorboard``."""

from importlib import import_module
from importlib.util import find_spec
from typing import Any

from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError

__all__ = ["SummaryWriter"]


def SummaryWriter(log_dir: Any = None, *args: Any, **kwargs: Any) -> Any:  # noqa: N802
    """The class of the same name of tensorboardX, which writes the same files.

    Parameters
    ----------
    log_dir : str or os.PathLike, optional
        The directory; default: a new one under ``runs``.
    *args, **kwargs
        The other arguments of tensorboardX's class.

    Raises
    ------
    InvalidValueError
        If tensorboardX is not installed.
    """
    if find_spec("tensorboardX") is None:
        raise InvalidValueError(
            "SummaryWriter requires tensorboardX, which is not installed; run pip install 'adjoint[tensorboard]'"
        )
    return import_module("tensorboardX").SummaryWriter(None if log_dir is None else str(log_dir), *args, **kwargs)


__getattr__ = uncovered(__name__, {}, "adjoint.training.callbacks")
