"""Methods of tensors that reduce axes."""

from typing import Any

from adjoint.tensor import reductions
from adjoint.tensor.record import entry_of, record, record_unary
from adjoint.tensor.trace import Recorded

__all__ = ["ReductionMethods"]

_SUM, _MEAN = entry_of(reductions.sum), entry_of(reductions.mean)


class ReductionMethods(Recorded):
    """The part of `Tensor` with reductions."""

    def sum(
        self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None
    ) -> Any:
        """See `adjoint.sum`."""
        axes, kept = dim if axis is None else axis, keepdim if keepdims is None else keepdims
        if dtype is not None:
            return record(_SUM, (self, axes, kept), {"dtype": dtype})
        return record_unary(_SUM, self) if axes is None and not kept else record(_SUM, (self, axes, kept))

    def mean(
        self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None, axis: Any = None, keepdims: Any = None
    ) -> Any:
        """See `adjoint.mean`."""
        axes, kept = dim if axis is None else axis, keepdim if keepdims is None else keepdims
        if dtype is not None:
            return record(_MEAN, (self, axes, kept), {"dtype": dtype})
        return record_unary(_MEAN, self) if axes is None and not kept else record(_MEAN, (self, axes, kept))

    def prod(self, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Any:
        """See `adjoint.prod`."""
        return _called(reductions.prod, self, dim, keepdim, dtype=dtype)

    def var(self, *args: Any, **keywords: Any) -> Any:
        """See `adjoint.var`."""
        return reductions.var(self, *args, **keywords)

    def std(self, *args: Any, **keywords: Any) -> Any:
        """See `adjoint.std`."""
        return reductions.std(self, *args, **keywords)

    def max(self, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
        """See `adjoint.max`."""
        return reductions.max(self, dim, keepdim, axis=axis)

    def min(self, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
        """See `adjoint.min`."""
        return reductions.min(self, dim, keepdim, axis=axis)

    def amax(self, dim: Any = None, keepdim: bool = False) -> Any:
        """See `adjoint.amax`."""
        return _called(reductions.amax, self, dim, keepdim)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Any:
        """See `adjoint.amin`."""
        return _called(reductions.amin, self, dim, keepdim)

    def aminmax(self, *, dim: int | None = None, keepdim: bool = False) -> Any:
        """See `adjoint.aminmax`."""
        return reductions.aminmax(self, dim=dim, keepdim=keepdim)

    def argmax(self, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None) -> Any:
        """See `adjoint.argmax`."""
        return _called(reductions.argmax, self, dim if axis is None else axis, keepdim)

    def argmin(self, dim: int | None = None, keepdim: bool = False, *, axis: int | None = None) -> Any:
        """See `adjoint.argmin`."""
        return _called(reductions.argmin, self, dim if axis is None else axis, keepdim)

    def any(self, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
        """See `adjoint.any`."""
        return _called(reductions.any, self, dim if axis is None else axis, keepdim)

    def all(self, dim: Any = None, keepdim: bool = False, *, axis: Any = None) -> Any:
        """See `adjoint.all`."""
        return _called(reductions.all, self, dim if axis is None else axis, keepdim)

    def count_nonzero(self, dim: Any = None) -> Any:
        """See `adjoint.count_nonzero`."""
        return _called(reductions.count_nonzero, self, dim)

    def logsumexp(self, dim: Any, keepdim: bool = False) -> Any:
        """See `adjoint.logsumexp`."""
        return _called(reductions.logsumexp, self, dim, keepdim)


def _called(function: Any, *args: Any, **keywords: Any) -> Any:
    return function(*args, **keywords)  # not its entry: it may compute in other floats within a context
