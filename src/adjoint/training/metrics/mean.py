"""Means over all batches: of the loss, and of anything."""

from collections.abc import Callable
from typing import Any

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.base import Metric

__all__ = ["Loss", "MeanMetric"]


class Loss(Metric):
    """The mean loss over all rows.

    Parameters
    ----------
    loss_fn : callable, optional
        A loss such as ``nn.CrossEntropyLoss()``: `update` then takes outputs and targets. By default it takes the loss
        itself, the mean of a batch, and the number of rows that it is the mean of; or the losses of all rows.
    name : str, default "loss"
        The key in results.

    Notes
    -----
    Each batch counts by its rows, so the figure is exact for batches of different sizes. If a loss is the mean over
    something else, such as targets that are not ignored, pass the number of those.
    """

    name = "loss"
    higher_is_better = False
    sum: Tensor
    rows: Tensor

    def __init__(self, loss_fn: Callable[..., Any] | None = None, *, name: str | None = None) -> None:
        super().__init__(name)
        _require_function("Loss", loss_fn)
        self.loss_fn = loss_fn
        self.takes_loss = loss_fn is None
        self.add_sum("sum")
        self.add_sum("rows")

    def update(self, loss: Any, rows: Any = 1) -> None:
        """Add the loss of a batch, with its number of rows; or outputs and targets, if there is a loss function."""
        if self.loss_fn is not None:
            outputs, targets = loss, rows
            loss, rows = self.loss_fn(outputs, targets), _size(outputs.reshape(outputs.shape[0], -1)[:, 0])
        values = loss.double()
        if len(values.shape) > 0:
            self.sum.add_(values.sum())
            self.rows.add_(_size(values))
            return
        self.sum.add_(values * rows)
        self.rows.add_(rows)

    def result(self) -> float:
        """The mean; NaN if a loss was."""
        return self.ratio("sum", "rows")


class MeanMetric(Metric):
    """The mean of any numbers over all batches.

    Parameters
    ----------
    name : str, default "mean"
        The key in results.
    function : callable, optional
        What is averaged: ``function(outputs, targets)``, of tensors, returns numbers of any shape. By default,
        `update` takes the numbers.
    """

    name = "mean"
    sum: Tensor
    count: Tensor

    def __init__(self, name: str | None = None, function: Callable[..., Any] | None = None) -> None:
        super().__init__(name)
        _require_function("MeanMetric", function)
        self.function = function
        self.add_sum("sum")
        self.add_count("count")

    def update(self, *inputs: Any) -> None:
        """Add numbers, or what the function computes of outputs and targets."""
        if self.function is None and len(inputs) != 1:
            raise InvalidValueError(
                f"MeanMetric: without a function, update takes the numbers alone, got {len(inputs)} arguments; pass "
                "function=..., which computes them"
            )
        values = inputs[0] if self.function is None else self.function(*inputs)
        if not isinstance(values, Tensor):
            raise TypeRuleError(
                f"MeanMetric: the function must return a tensor, got {kind_of(values)}; use tensor operations in it"
            )
        numbers = values.double()
        self.sum.add_(numbers.sum())
        self.count.add_(_size(numbers))

    def result(self) -> float:
        """The mean; NaN if a number was."""
        return self.ratio("sum", "count")


def _size(x: Tensor) -> Tensor:
    """The number of elements, computed from them, because with a dynamic size there are fewer than the shape says."""
    found: Tensor = ((x == x) | (x != x)).sum()
    return found


def _require_function(owner: str, given: object) -> None:
    if given is not None and not callable(given):
        raise TypeRuleError(f"{owner}: the function must be callable, got {kind_of(given)}; pass a function or a loss")
