"""Metrics: figures of all batches of an evaluation, one family per file.

`base` defines what a metric is, `classes`, `per_class` and `ranking` what several share, and `by_name` their names.
"""

from adjoint.training.metrics.accuracy import Accuracy
from adjoint.training.metrics.average_precision import AveragePrecision
from adjoint.training.metrics.base import Metric
from adjoint.training.metrics.bleu import BLEU
from adjoint.training.metrics.by_name import get_metrics
from adjoint.training.metrics.confusion_matrix import ConfusionMatrix
from adjoint.training.metrics.cosine_similarity import CosineSimilarity
from adjoint.training.metrics.mean import Loss, MeanMetric
from adjoint.training.metrics.perplexity import Perplexity
from adjoint.training.metrics.precision_recall import F1, Fbeta, Precision, Recall
from adjoint.training.metrics.regression import MAE, MSE, R2, RMSE
from adjoint.training.metrics.roc_auc import ROCAUC, BinnedROCAUC
from adjoint.training.metrics.segmentation import Dice, MeanIoU
from adjoint.training.metrics.top_k import (
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)

__all__ = [
    "BLEU",
    "F1",
    "MAE",
    "MSE",
    "R2",
    "RMSE",
    "ROCAUC",
    "Accuracy",
    "AveragePrecision",
    "BinnedROCAUC",
    "ConfusionMatrix",
    "CosineSimilarity",
    "Dice",
    "Fbeta",
    "Loss",
    "MeanIoU",
    "MeanMetric",
    "Metric",
    "Perplexity",
    "Precision",
    "Recall",
    "Top1CategoricalAccuracy",
    "Top5CategoricalAccuracy",
    "TopKCategoricalAccuracy",
    "get_metrics",
]
