"""Metrics by their names."""

from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from typing import Any

from adjoint.errors import InvalidValueError, NameLookupError, TypeRuleError, kind_of
from adjoint.training.metrics.accuracy import Accuracy
from adjoint.training.metrics.average_precision import AveragePrecision
from adjoint.training.metrics.base import Metric
from adjoint.training.metrics.bleu import BLEU
from adjoint.training.metrics.confusion_matrix import ConfusionMatrix
from adjoint.training.metrics.cosine_similarity import CosineSimilarity
from adjoint.training.metrics.mean import Loss, MeanMetric
from adjoint.training.metrics.perplexity import Perplexity
from adjoint.training.metrics.precision_recall import F1, Precision, Recall
from adjoint.training.metrics.regression import MAE, MSE, R2, RMSE
from adjoint.training.metrics.roc_auc import ROCAUC
from adjoint.training.metrics.segmentation import Dice, MeanIoU
from adjoint.training.metrics.top_k import (
    Top1CategoricalAccuracy,
    Top5CategoricalAccuracy,
    TopKCategoricalAccuracy,
)

__all__ = ["NAMES", "get_metrics"]

#: The metrics that a name stands for, without arguments. Those that MindSpore has too have its names.
NAMES: dict[str, type[Metric]] = {
    "accuracy": Accuracy,
    "acc": Accuracy,
    "precision": Precision,
    "recall": Recall,
    "F1": F1,
    "f1": F1,
    "topk": TopKCategoricalAccuracy,
    "top_1_accuracy": Top1CategoricalAccuracy,
    "top_5_accuracy": Top5CategoricalAccuracy,
    "confusion_matrix": ConfusionMatrix,
    "roc_auc": ROCAUC,
    "auc": ROCAUC,
    "average_precision": AveragePrecision,
    "mae": MAE,
    "mse": MSE,
    "rmse": RMSE,
    "r2": R2,
    "perplexity": Perplexity,
    "loss": Loss,
    "cosine_similarity": CosineSimilarity,
    "dice": Dice,
    "mean_iou": MeanIoU,
    "bleu": BLEU,
    "bleu_score": BLEU,
}


def get_metrics(given: Any) -> dict[str, Metric]:
    """The metrics that a user asks for, by the keys that they have in results.

    Parameters
    ----------
    given : None, str, Metric, or an iterable or mapping of these
        Names of `NAMES` and metrics, whose keys are their names. In a mapping, the keys are given, and a value may also
        be a function of outputs and targets, whose mean is the metric.

    Raises
    ------
    NameLookupError
        For an unknown name.
    TypeRuleError
        For anything else that is no metric.
    InvalidValueError
        If two metrics have the same key, or are the same object.
    """
    if given is None:
        return {}
    if isinstance(given, Mapping):
        found = {key: _metric(item, key) for key, item in given.items()}
    else:
        items: Iterable[Any] = (given,) if isinstance(given, str | Metric | type) or callable(given) else given
        if not isinstance(items, Iterable):
            raise _unfit(given)
        found = {}
        for item in sorted(items) if isinstance(items, set | frozenset) and _are_names(items) else items:
            metric = _metric(item, None)
            key = item if isinstance(item, str) else metric.name
            if key in found:
                raise InvalidValueError(
                    f"metrics: each must have a key of its own, got {key!r} twice; pass a dict, or give them names"
                )
            found[key] = metric
    for key in found:
        if not isinstance(key, str):
            raise TypeRuleError(f"metrics: keys must be strings, got {kind_of(key)}; pass the name in results")
    if len({id(metric) for metric in found.values()}) != len(found):
        raise InvalidValueError(
            "metrics: each must be an object of its own, because it counts for itself, got one twice; make another one"
        )
    return found


def _are_names(items: Iterable[Any]) -> bool:
    return all(isinstance(item, str) for item in items)


def _metric(given: Any, key: str | None) -> Metric:
    if isinstance(given, Metric):
        return given
    if isinstance(given, str):
        made = NAMES.get(given)
        if made is None:
            near = get_close_matches(given, NAMES, 1) or get_close_matches(given.lower(), NAMES, 1)
            fix = f"did you mean {near[0]!r}?" if near else "pass an adjoint.training.metrics.Metric"
            raise NameLookupError(f"metrics: a name must be one of {', '.join(NAMES)}, got {given!r}; {fix}")
        return made()
    if isinstance(given, Callable) and not isinstance(given, type) and key is not None:  # type: ignore[arg-type]
        return MeanMetric(key, given)
    raise _unfit(given)


def _unfit(given: object) -> TypeRuleError:
    if isinstance(given, type) and issubclass(given, Metric):
        fix = f"call it: {given.__name__}()"
    elif callable(given):
        fix = "pass it in a dict, with its name"
    else:
        fix = "pass names or metrics"
    return TypeRuleError(f"metrics: a metric is given by its name or as a Metric, got {kind_of(given)}; {fix}")
