"""`Variable`: a parameter with TensorFlow's methods."""

from typing import Any

import numpy as np

from adjoint.compat.uncovered import uncovered
from adjoint.ir import as_dtype
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.making import from_array
from adjoint.tensor.tensor import Parameter, Tensor

__all__ = ["Variable"]
__getattr__ = uncovered(__name__, {}, "adjoint.nn.Parameter")


def tensor_of(value: Any, dtype: Any = None) -> Tensor:
    """A tensor with these elements; Python's floats become float32 and its ints int32, as in TensorFlow."""
    if isinstance(value, Tensor):
        return value if dtype is None else value.to(as_dtype(dtype))
    array = np.asarray(value)
    if dtype is None and not isinstance(value, np.ndarray | np.generic):
        dtype = {"f": np.float32, "i": np.int32}.get(array.dtype.kind)
    return from_array(np.array(array, None if dtype is None else as_dtype(dtype)))


class Variable(Parameter):
    """A tensor that is changed by assignment.

    Parameters
    ----------
    initial_value : array_like or callable
        Its elements, or a function that returns them.
    trainable : bool, default True
        Whether it is differentiated and trained.
    name : str, optional
        Its name.
    dtype : optional
        Its dtype; default: that of the elements.
    """

    def __init__(
        self, initial_value: Any, trainable: bool = True, name: str | None = None, dtype: Any = None,
        shape: Any = None, **_: Any,
    ) -> None:  # fmt: skip
        del shape
        value = initial_value() if callable(initial_value) and not isinstance(initial_value, Tensor) else initial_value
        made = tensor_of(value, dtype)
        trainable = trainable and made.is_floating_point()
        super().__init__(made.detach().clone(), trainable)
        self.name, self.trainable = name or "Variable", trainable

    def assign(self, value: Any, **_: Any) -> "Variable":
        """Replace the elements."""
        with no_grad():
            self.copy_(tensor_of(value, self.dtype))
        return self

    def assign_add(self, delta: Any, **_: Any) -> "Variable":
        """Add to the elements."""
        with no_grad():
            self.add_(tensor_of(delta, self.dtype))
        return self

    def assign_sub(self, delta: Any, **_: Any) -> "Variable":
        """Subtract from the elements."""
        with no_grad():
            self.sub_(tensor_of(delta, self.dtype))
        return self

    def numpy(self, *, force: bool = True) -> np.ndarray:
        """The elements as a NumPy array."""
        return super().numpy(force=force)

    def value(self) -> Any:
        """The elements as a tensor."""
        return self * 1

    read_value = value

    def __repr__(self) -> str:
        return f"<Variable {self.name!r} shape={tuple(self.shape)} dtype={self.dtype}>"
