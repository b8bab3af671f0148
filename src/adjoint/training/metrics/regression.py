"""Errors of numbers."""

from typing import Any

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.preparation import prepare
from adjoint.tensor.tensor import Tensor
from adjoint.training.metrics.base import Metric

__all__ = ["MAE", "MSE", "R2", "RMSE"]


class Regression(Metric):
    """The base class of metrics that compare numbers: outputs and targets of the same shape, ``[N, ...]``.

    Parameters
    ----------
    weighted : bool, default False
        Whether `update` takes the weights of rows, ``[N]``, as a third argument.
    name : str, optional
        The key in results.
    """

    higher_is_better = False
    nans: Tensor

    def __init__(self, *, weighted: bool = False, name: str | None = None) -> None:
        super().__init__(name)
        self.weighted = weighted
        self.add_count("nans")

    def read(self, outputs: Tensor, targets: Tensor, weight: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Outputs, targets and weights of a batch, f64 of the same shape."""
        own = type(self).__name__
        if outputs.shape != targets.shape:
            raise TypeRuleError(
                f"{own}: targets must have the shape of the outputs, {outputs._spec.type}, got {targets._spec.type}; "
                "reshape them, because broadcasting would compare each output with all targets"
            )
        if self.weighted == (weight is None):
            raise TypeRuleError(
                f"{own}: a metric takes weights of rows if it is weighted, got "
                f"{'none' if weight is None else weight._spec.type} and weighted={self.weighted}; make it with "
                "weighted=True and pass them as the third argument"
            )
        error = (outputs - targets).isnan()
        self.nans.add_(error.sum())
        counts = ((outputs == outputs) | error).double()  # ones that depend on the rows that there are
        if weight is not None:
            if tuple(weight.shape) != tuple(outputs.shape[:1]):
                raise TypeRuleError(
                    f"{own}: there must be one weight per row of the outputs {outputs._spec.type}, got "
                    f"{weight._spec.type}; pass [{outputs.shape[0] if outputs.shape else 1}] weights"
                )
            counts = counts * weight.double().reshape(-1, *(1 for _ in outputs.shape[1:]))
        return outputs.double(), targets.double(), counts

    def check(self) -> None:
        """Raise if a difference is NaN."""
        nans = self.total("nans")
        if nans:
            raise InvalidValueError(
                f"{type(self).__name__}: differences of outputs and targets must not be NaN, got {nans} that are; find "
                "the operation that makes the first NaN with adjoint.debug_nan()"
            )


class _Mean(Regression):
    """The mean of a function of the differences, over all elements."""

    sum: Tensor
    count: Tensor

    def __init__(self, *, weighted: bool = False, name: str | None = None) -> None:
        super().__init__(weighted=weighted, name=name)
        self.add_sum("sum")
        if self.weighted:
            self.add_sum("count")
        else:
            self.add_count("count")

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Add the errors of a batch."""
        x, y, counts = self.read(outputs, targets, weight)
        errors = self.error(x - y)
        self.sum.add_((errors * counts if self.weighted else errors).sum())
        self.count.add_((counts if self.weighted else counts.long()).sum())

    def error(self, difference: Tensor) -> Tensor:
        """The error of each difference; a subclass defines it."""
        raise NotImplementedError

    def result(self) -> float:
        """The mean."""
        return self.ratio("sum", "count")


class MAE(_Mean):
    """The mean absolute error over all elements; arguments are those of `Regression`."""

    name = "mae"

    def error(self, difference: Tensor) -> Tensor:
        """Its absolute value."""
        found: Tensor = difference.abs()
        return found


class MSE(_Mean):
    """The mean squared error over all elements; arguments are those of `Regression`."""

    name = "mse"

    def error(self, difference: Tensor) -> Tensor:
        """Its square."""
        found: Tensor = difference.square()
        return found


class RMSE(MSE):
    """The root of the mean squared error over all elements; arguments are those of `Regression`."""

    name = "rmse"

    def result(self) -> float:
        """The root of the mean."""
        return float(np.sqrt(super().result()))


#: What the option `multioutput` of R2 may be.
_MULTIOUTPUT = ("uniform_average", "variance_weighted", "raw_values")


class R2(Regression):
    """The coefficient of determination, 1 - (sum of squared errors) / (sum of squared deviations from the mean).

    A column whose targets are all equal has 1.0 if its errors are all 0, else 0.0. Sums of deviations are merged from
    batch to batch without cancellation (Chan, Golub and LeVeque, 1983).

    Parameters
    ----------
    multioutput : {"uniform_average", "variance_weighted", "raw_values"}, default "uniform_average"
        For outputs ``[N, ...]``: the mean over columns, the mean weighted by their variances, or an array.
    weighted : bool, default False
        Whether `update` takes the weights of rows, ``[N]``, as a third argument.
    name : str, default "r2"
        The key in results.
    """

    name = "r2"
    higher_is_better = True
    count: Tensor
    mean: Tensor
    deviations: Tensor
    errors: Tensor

    def __init__(
        self, multioutput: str = "uniform_average", *, weighted: bool = False, name: str | None = None
    ) -> None:
        super().__init__(weighted=weighted, name=name)
        if multioutput not in _MULTIOUTPUT:
            raise InvalidValueError(
                f"R2: multioutput must be {', '.join(map(repr, _MULTIOUTPUT))}, got {multioutput!r}; choose one of them"
            )
        self.multioutput = multioutput
        self.columns: int | None = None
        for buffer in ("count", "mean", "deviations", "errors"):
            self.register_buffer(buffer, None)

    def _make_sums(self, columns: int) -> None:
        self.columns = columns
        for name in ("count", "mean", "deviations", "errors"):
            self.add_sum(name, (columns,))

    def update(self, outputs: Any, targets: Any, weight: Any = None) -> None:
        """Add the errors and deviations of a batch."""
        columns = int(np.prod(outputs.shape[1:]))
        if self.columns is None:
            prepare("R2", lambda: self._make_sums(columns))
        elif columns != self.columns:
            raise InvalidValueError(
                f"R2: all outputs must have as many columns as the first ones, {self.columns}, got {columns}; use "
                "another metric"
            )
        x, y, counts = (part.reshape(-1, columns) for part in self.read(outputs, targets, weight))
        count = counts.sum(0)
        mean = (y * counts).sum(0) / count.clamp(min=_TINY)
        total = (self.count + count).clamp(min=_TINY)
        shift = mean - self.mean
        self.deviations.add_((counts * (y - mean).square()).sum(0) + shift.square() * self.count * count / total)
        self.mean.add_(shift * count / total)
        self.count.add_(count)
        self.errors.add_((counts * (x - y).square()).sum(0))

    def result(self) -> float | np.ndarray:
        """The coefficient."""
        if not self.total("count").all():
            raise InvalidValueError(
                f"R2: a metric needs an example that counts, got none in {self.total('updates')} updates; are all "
                "weights 0?"
            )
        errors, deviations = self.total("errors"), self.total("deviations")
        flat = deviations == 0
        scores = np.where(flat, (errors == 0) * 1.0, 1 - errors / np.where(flat, 1, deviations))
        if self.multioutput == "raw_values":
            return scores
        if self.multioutput == "uniform_average" or flat.all():
            return float(scores.mean())
        return float((scores * deviations).sum() / deviations.sum())


#: The smallest normal f64, in place of a sum of weights that is 0.
_TINY = float(np.finfo(np.float64).tiny)
