"""What metrics of classes share: reading outputs and targets as classes, or as labels that are there or not."""

from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.ir import is_float, is_integer
from adjoint.lazy_dataclass import dataclass
from adjoint.tensor.comparison import where
from adjoint.tensor.preparation import prepare
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.base import Metric

__all__ = ["ClassMetric", "Predictions"]

#: The probability above which a label is predicted, unless a threshold is given.
_HALF = 0.5


@dataclass(frozen=True)
class Predictions:
    """A batch, read.

    Attributes
    ----------
    predicted, actual : Tensor
        Classes, i64 ``[M]``, in ``[0, size)``; or labels, bool ``[M, size]``.
    valid : Tensor
        Whether each row counts, bool ``[M]``.
    weight : Tensor or None
        Of each row, f64 ``[M]``.
    size : int or None
        The number of classes or labels; None if outputs are indices and it is not known.
    """

    predicted: Tensor
    actual: Tensor
    valid: Tensor
    weight: Tensor | None
    size: int | None

    @property
    def are_labels(self) -> bool:
        """Whether rows are labels that are there or not."""
        return len(self.predicted.shape) == 2

    def amounts(self, mask: Tensor) -> Tensor:
        """What each row of a mask, bool ``[M]`` or ``[M, size]``, adds to a count: 1 or its weight, or 0."""
        valid, weight = self.valid, self.weight
        if len(mask.shape) == 2:
            valid = valid[:, None]
            weight = None if weight is None else weight[:, None]
        kept = mask & valid
        found: Tensor = kept.long() if weight is None else where(kept, weight, 0.0)
        return found


class ClassMetric(Metric):
    """The base class of metrics of classes.

    Parameters
    ----------
    eval_type : {"classification", "multilabel"}
        Whether each row has one class, or each of its labels is there or not.
    axis : int
        The axis of classes.
    threshold : float or None
        What an output of a label must exceed; None is 0.5, for probabilities only.
    ignore_index : int or None
        A class index of rows that do not count.
    weighted : bool
        Whether updates take weights of rows.
    name : str or None
        The key in results.
    """

    #: How many axes of classes the counts have.
    class_axes: ClassVar[int] = 1
    #: The option for outputs that are logits, for a message.
    for_logits: ClassVar[str] = "threshold=0.0"
    #: The counts that have one element per class.
    class_counts: ClassVar[tuple[str, ...]] = ()
    nans: Tensor
    outside: Tensor
    misfits: Tensor

    def __init__(
        self,
        eval_type: str = "classification",
        *,
        axis: int = 1,
        threshold: float | None = None,
        ignore_index: int | None = -100,
        weighted: bool = False,
        name: str | None = None,
    ) -> None:
        super().__init__(name)
        if eval_type not in ("classification", "multilabel"):
            raise InvalidValueError(
                f"{type(self).__name__}: eval_type must be 'classification' or 'multilabel', got {eval_type!r}; choose "
                "one of them"
            )
        if isinstance(axis, bool) or not isinstance(axis, int) or axis == 0:
            raise InvalidValueError(
                f"{type(self).__name__}: axis must be an int other than 0, the axis of rows, got {axis!r}; pass 1 or -1"
            )
        self.eval_type, self.axis, self.threshold = eval_type, axis, threshold
        self.ignore_index, self.weighted = ignore_index, weighted
        self.size: int | None = None
        for count in ("nans", "outside", "misfits"):
            self.add_count(count)
        for count in self.class_counts:
            self.register_buffer(count, None)

    # The counts.

    def add_amount(self, name: str, shape: tuple[int, ...] = ()) -> None:
        """Add a buffer of counts, or of sums of weights if the metric is weighted."""
        if self.weighted:
            self.add_sum(name, shape)
        else:
            self.add_count(name, shape)

    def require_size(self, size: int | None) -> None:
        """Make the counts of classes with the first batch; raise unless later ones have as many classes."""
        own = type(self).__name__
        if self.size is not None and size in (None, self.size):
            return
        if size is None:
            raise InvalidValueError(
                f"{own}: outputs that are class indices do not tell the number of classes, got them without "
                "num_classes; pass num_classes"
            )
        if self.size is not None:
            raise InvalidValueError(
                f"{own}: all outputs must be of {self.size} classes, as the first ones or num_classes say, got "
                f"{size}; use another metric"
            )
        prepare(own, lambda: self._make_counts(size))

    def _make_counts(self, size: int) -> None:
        self.size = size
        for count in self.class_counts:
            self.add_amount(count, (size,) * self.class_axes)

    def check(self) -> None:
        """Raise if outputs were NaN or no probabilities, or targets no classes."""
        own, nans, outside, misfits = type(self).__name__, *map(self.total, ("nans", "outside", "misfits"))
        if nans:
            raise InvalidValueError(
                f"{own}: outputs must not be NaN, got NaN in {nans} of them; find the operation that makes the first "
                "one with adjoint.debug_nan()"
            )
        if outside:
            raise InvalidValueError(
                f"{own}: outputs must be probabilities if there is no threshold, got {outside} outside of [0, 1]; pass "
                f"{self.for_logits} for logits"
            )
        if misfits:
            raise InvalidValueError(
                f"{own}: classes must be at least 0 and less than the number of classes, labels 0 or 1, got {misfits} "
                "that are not; pass ignore_index for targets that do not count"
            )

    # Reading a batch.

    def read(self, outputs: Tensor, targets: Tensor, weight: Tensor | None = None) -> Predictions:
        """The classes or labels of a batch, and which of its rows count.

        Raises
        ------
        TypeRuleError
            If shapes or dtypes do not fit.
        """
        axis = self._class_axis(outputs)
        if self.eval_type == "multilabel":
            return self._labels(outputs, targets, weight, axis)
        if not is_float(outputs.dtype):
            if targets.shape != outputs.shape or not is_integer(targets.dtype):
                raise self._misfit(outputs, targets, "class indices of the same shape")
            predicted, actual = outputs.long().flatten(), targets.long().flatten()
            return self._counted(predicted, actual, None, weight, None)
        if axis is None or outputs.shape[axis] == 1:
            return self._binary(outputs, targets, weight, axis)
        size = outputs.shape[axis]
        nan = outputs.isnan().any(axis).flatten()
        predicted = outputs.argmax(axis).flatten()
        return self._counted(predicted, self.indices(outputs, targets, axis), nan, weight, size)

    def _class_axis(self, outputs: Tensor) -> int | None:
        """The axis of classes, counted from the front; None if the outputs have none."""
        rank = len(outputs.shape)
        axis = self.axis + rank if self.axis < 0 else self.axis
        if rank > 1 and not 1 <= axis < rank:
            raise TypeRuleError(
                f"{type(self).__name__}: outputs must have the axis of classes, {self.axis}, behind that of rows, got "
                f"{outputs._spec.type}; pass its number as axis"
            )
        return axis if rank > 1 else None

    def indices(self, outputs: Tensor, targets: Tensor, axis: int) -> Tensor:
        """Targets as class indices, i64 ``[M]``: they may be one-hot, or indices with an axis of size 1."""
        rows = (*outputs.shape[:axis], *outputs.shape[axis + 1 :])
        classes: Tensor
        if targets.shape == outputs.shape:
            classes = targets.argmax(axis).flatten()
            return classes
        if tuple(targets.shape) in (rows, (*rows, 1)) and is_integer(targets.dtype):
            classes = targets.long().flatten()
            return classes
        hint = ""
        if tuple(targets.shape) == tuple(outputs.shape[:-1]):
            hint = "; pass axis=-1 if the last axis of the outputs is that of the classes"
        raise self._misfit(
            outputs, targets, f"integers, classes {_shown(rows)}, or one-hot {_shown(outputs.shape)}", hint
        )

    def _misfit(self, outputs: Tensor, targets: Tensor, wanted: str, fix: str = "") -> TypeRuleError:
        return TypeRuleError(
            f"{type(self).__name__}: targets for outputs {outputs._spec.type} must be {wanted}, got "
            f"{targets._spec.type}{fix or '; pass one target per row'}"
        )

    def _binary(self, outputs: Tensor, targets: Tensor, weight: Tensor | None, axis: int | None) -> Predictions:
        """Outputs with one number per row."""
        rows = outputs.shape if axis is None else (*outputs.shape[:axis], *outputs.shape[axis + 1 :])
        if tuple(targets.shape) not in (tuple(rows), tuple(outputs.shape)):
            raise self._misfit(outputs, targets, f"0 or 1, {_shown(rows)}")
        return self._thresholded(outputs.reshape(-1, 1), targets.reshape(-1, 1), weight)

    def _labels(self, outputs: Tensor, targets: Tensor, weight: Tensor | None, axis: int | None) -> Predictions:
        if axis is None or targets.shape != outputs.shape:
            raise self._misfit(outputs, targets, f"0 or 1 for each label, {_shown(outputs.shape)}")
        size = outputs.shape[axis]
        if len(outputs.shape) > 2:
            outputs, targets = (x.movedim(axis, -1).reshape(-1, size) for x in (outputs, targets))
        return self._thresholded(outputs, targets, weight)

    def _thresholded(self, outputs: Tensor, targets: Tensor, weight: Tensor | None) -> Predictions:
        """Outputs and targets ``[M, size]`` of labels."""
        ignored = self._ignored(targets)
        if is_float(outputs.dtype):
            nan = outputs.isnan() & ~ignored
            self.nans.add_(nan.sum())
            if self.threshold is None:
                self.outside.add_((((outputs < 0) | (outputs > 1)) & ~ignored).sum())
            predicted = outputs > (_HALF if self.threshold is None else self.threshold)
        else:
            predicted = outputs != 0
        self.misfits.add_((~((targets >= 0) & (targets <= 1)) & ~ignored).sum())
        actual = targets > _HALF if is_float(targets.dtype) else targets != 0
        valid = ~ignored.any(1)
        return Predictions(predicted, actual, valid, self._weights(weight, valid), outputs.shape[1])

    def _counted(
        self, predicted: Tensor, actual: Tensor, nan: Tensor | None, weight: Tensor | None, size: int | None
    ) -> Predictions:
        """Classes ``[M]``, with those of rows that do not count replaced by 0."""
        known = size if size is not None else self.size
        counts = ~self._ignored(actual)
        wrong = actual < 0
        if known is not None:
            wrong = wrong | (actual >= known)
        if size is None and known is not None:
            wrong = wrong | (predicted < 0) | (predicted >= known)
        self.misfits.add_((wrong & counts).sum())
        if nan is not None:
            self.nans.add_((nan & counts).sum())
        valid = counts & ~wrong
        return Predictions(
            where(valid, predicted, 0), where(valid, actual, 0), valid, self._weights(weight, valid), known
        )

    def _ignored(self, targets: Tensor) -> Tensor:
        """Which targets are `ignore_index`, computed of them even if there is none, because they may have any size."""
        found: Tensor = (targets == 0) & False if self.ignore_index is None else targets == self.ignore_index
        return found

    def _weights(self, weight: Tensor | None, valid: Tensor) -> Tensor | None:
        own = type(self).__name__
        if weight is None:
            if self.weighted:
                raise TypeRuleError(
                    f"{own}: a weighted metric needs the weights of rows, got none; pass them to update as the third "
                    "argument"
                )
            return None
        if not self.weighted:
            raise TypeRuleError(
                f"{own}: only a weighted metric takes weights of rows, got {weight._spec.type}; make it with "
                "weighted=True"
            )
        if int(np.prod(weight.shape)) != valid.shape[0]:
            raise TypeRuleError(
                f"{own}: there must be one weight per target, {valid.shape[0]}, got {weight._spec.type}; pass a weight "
                "for each"
            )
        found: Tensor = weight.double().flatten()
        return found


def _shown(shape: Any) -> str:
    return f"[{','.join(map(str, shape))}]"
