"""Optimizers: frozen dataclasses of settings that build the graph of an update.

`base` defines what an optimizer returns, its states and hyperparameters. `chaining` composes one of transforms, which
are in `scaling` and `clipping`; `sgd` and `adam` are such compositions, and `wrappers` surrounds any optimizer.
"""

from typing import TYPE_CHECKING

from adjoint.lazy_names import lazy_names

if TYPE_CHECKING:
    from adjoint.optim import lr_scheduler, schedules, swa_utils
    from adjoint.optim.accumulating import accumulate
    from adjoint.optim.adafactor import Adafactor, scale_by_adafactor
    from adjoint.optim.adam import Adam, AdamW
    from adjoint.optim.adam_variants import Adamax, NAdam, RAdam, scale_by_adamax, scale_by_nadam, scale_by_radam
    from adjoint.optim.adaptive import Adadelta, Adagrad, RMSprop, scale_by_adadelta, scale_by_adagrad, scale_by_rms
    from adjoint.optim.asgd import ASGD
    from adjoint.optim.averaging import average, averages
    from adjoint.optim.base import Optimizer, StateSpec
    from adjoint.optim.chaining import Chain, chain
    from adjoint.optim.clipping import centralize, clip_by_global_norm, clip_by_norm, clip_by_value
    from adjoint.optim.direction import Quotient, Scale
    from adjoint.optim.grad_scaler import GradScaler
    from adjoint.optim.layerwise import LAMB, LARS, scale_by_layer_rate, scale_by_trust_ratio
    from adjoint.optim.lion import Lion, scale_by_lion
    from adjoint.optim.loss_scaling import scale_loss
    from adjoint.optim.muon import Muon, orthogonalize
    from adjoint.optim.partitioning import partition
    from adjoint.optim.rprop import Rprop, scale_by_rprop
    from adjoint.optim.scaling import (
        add_decayed_weights,
        decoupled_weight_decay,
        negate,
        scale_by_adam,
        scale_by_learning_rate,
        scale_by_schedule,
        trace,
    )
    from adjoint.optim.sgd import SGD
    from adjoint.optim.transform import Transform, masked
    from adjoint.optim.wrappers import freeze, skip_nonfinite
else:
    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "adjoint.optim": (
                "lr_scheduler",
                "schedules",
                "swa_utils",
            ),
            "adjoint.optim.accumulating": ("accumulate",),
            "adjoint.optim.adafactor": (
                "Adafactor",
                "scale_by_adafactor",
            ),
            "adjoint.optim.adam": (
                "Adam",
                "AdamW",
            ),
            "adjoint.optim.adam_variants": (
                "Adamax",
                "NAdam",
                "RAdam",
                "scale_by_adamax",
                "scale_by_nadam",
                "scale_by_radam",
            ),
            "adjoint.optim.adaptive": (
                "Adadelta",
                "Adagrad",
                "RMSprop",
                "scale_by_adadelta",
                "scale_by_adagrad",
                "scale_by_rms",
            ),
            "adjoint.optim.asgd": ("ASGD",),
            "adjoint.optim.averaging": (
                "average",
                "averages",
            ),
            "adjoint.optim.base": (
                "Optimizer",
                "StateSpec",
            ),
            "adjoint.optim.chaining": (
                "Chain",
                "chain",
            ),
            "adjoint.optim.clipping": (
                "centralize",
                "clip_by_global_norm",
                "clip_by_norm",
                "clip_by_value",
            ),
            "adjoint.optim.direction": (
                "Quotient",
                "Scale",
            ),
            "adjoint.optim.grad_scaler": ("GradScaler",),
            "adjoint.optim.layerwise": (
                "LAMB",
                "LARS",
                "scale_by_layer_rate",
                "scale_by_trust_ratio",
            ),
            "adjoint.optim.lion": (
                "Lion",
                "scale_by_lion",
            ),
            "adjoint.optim.loss_scaling": ("scale_loss",),
            "adjoint.optim.muon": (
                "Muon",
                "orthogonalize",
            ),
            "adjoint.optim.partitioning": ("partition",),
            "adjoint.optim.rprop": (
                "Rprop",
                "scale_by_rprop",
            ),
            "adjoint.optim.scaling": (
                "add_decayed_weights",
                "decoupled_weight_decay",
                "negate",
                "scale_by_adam",
                "scale_by_learning_rate",
                "scale_by_schedule",
                "trace",
            ),
            "adjoint.optim.sgd": ("SGD",),
            "adjoint.optim.transform": (
                "Transform",
                "masked",
            ),
            "adjoint.optim.wrappers": (
                "freeze",
                "skip_nonfinite",
            ),
        },
    )

__all__ = [
    "ASGD",
    "LAMB",
    "LARS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Chain",
    "GradScaler",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "Quotient",
    "RAdam",
    "RMSprop",
    "Rprop",
    "Scale",
    "StateSpec",
    "Transform",
    "accumulate",
    "add_decayed_weights",
    "average",
    "averages",
    "centralize",
    "chain",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "decoupled_weight_decay",
    "freeze",
    "lr_scheduler",
    "masked",
    "negate",
    "orthogonalize",
    "partition",
    "scale_by_adadelta",
    "scale_by_adafactor",
    "scale_by_adagrad",
    "scale_by_adam",
    "scale_by_adamax",
    "scale_by_layer_rate",
    "scale_by_learning_rate",
    "scale_by_lion",
    "scale_by_nadam",
    "scale_by_radam",
    "scale_by_rms",
    "scale_by_rprop",
    "scale_by_schedule",
    "scale_by_trust_ratio",
    "scale_loss",
    "schedules",
    "skip_nonfinite",
    "swa_utils",
    "trace",
]
