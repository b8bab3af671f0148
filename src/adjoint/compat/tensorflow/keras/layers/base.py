"""`Layer`: a module that makes its weights when it is first called."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from adjoint.compat.tensorflow.gradients import Recording
from adjoint.compat.tensorflow.keras import initializers
from adjoint.compat.tensorflow.variables import Variable, tensor_of
from adjoint.compat.uncovered import uncovered
from adjoint.errors import InvalidValueError
from adjoint.ir import as_dtype
from adjoint.modules import Module
from adjoint.tensor.autograd import no_grad
from adjoint.tensor.creation import zeros
from adjoint.tensor.trace import state

__all__ = ["Layer"]
__getattr__ = uncovered(__name__, {}, "adjoint.nn.Module")


class Layer(Module):
    """A layer: ``build(input_shape)`` makes its weights, and ``call(inputs)`` computes.

    Parameters
    ----------
    name : str, optional
        Its name.
    trainable : bool, default True
        Whether its weights are trained.
    """

    def __init__(self, name: str | None = None, trainable: bool = True, dtype: Any = None, **settings: Any) -> None:
        super().__init__()
        shape = settings.pop("input_shape", None)
        dim = settings.pop("input_dim", None)
        given: object = settings
        if given:
            raise InvalidValueError(f"{type(self).__name__} does not take {', '.join(settings)}; leave it out")
        del dtype
        kind = "".join(f"_{c.lower()}" if c.isupper() else c for c in type(self).__name__).lstrip("_")
        self.name, self.built = name or kind, False
        self._trained = trainable
        self.first_shape = tuple(shape) if shape is not None else None if dim is None else (dim,)
        self._takes_training = "training" in inspect.signature(self.call).parameters
        self.training = False

    def build(self, input_shape: Any) -> None:
        """Make the weights; default: none."""

    def call(self, *inputs: Any, **settings: Any) -> Any:  # noqa: ARG002
        """What the layer computes."""
        raise InvalidValueError(f"{type(self).__name__}: a layer must define call(self, inputs), got none; add it")

    def add_weight(
        self, shape: Any = (), initializer: Any = None, dtype: Any = None, trainable: bool = True,
        name: str | None = None, **_: Any,
    ) -> Variable:  # fmt: skip
        """A new weight, which the layer keeps when it is assigned to an attribute."""
        del dtype
        sizes = (shape,) if isinstance(shape, int) else tuple(shape)
        values = initializers.get("glorot_uniform" if initializer is None else initializer)(sizes)
        return Variable(tensor_of(values), trainable=trainable and self._trained, name=name)

    def forward(self, *inputs: Any, training: bool | None = None, **settings: Any) -> Any:
        """Build if needed, and call; `training` says in which mode this layer and those within it are."""
        from_keras = [one for one in inputs if hasattr(one, "node")]
        if from_keras or (
            inputs and isinstance(inputs[0], list | tuple) and any(hasattr(x, "node") for x in inputs[0])
        ):
            return inputs_node(self, inputs, settings)
        if not self.built:
            with no_grad():
                self.build(_shapes(inputs[0]) if inputs else None)
            self.built = True
        if training is not None and bool(training) != self.training:
            before = [(module, module.training) for module in self.modules()]
            self.train(bool(training))
            try:
                return self._called(inputs, settings)
            finally:
                for module, mode in before:
                    object.__setattr__(module, "training", mode)
        return self._called(inputs, settings)

    def _called(self, inputs: Sequence[Any], settings: dict[str, Any]) -> Any:
        if not Recording.on() and state.grad:
            with no_grad():
                return self._called(inputs, settings)
        if self._takes_training:
            settings = {"training": self.training, **settings}
        return self.call(*[tensor_of(x) if isinstance(x, np.ndarray) else x for x in inputs], **settings)

    # Weights

    @property
    def trainable(self) -> bool:
        """Whether its weights are trained."""
        return self._trained

    @trainable.setter
    def trainable(self, value: bool) -> None:
        for module in self.modules():
            if isinstance(module, Layer):
                object.__setattr__(module, "_trained", bool(value))
        for weight in self.parameters():
            if getattr(weight, "trainable", True):
                weight.requires_grad_(bool(value))

    @property
    def weights(self) -> list[Any]:
        """All weights, layer by layer."""
        return [*self.parameters(), *self.buffers()]

    @property
    def trainable_weights(self) -> list[Any]:
        """The weights that are trained."""
        return [weight for weight in self.parameters() if weight.requires_grad]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The weights that are not trained, such as running statistics."""
        frozen = [weight for weight in self.parameters() if not weight.requires_grad]
        return [*frozen, *self.buffers()]

    variables = weights
    trainable_variables = trainable_weights
    non_trainable_variables = non_trainable_weights

    def get_weights(self) -> list[np.ndarray]:
        """Copies of all weights."""
        return [np.array(weight.numpy(force=True)) for weight in self.weights]

    def set_weights(self, weights: Sequence[Any]) -> None:
        """Replace all weights."""
        own = self.weights
        if len(own) != len(weights):
            raise InvalidValueError(
                f"{self.name}: set_weights takes {len(own)} arrays, got {len(weights)}; build it first"
            )
        with no_grad():
            for mine, array in zip(own, weights, strict=True):
                mine.copy_(tensor_of(np.asarray(array), mine.dtype))

    def count_params(self) -> int:
        """The number of elements of all weights."""
        return sum(int(weight.numel()) for weight in self.weights)


def _is_symbolic(given: Any) -> bool:
    return any(map(_is_symbolic, given)) if isinstance(given, list | tuple) else isinstance(given, KerasTensor)


def _shapes(given: Any) -> Any:
    if isinstance(given, list | tuple):
        return [_shapes(one) for one in given]
    return tuple(given.shape)


class Node:
    """A layer of the functional interface, and the symbolic tensors that it is called with."""

    def __init__(self, layer: Any, inputs: Any, settings: dict[str, Any]) -> None:
        self.layer, self.inputs, self.settings = layer, inputs, settings


class KerasTensor:
    """A symbolic tensor: what `Input` returns and layers make of it.

    Parameters
    ----------
    shape : tuple
        Its shape; the first size, of the batch, is None.
    node : Node or None
        Where it comes from.
    """

    def __init__(self, shape: tuple[int | None, ...], node: Node | None, dtype: Any = "float32") -> None:
        self.shape, self.node, self.dtype = shape, node, dtype

    def __add__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a + b)

    def __mul__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a * b)

    def __sub__(self, other: Any) -> Any:
        return self._with(other, lambda a, b: a - b)

    def _with(self, other: Any, function: Callable[[Any, Any], Any]) -> Any:
        if isinstance(other, KerasTensor):
            return inputs_node(function, (self, other), {})
        return inputs_node(lambda a: function(a, other), (self,), {})


def inputs_node(layer: Any, inputs: Sequence[Any], settings: dict[str, Any]) -> Any:
    """The symbolic result of a layer: it is called once with zeros, which builds it."""

    def zeros_of(one: Any) -> Any:
        if isinstance(one, list | tuple):
            return [zeros_of(x) for x in one]
        return zeros((1, *one.shape[1:]), dtype=as_dtype(one.dtype)) if isinstance(one, KerasTensor) else one

    with no_grad():
        found = layer(*map(zeros_of, inputs), **settings)
    node = Node(layer, inputs, settings)
    if isinstance(found, list | tuple):
        raise InvalidValueError("a layer of the functional interface must return one tensor, got several; split it")
    return KerasTensor((None, *found.shape[1:]), node, str(found.dtype))
