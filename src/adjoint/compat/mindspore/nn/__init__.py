"""`mindspore.nn`: cells, layers, losses, optimizers, training steps and metrics."""

from adjoint.compat.mindspore.nn.activations import *  # noqa: F403
from adjoint.compat.mindspore.nn.activations import __all__ as _activations
from adjoint.compat.mindspore.nn.cell import *  # noqa: F403
from adjoint.compat.mindspore.nn.cell import __all__ as _cells
from adjoint.compat.mindspore.nn.dynamic_lr import *  # noqa: F403
from adjoint.compat.mindspore.nn.dynamic_lr import __all__ as _lists
from adjoint.compat.mindspore.nn.layers import *  # noqa: F403
from adjoint.compat.mindspore.nn.layers import __all__ as _layers
from adjoint.compat.mindspore.nn.learning_rate_schedule import *  # noqa: F403
from adjoint.compat.mindspore.nn.learning_rate_schedule import __all__ as _schedules
from adjoint.compat.mindspore.nn.loss import *  # noqa: F403
from adjoint.compat.mindspore.nn.loss import __all__ as _losses
from adjoint.compat.mindspore.nn.metrics import *  # noqa: F403
from adjoint.compat.mindspore.nn.metrics import __all__ as _metrics
from adjoint.compat.mindspore.nn.optim import *  # noqa: F403
from adjoint.compat.mindspore.nn.optim import __all__ as _optimizers
from adjoint.compat.mindspore.nn.recurrent import *  # noqa: F403
from adjoint.compat.mindspore.nn.recurrent import __all__ as _recurrent
from adjoint.compat.mindspore.nn.wrap import *  # noqa: F403
from adjoint.compat.mindspore.nn.wrap import __all__ as _wrappers
from adjoint.compat.uncovered import uncovered

__all__ = [
    *_activations,
    *_cells,
    *_layers,
    *_lists,
    *_losses,
    *_metrics,
    *_optimizers,
    *_recurrent,
    *_schedules,
    *_wrappers,
]

__getattr__ = uncovered(__name__, {"transformer": "use adjoint.nn.TransformerEncoderLayer"}, "adjoint.nn")
