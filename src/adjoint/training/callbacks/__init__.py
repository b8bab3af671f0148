"""Callbacks of training, one per file: what happens around the steps of a run.

`base` has the class that all of them extend, and the interface of the run that they are given; `monitoring` what those
share that watch a metric, and `rows` and `row_file` what loggers share.
"""

from adjoint.training.callbacks.base import Callback, Run
from adjoint.training.callbacks.csv_logger import CSVLogger
from adjoint.training.callbacks.early_stopping import EarlyStopping
from adjoint.training.callbacks.history import History
from adjoint.training.callbacks.json_lines_logger import JSONLinesLogger
from adjoint.training.callbacks.lambda_callback import LambdaCallback
from adjoint.training.callbacks.learning_rate_scheduler import LearningRateScheduler
from adjoint.training.callbacks.logger import Logger
from adjoint.training.callbacks.loss_monitor import LossMonitor
from adjoint.training.callbacks.model_checkpoint import CheckpointConfig, ModelCheckpoint
from adjoint.training.callbacks.nan_guard import NaNGuard, explain_nan
from adjoint.training.callbacks.progress_bar import ProgressBar
from adjoint.training.callbacks.reduce_lr_on_plateau import ReduceLROnPlateau
from adjoint.training.callbacks.tensorboard_logger import TensorBoardLogger
from adjoint.training.callbacks.terminate_on_budget import TerminateOnBudget
from adjoint.training.callbacks.time_monitor import TimeMonitor
from adjoint.training.callbacks.weight_averaging import WeightAveraging

__all__ = [
    "CSVLogger",
    "Callback",
    "CheckpointConfig",
    "EarlyStopping",
    "History",
    "JSONLinesLogger",
    "LambdaCallback",
    "LearningRateScheduler",
    "Logger",
    "LossMonitor",
    "ModelCheckpoint",
    "NaNGuard",
    "ProgressBar",
    "ReduceLROnPlateau",
    "Run",
    "TensorBoardLogger",
    "TerminateOnBudget",
    "TimeMonitor",
    "WeightAveraging",
    "explain_nan",
]
