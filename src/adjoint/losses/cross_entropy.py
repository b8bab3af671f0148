"""Cross-entropy of logits against class indices or probabilities, with PyTorch's semantics."""

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError, listed
from adjoint.ir import TensorType, Value, dtype_name, is_float, is_integer
from adjoint.lazy_dataclass import dataclass
from adjoint.losses.base import Loss, check_predictions, check_reduction, reduced
from adjoint.losses.softmax import warn_softmax

__all__ = [
    "CrossEntropyLoss",
    "check_indices",
    "class_weights",
    "classes_last",
    "counted_ids",
    "cross_entropy",
    "mean_divisor",
    "without_classes",
]

_NAME = "cross_entropy_loss"


def cross_entropy(
    predictions: Value,
    targets: Value,
    weight: Value | np.ndarray | Sequence[float] | None = None,
    ignore_index: int | None = -100,
    label_smoothing: float = 0.0,
    reduction: str = "mean",
) -> Value:
    """Negative log-likelihood of `targets` under ``softmax(predictions)``.

    With ``p = softmax(predictions)`` over the C classes, class weights ``w`` (default: 1) and smoothing ``e``:

    * class indices ``y``: ``(1 - e) * -w[y] * log p[y] + e/C * sum_c(-w[c] * log p[c])``, and 0 where
      ``y == ignore_index``. "mean" divides the sum by the sum of ``w[y]`` over the rows that are not ignored (and is
      NaN
      if all are ignored).
    * probabilities ``t``: ``sum_c(-w[c] * ((1 - e) * t[c] + e/C) * log p[c])``. "mean" divides the sum by the
      number of rows.

    Predictions that are the result of a softmax cause an `adjoint.errors.AdjointWarning`: the softmax of probabilities
    is nearly uniform, so a model would train slowly and never reach a low loss.

    Both definitions agree with `torch.nn.functional.cross_entropy` of PyTorch 2.13.

    Parameters
    ----------
    predictions : Value
        Logits, float, ``[N, C]``; or ``[C]``; or ``[N, C, d1, ...]`` with the classes on axis 1.
    targets : Value
        Either class indices, of any integer dtype and of the shape of `predictions` without its class axis. They are
        checked before the step runs, so an index outside ``[0, C)`` changes nothing. Or probabilities (for example
        one-hot), of the shape of `predictions`; an integer dtype is cast.
    weight : Value, numpy.ndarray or sequence of float, optional
        One weight per class, shape ``[C]``. A Value has the dtype of `predictions`; an array is stored in the graph.
    ignore_index : int or None, default -100
        Class index that contributes nothing to the loss or its gradient, whether or not it is one of the classes. None
        means that no index is ignored. It does not apply to probabilities, and is rejected there if it is a class.
    label_smoothing : float, default 0.0
        Between 0 and 1: the part of each target that is distributed evenly over the classes.
    reduction : {"mean", "sum", "none"}, default "mean"
        "none" returns one loss per row, in the shape of `predictions` without its class axis.

    Raises
    ------
    TypeRuleError
        If shapes or dtypes do not match.
    InvalidValueError
        If a setting is out of range.
    """
    _check_settings(ignore_index, label_smoothing, reduction)
    logits = classes_last(predictions)
    warn_softmax(predictions, _class_axis(predictions))
    weights = None if weight is None else class_weights(weight, logits)
    if targets.shape == predictions.shape:
        if ignore_index is not None and ignore_index >= 0:
            raise InvalidValueError(
                f"{_NAME}: ignore_index requires class indices, got {ignore_index} with the probabilities "
                f"{targets.type}; omit it or pass class indices"
            )
        rows = _rows_of_probabilities(logits, targets, weights, label_smoothing)
        return reduced(rows, reduction)
    check_indices(predictions, targets)
    rows, divisor = _rows_of_indices(logits, targets, weights, ignore_index, label_smoothing)
    if reduction == "mean" and divisor is not None:
        return ops.divide(ops.sum(rows), divisor)
    return reduced(rows, reduction)


def _check_settings(ignore_index: int | None, label_smoothing: float, reduction: str) -> None:
    check_reduction(_NAME, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise InvalidValueError(f"{_NAME}: label_smoothing must be between 0 and 1, got {label_smoothing}")
    if ignore_index is not None and (isinstance(ignore_index, bool) or not isinstance(ignore_index, int)):
        raise InvalidValueError(f"{_NAME}: ignore_index must be an int or None, got {ignore_index!r}")


def classes_last(x: Value, name: str = _NAME) -> Value:
    """Logits or probabilities with their class axis moved to the end, so that rows are contiguous."""
    check_predictions(name, x)
    rank = len(x.shape)
    if rank == 0 or x.shape[_class_axis(x)] == 0:
        raise TypeRuleError(f"{name}: predictions must be [N, C], [C] or [N, C, d1, ...] with C >= 1, got {x.type}")
    return x if rank <= 2 else ops.permute(x, (0, *range(2, rank), 1))


def _class_axis(predictions: Value) -> int:
    return min(len(predictions.shape) - 1, 1)


def without_classes(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the class indices for predictions of this shape."""
    return (*shape[:1], *shape[2:]) if len(shape) > 1 else ()


def class_weights(weight: Value | np.ndarray | Sequence[float], logits: Value, name: str = _NAME) -> Value:
    """The weights of the classes as a value of the dtype of the logits."""
    classes = logits.shape[-1]
    if not isinstance(weight, Value):
        weight = ops.constant(np.asarray(weight, dtype=np.float64), dtype=logits.dtype)
    if weight.shape != (classes,) or weight.dtype != logits.dtype:
        raise TypeRuleError(
            f"{name}: weight must have one {dtype_name(logits.dtype)} per class, "
            f"{logits.type.with_shape((classes,))}, got {weight.type}"
        )
    return weight


def check_indices(predictions: Value, targets: Value, name: str = _NAME) -> None:
    """Raise if the targets are neither class indices nor probabilities for these predictions."""
    shape = predictions.shape
    expected = without_classes(shape)
    if targets.shape != expected:
        raise TypeRuleError(
            f"{name}: for predictions {predictions.type}, targets must be class indices of shape {list(expected)} or "
            f"probabilities of shape {list(shape)}, got {targets.type}"
        )
    if not is_integer(targets.dtype):
        raise TypeRuleError(
            f"{name}: class indices must have an integer dtype, got {targets.type}; cast them to i64, or pass "
            f"probabilities of shape {list(shape)}"
        )


def _rows_of_probabilities(logits: Value, targets: Value, weights: Value | None, smoothing: float) -> Value:
    """One loss per row for probability targets, in the layout of the predictions."""
    if not is_float(targets.dtype) and not is_integer(targets.dtype):
        raise TypeRuleError(f"{_NAME}: probabilities must have a float or integer dtype, got {targets.type}; cast them")
    target = classes_last(ops.cast(targets, logits.dtype))
    weighted = target if weights is None else target * weights
    lowered, log_sum = _lowered(logits)
    # The same operations as for indices, so that one-hot targets give the same bits, gradients included.
    rows = (weighted * (ops.expand_dims(log_sum, -1) - lowered)).sum(-1)
    return _smoothed(rows, lowered, log_sum, weights, smoothing)


def _lowered(logits: Value) -> tuple[Value, Value]:
    """The logits less their maximum, and the logarithm of the sum of the exponentials of those."""
    lowered = logits - ops.stop_gradient(logits.max(-1, keepdims=True))
    return lowered, lowered.exp().sum(-1).log()


def _smoothed(rows: Value, lowered: Value, log_sum: Value, weights: Value | None, smoothing: float) -> Value:
    """The losses with a part of each target distributed evenly over the classes."""
    if not smoothing:
        return rows
    classes = lowered.shape[-1]
    total = float(classes) if weights is None else weights.sum()
    spread = (lowered if weights is None else lowered * weights).sum(-1)
    even = log_sum * total - spread
    return rows * (1.0 - smoothing) + even * (smoothing / classes)


def _rows_of_indices(
    logits: Value, targets: Value, weights: Value | None, ignore_index: int | None, smoothing: float
) -> tuple[Value, Value | None]:
    """One loss per row for class indices, and the divisor of the mean (None: the number of rows)."""
    classes = logits.shape[-1]
    ids, valid = counted_ids(targets, classes, ignore_index)
    weight_of = None if weights is None else ops.take(weights, ids)
    # log p = lowered - log_sum, but never computed for all classes: a row needs only one element of it, and the
    # gradient of log_sum is the softmax, without another sum over classes.
    lowered, log_sum = _lowered(logits)
    rows = log_sum - ops.take_along_last(lowered, ids)
    if weight_of is not None:
        rows = rows * weight_of
    rows = _smoothed(rows, lowered, log_sum, weights, smoothing)
    if valid is not None:
        # `where` rather than a product with 0, to drop infinite losses of ignored rows too.
        rows = ops.where(valid, rows, 0.0)
    return rows, mean_divisor(valid, weight_of, logits.dtype)


def counted_ids(targets: Value, classes: int, ignore_index: int | None) -> tuple[Value, Value | None]:
    """Class indices, checked, with ignored ones replaced by 0; and where they are not ignored, None if nowhere."""
    if ignore_index is not None:
        limits = np.iinfo(targets.dtype)
        if not limits.min <= ignore_index <= limits.max:
            ignore_index = None  # the dtype cannot hold it, so nothing is ignored
    ids = ops.check_range(targets, 0, classes, allow=ignore_index)
    if ignore_index is None:
        return ids, None
    valid = ops.not_equal(ids, ignore_index)
    # An ignored index may lie outside the classes. It reads class 0, and that value is then dropped.
    return ops.where(valid, ids, 0), valid


def mean_divisor(valid: Value | None, weight_of: Value | None, dtype: np.dtype) -> Value | None:
    """Sum of the weights of counted rows; without weights the number of counted rows, or None if all count."""
    if weight_of is not None:
        return (weight_of if valid is None else ops.where(valid, weight_of, 0.0)).sum()
    if valid is None:
        return None
    # Count in integers: a 16-bit float cannot count beyond 256 or 2048.
    return valid.cast("i32").sum().cast(dtype)


@dataclass(frozen=True, repr=False)
class CrossEntropyLoss(Loss):
    """`cross_entropy` with its settings.

    Parameters
    ----------
    reduction : {"mean", "sum", "none"}, default "mean"
        This and the other parameters are those of `cross_entropy`. The first argument may also be the weights, as in
        PyTorch.
    ignore_index : int or None, default -100
        Class index that contributes nothing.
    label_smoothing : float, default 0.0
        Between 0 and 1.
    weight : sequence of float or numpy.ndarray, optional
        One weight per class, stored as a tuple. Alternatively, pass them as the third argument of the loss,
        ``weights``.
    """

    name: ClassVar[str] = _NAME
    arg_names: ClassVar[tuple[str, ...]] = ("predictions", "targets", "weights")
    num_optional: ClassVar[int] = 1
    reduction: str = "mean"
    ignore_index: int | None = -100
    label_smoothing: float = 0.0
    weight: tuple[float, ...] | None = None

    def __repr__(self) -> str:
        weight = "None" if self.weight is None else f"({listed(self.weight)})"
        return (
            f"CrossEntropyLoss(reduction={self.reduction!r}, ignore_index={self.ignore_index}, "
            f"label_smoothing={self.label_smoothing}, weight={weight})"
        )

    def __post_init__(self) -> None:
        if self.weight is None and not isinstance(self.reduction, str):
            object.__setattr__(self, "weight", self.reduction)
            object.__setattr__(self, "reduction", "mean")
        _check_settings(self.ignore_index, self.label_smoothing, self.reduction)
        if self.weight is not None:
            given = np.asarray(self.weight, dtype=np.float64)
            if given.ndim != 1:
                raise TypeRuleError(
                    f"{_NAME}: weight must have one number per class, got an array of shape {given.shape}"
                )
            object.__setattr__(self, "weight", tuple(given.tolist()))

    def target_types(self, *outputs: TensorType) -> tuple[TensorType, ...]:
        """Class indices, i64 of the shape of the predictions without their class axis."""
        return (outputs[0].with_shape(without_classes(outputs[0].shape)).with_dtype("i64"),)

    def check_outputs(self, *outputs: Value) -> None:
        """Warn if the predictions are the result of a softmax."""
        warn_softmax(outputs[0], _class_axis(outputs[0]))

    def __call__(self, *args: Any) -> Any:
        """``cross_entropy(predictions, targets[, weights])``."""
        self.check_count(len(args))
        weight: Value | tuple[float, ...] | None = self.weight
        if len(args) == 3:
            if weight is not None:
                raise TypeRuleError(f"{_NAME}: class weights are given twice, as a setting and as an input; remove one")
            weight = args[2]
        return cross_entropy(args[0], args[1], weight, self.ignore_index, self.label_smoothing, self.reduction)
