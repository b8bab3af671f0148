"""MindSpore's names over adjoint: ``import adjoint.compat.mindspore as ms``."""

from adjoint.compat.mindspore import common as common
from adjoint.compat.mindspore import context, dtype
from adjoint.compat.mindspore import dataset as dataset
from adjoint.compat.mindspore import nn as nn
from adjoint.compat.mindspore import ops as ops
from adjoint.compat.mindspore import train as train
from adjoint.compat.mindspore.common import (
    Parameter,
    ParameterTuple,
    Tensor,
    jit,
    ms_function,
    set_seed,
)
from adjoint.compat.mindspore.context import *  # noqa: F403
from adjoint.compat.mindspore.context import __all__ as _context
from adjoint.compat.mindspore.dtype import *  # noqa: F403
from adjoint.compat.mindspore.dtype import __all__ as _types
from adjoint.compat.mindspore.ops.composite import grad, value_and_grad
from adjoint.compat.mindspore.train import (
    Callback,
    CheckpointConfig,
    DynamicLossScaleManager,
    EarlyStopping,
    FixedLossScaleManager,
    History,
    LambdaCallback,
    LossMonitor,
    Model,
    ModelCheckpoint,
    ReduceLROnPlateau,
    RunContext,
    TimeMonitor,
    load_checkpoint,
    load_param_into_net,
    save_checkpoint,
)
from adjoint.compat.uncovered import uncovered

__all__ = [
    *_context,
    *_types,
    "Callback",
    "CheckpointConfig",
    "DynamicLossScaleManager",
    "EarlyStopping",
    "FixedLossScaleManager",
    "History",
    "LambdaCallback",
    "LossMonitor",
    "Model",
    "ModelCheckpoint",
    "Parameter",
    "ParameterTuple",
    "ReduceLROnPlateau",
    "RunContext",
    "Tensor",
    "TimeMonitor",
    "context",
    "dtype",
    "grad",
    "jit",
    "load_checkpoint",
    "load_param_into_net",
    "ms_function",
    "save_checkpoint",
    "set_seed",
    "value_and_grad",
]

__getattr__ = uncovered(
    __name__,
    {
        "export": "use adjoint.compile and Executable.save",
        "communication": "omit it: there is one device",
        "amp": "use adjoint.autocast, or Model(..., amp_level='O2')",
    },
    "adjoint",
)
