"""`mindspore.Parameter`: adjoint's parameters with names."""

from collections.abc import Iterable
from typing import Any, Self

from adjoint.compat.mindspore.common.tensor import Tensor
from adjoint.compat.uncovered import uncovered
from adjoint.tensor.assign import assign
from adjoint.tensor.tensor import Parameter as Native
from adjoint.tensor.tensor import Tensor as AnyTensor

__all__ = ["Parameter", "ParameterTuple"]


class Parameter(Native):
    """``Parameter(default_input, name, requires_grad)``: an `adjoint.nn.Parameter` with a name.

    Parameters
    ----------
    default_input : Tensor, numpy.ndarray or number
        Its elements.
    name : str, optional
        Its name; cells put the names of their attributes before it.
    requires_grad : bool, default True
        Whether it is trained.
    """

    def __init__(
        self, default_input: Any, name: str | None = None, requires_grad: bool = True, **_options: Any
    ) -> None:
        data: Any = default_input if isinstance(default_input, AnyTensor) else Tensor(default_input)
        super().__init__(data.detach().clone(), requires_grad)
        self.name = "Parameter" if name is None else name

    def set_data(self, data: Any, slice_shape: bool = False) -> Self:  # noqa: ARG002
        """Copy elements into it; returns the parameter."""
        assign(self, data.asnumpy() if isinstance(data, AnyTensor) else data)
        return self

    def value(self) -> AnyTensor:
        """The elements as a tensor."""
        detached: AnyTensor = self.detach()
        return detached

    def init_data(self) -> Self:
        """The parameter, which has its elements from the beginning."""
        return self


class ParameterTuple(tuple[Any, ...]):
    """Several parameters."""

    __slots__ = ()

    def __new__(cls, iterable: Iterable[Any]) -> "ParameterTuple":
        """A tuple of the parameters."""
        return super().__new__(cls, tuple(iterable))


__getattr__ = uncovered(__name__, {}, "adjoint.nn")
