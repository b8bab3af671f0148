"""Losses: functions that build graphs, and classes that hold their settings.

`base` defines reductions and what a loss may be given; every other module is one family.
"""

from adjoint.losses.base import Loss
from adjoint.losses.binary import (
    BCELoss,
    BCEWithLogitsLoss,
    binary_cross_entropy,
    binary_cross_entropy_with_logits,
)
from adjoint.losses.classes import (
    MultiLabelMarginLoss,
    MultiLabelSoftMarginLoss,
    MultiMarginLoss,
    multi_margin,
    multilabel_margin,
    multilabel_soft_margin,
)
from adjoint.losses.cross_entropy import CrossEntropyLoss, cross_entropy
from adjoint.losses.ctc import CTCLoss, ctc
from adjoint.losses.functions import as_loss
from adjoint.losses.imbalance import (
    DiceLoss,
    FocalLoss,
    dice,
    focal,
)
from adjoint.losses.likelihood import (
    GaussianNLLLoss,
    KLDivLoss,
    NLLLoss,
    PoissonNLLLoss,
    gaussian_nll,
    kl_div,
    nll,
    poisson_nll,
)
from adjoint.losses.margin import (
    CosineEmbeddingLoss,
    HingeEmbeddingLoss,
    MarginRankingLoss,
    SoftMarginLoss,
    TripletMarginLoss,
    cosine_embedding,
    hinge_embedding,
    margin_ranking,
    soft_margin,
    triplet_margin,
    triplet_of_distances,
)
from adjoint.losses.regression import HuberLoss, L1Loss, MSELoss, SmoothL1Loss, huber, l1, mse, smooth_l1
from adjoint.losses.weighted import SampleWeighted

__all__ = [
    "BCELoss",
    "BCEWithLogitsLoss",
    "CTCLoss",
    "CosineEmbeddingLoss",
    "CrossEntropyLoss",
    "DiceLoss",
    "FocalLoss",
    "GaussianNLLLoss",
    "HingeEmbeddingLoss",
    "HuberLoss",
    "KLDivLoss",
    "L1Loss",
    "Loss",
    "MSELoss",
    "MarginRankingLoss",
    "MultiLabelMarginLoss",
    "MultiLabelSoftMarginLoss",
    "MultiMarginLoss",
    "NLLLoss",
    "PoissonNLLLoss",
    "SampleWeighted",
    "SmoothL1Loss",
    "SoftMarginLoss",
    "TripletMarginLoss",
    "as_loss",
    "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
    "cosine_embedding",
    "cross_entropy",
    "ctc",
    "dice",
    "focal",
    "gaussian_nll",
    "hinge_embedding",
    "huber",
    "kl_div",
    "l1",
    "margin_ranking",
    "mse",
    "multi_margin",
    "multilabel_margin",
    "multilabel_soft_margin",
    "nll",
    "poisson_nll",
    "smooth_l1",
    "soft_margin",
    "triplet_margin",
    "triplet_of_distances",
]
