"""`mindspore.train`: the model, callbacks, metrics and checkpoints."""

from adjoint.compat.mindspore.nn import metrics as metrics
from adjoint.compat.mindspore.nn.metrics import *  # noqa: F403
from adjoint.compat.mindspore.nn.metrics import __all__ as _metrics
from adjoint.compat.mindspore.train.callback import *  # noqa: F403
from adjoint.compat.mindspore.train.callback import __all__ as _callbacks
from adjoint.compat.mindspore.train.loss_scale_manager import DynamicLossScaleManager, FixedLossScaleManager
from adjoint.compat.mindspore.train.model import Model
from adjoint.compat.mindspore.train.serialization import load_checkpoint, load_param_into_net, save_checkpoint
from adjoint.compat.uncovered import uncovered

__all__ = [
    *_callbacks,
    *_metrics,
    "DynamicLossScaleManager",
    "FixedLossScaleManager",
    "Model",
    "load_checkpoint",
    "load_param_into_net",
    "save_checkpoint",
]
__getattr__ = uncovered(__name__, {}, "adjoint.training")
