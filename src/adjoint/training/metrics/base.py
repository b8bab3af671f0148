"""`Metric`: counts and sums over all batches, which compiled code updates, and the figure that follows from them."""

from collections.abc import Callable
from functools import wraps
from typing import Any, ClassVar

import numpy as np

from adjoint.errors import InvalidValueError, TypeRuleError, kind_of
from adjoint.modules import Module
from adjoint.tensor.assign import assign
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Tensor
from adjoint.tensor.trace import state

__all__ = ["Metric", "as_array"]

_COUNT, _SUM = np.dtype(np.int64), np.dtype(np.float64)


class Metric(Module):
    """The base class of metrics: a module whose buffers are counts and sums.

    A subclass adds buffers in ``__init__``, changes them in place in `update`, with tensor operations only, so that
    `update` can be part of a compiled function, and computes the figure from them in `result`, in NumPy.

    Parameters
    ----------
    name : str, optional
        The key in the results of an evaluation; default: that of the class.

    Attributes
    ----------
    name : str
        The key in the results of an evaluation.
    compiled : bool
        Whether `update` consists of tensor operations. Otherwise it takes arrays, outside of compiled functions.
    takes_loss : bool
        Whether `update` takes the loss of a batch and its number of rows, instead of outputs and targets.
    higher_is_better : bool or None
        Whether a larger figure is a better one; None if neither is.
    updates : Tensor
        The number of updates since `clear`, i64.
    """

    name: str = "metric"
    compiled: ClassVar[bool] = True
    takes_loss: bool = False
    higher_is_better: ClassVar[bool | None] = None
    updates: Tensor

    def __init__(self, name: str | None = None) -> None:
        super().__init__()
        if name is not None:
            if not isinstance(name, str):
                raise TypeRuleError(
                    f"{type(self).__name__}: the name must be a string, got {kind_of(name)}; pass options by their "
                    "names"
                )
            self.name = name
        self.add_count("updates")

    def __init_subclass__(cls, **keywords: Any) -> None:
        super().__init_subclass__(**keywords)
        own = cls.__dict__.get("update")
        if own is not None:
            cls.update = _counted(own)  # type: ignore[method-assign]

    def add_count(self, name: str, shape: tuple[int, ...] = ()) -> None:
        """Add a buffer of counts, zeros, i64; use it as an attribute of this name."""
        self.register_buffer(name, from_array(np.zeros(shape, _COUNT), copy=False))

    def add_sum(self, name: str, shape: tuple[int, ...] = ()) -> None:
        """Add a buffer of sums, zeros, f64; use it as an attribute of this name."""
        self.register_buffer(name, from_array(np.zeros(shape, _SUM), copy=False))

    def clear(self) -> None:
        """Forget all batches, by setting all buffers to zeros, here and in metrics that this one consists of."""
        for buffer in self.buffers(recurse=False):
            assign(buffer, np.zeros(buffer.shape, buffer.dtype))
        for part in self.modules():
            if isinstance(part, Metric) and part is not self:
                part.clear()

    def update(self, *inputs: Any) -> None:  # noqa: ARG002
        """Take a batch into account; a subclass defines it.

        Parameters
        ----------
        *inputs : Tensor, numpy.ndarray or sequence
            As a rule, the outputs of a network and the targets. They are tensors in the subclass, without gradients.

        Raises
        ------
        TypeRuleError
            If the subclass does not define it, and if a metric that is not compiled is updated in a traced function.
        """
        raise TypeRuleError(
            f"{type(self).__name__}: a metric must define update(self, ...), which changes its buffers in place, got "
            "none; add it"
        )

    def result(self) -> Any:
        """The figure that follows from the buffers, a float or an array; a subclass defines it.

        Raises
        ------
        TypeRuleError
            If the subclass does not.
        """
        raise TypeRuleError(
            f"{type(self).__name__}: a metric must define result(self), which returns the figure, got none; add it"
        )

    def eval(self) -> Any:
        """The figure of all batches since the beginning or the last `clear`.

        Returns
        -------
        float or numpy.ndarray
            An array if there is a figure per class or column.

        Raises
        ------
        InvalidValueError
            If there was no batch, or the batches have no figure, such as those with outputs that are NaN.
        """
        if not self.total("updates"):
            raise InvalidValueError(
                f"{type(self).__name__}: a metric needs a batch, got none since it was made or cleared; call update "
                "first"
            )
        self.check()
        return self.result()

    def check(self) -> None:
        """Raise if the batches have no figure; called by `eval`. A subclass may define it."""

    def forward(self, *inputs: Any) -> Any:
        """The figure of one batch alone: `clear`, `update` and `eval`."""
        self.clear()
        self.update(*inputs)
        return self.eval()

    def total(self, name: str) -> np.ndarray:
        """The elements of a buffer."""
        found: np.ndarray = getattr(self, name).elements().array
        return found

    def ratio(self, numerator: str, denominator: str) -> float:
        """One buffer divided by another, both scalars.

        Raises
        ------
        InvalidValueError
            If the denominator is 0, because nothing was counted.
        """
        count = self.total(denominator)
        if not count:
            raise InvalidValueError(
                f"{type(self).__name__}: a metric needs an example that counts, got none in {self.total('updates')} "
                "updates; are all targets ignored, or all weights 0?"
            )
        return float(self.total(numerator) / count)


def _counted(update: Callable[..., None]) -> Callable[..., None]:
    """`update` of a subclass, called with tensors; counts the calls."""

    @wraps(update)
    def counted(self: Metric, *inputs: Any, **keywords: Any) -> None:
        if not self.compiled:
            if state.trace.outer is not None:
                raise TypeRuleError(
                    f"{type(self).__name__}: the metric collects outputs on the host, got an update in a traced "
                    "function; return the outputs, and call update outside"
                )
            update(self, *inputs, **keywords)
            assign(self.updates, self.total("updates") + 1)
            return
        with no_grad():
            named = {name: _as_tensor(given) for name, given in keywords.items()}
            update(self, *map(_as_tensor, inputs), **named)
            self.updates.add_(1)
        if state.trace.outer is None:
            self.updates.elements()  # run what is recorded, or a loop over batches would become one program

    return counted


def _as_tensor(given: Any) -> Any:
    if given is None or isinstance(given, Tensor):
        return given
    return from_array(np.asarray(given))


def as_array(given: Any) -> np.ndarray:
    """A tensor, array or sequence as an array, which may share its memory."""
    return given.detach().numpy() if isinstance(given, Tensor) else np.asarray(given)
