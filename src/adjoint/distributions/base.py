"""The base class of distributions, whose parameters are tensors."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from adjoint import ops
from adjoint.errors import InvalidValueError, TypeRuleError
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.environment import get_default_dtype
from adjoint.tensor.making import from_array
from adjoint.tensor.record import operation
from adjoint.tensor.trace import Recorded

__all__ = ["Distribution", "digamma", "log_gamma", "parameters"]

#: ``log(gamma(x))`` of positive tensors, and its derivative.
log_gamma: Any = operation(ops.lgamma)
digamma: Any = operation(ops.digamma)


@operation
def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return ops.broadcast_to(x, shape)


def parameters(name: str, *given: Any) -> list[Any]:
    """Parameters as tensors of one shape, numbers in the dtype of the tensors, or the default one.

    Raises
    ------
    TypeRuleError
        If they do not broadcast.
    """
    tensors = [x for x in given if isinstance(x, Recorded)]
    dtype = tensors[0]._spec.type.dtype if tensors else get_default_dtype()
    made = [x if isinstance(x, Recorded) else from_array(np.asarray(x, dtype)) for x in given]
    shapes = [x._spec.type.shape for x in made]
    try:
        shape = np.broadcast_shapes(*shapes)
    except ValueError:
        raise TypeRuleError(
            f"{name}: parameters must broadcast, got the shapes {' and '.join(map(str, shapes))}; reshape one"
        ) from None
    return [x if own == shape else _broadcast(x, shape) for x, own in zip(made, shapes, strict=True)]


class Distribution:
    """The base class of distributions.

    Attributes
    ----------
    batch_shape : tuple of int
        The shape of the parameters, each element of which is a distribution of its own.
    has_rsample : bool
        Whether `rsample` draws numbers with a gradient with respect to the parameters.
    """

    has_rsample = False
    batch_shape: tuple[int, ...]

    def sample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Random numbers, of the shape `sample_shape` followed by `batch_shape`, without a gradient.

        Parameters
        ----------
        sample_shape : sequence of int, default ()
            The shape of the numbers for each distribution.
        """
        with no_grad():
            return self._drawn(self._shape(sample_shape))

    def rsample(self, sample_shape: Sequence[int] = ()) -> Any:
        """Random numbers with a gradient with respect to the parameters; arguments as in `sample`.

        Raises
        ------
        InvalidValueError
            If the numbers have no such gradient.
        """
        if not self.has_rsample:
            raise InvalidValueError(
                f"{type(self).__name__}.rsample: the numbers must have a gradient with respect to the parameters, "
                "which those of this distribution have not; use sample and log_prob"
            )
        return self._drawn(self._shape(sample_shape))

    def _drawn(self, shape: tuple[int, ...]) -> Any:
        """Random numbers of a shape that ends with `batch_shape`."""
        raise NotImplementedError

    def log_prob(self, value: Any) -> Any:
        """The logarithm of the density or of the probability of values, which broadcast with the parameters."""
        raise NotImplementedError

    def entropy(self) -> Any:
        """The entropy of each distribution, in nats."""
        raise NotImplementedError

    def _shape(self, sample_shape: Sequence[int]) -> tuple[int, ...]:
        return (*sample_shape, *self.batch_shape)
