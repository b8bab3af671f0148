"""Layers of several inputs."""

from typing import Any

import adjoint
from adjoint.compat.tensorflow.keras.layers.base import Layer
from adjoint.compat.uncovered import uncovered

__all__ = ["Add", "Average", "Concatenate", "Maximum", "Multiply", "Subtract", "add", "concatenate", "multiply"]
__getattr__ = uncovered(__name__, {}, "adjoint")


class Add(Layer):
    """The sum."""

    def call(self, inputs: Any) -> Any:
        """The sum of a list of tensors."""
        total = inputs[0]
        for one in inputs[1:]:
            total = total + one
        return total


class Subtract(Layer):
    """The difference of two."""

    def call(self, inputs: Any) -> Any:
        """The first minus the second."""
        return inputs[0] - inputs[1]


class Multiply(Layer):
    """The product."""

    def call(self, inputs: Any) -> Any:
        """The product of a list of tensors."""
        total = inputs[0]
        for one in inputs[1:]:
            total = total * one
        return total


class Average(Add):
    """The mean."""

    def call(self, inputs: Any) -> Any:
        """The mean of a list of tensors."""
        return super().call(inputs) / len(inputs)


class Maximum(Layer):
    """The maximum."""

    def call(self, inputs: Any) -> Any:
        """The maximum of a list of tensors."""
        found = inputs[0]
        for one in inputs[1:]:
            found = adjoint.maximum(found, one)
        return found


class Concatenate(Layer):
    """Tensors joined along an axis."""

    def __init__(self, axis: int = -1, **settings: Any) -> None:
        super().__init__(**settings)
        self.axis = axis

    def call(self, inputs: Any) -> Any:
        """The joined tensors."""
        return adjoint.cat(list(inputs), self.axis)


def add(inputs: Any) -> Any:
    """The sum of a list of tensors."""
    return Add()(inputs)


def multiply(inputs: Any) -> Any:
    """The product of a list of tensors."""
    return Multiply()(inputs)


def concatenate(inputs: Any, axis: int = -1) -> Any:
    """Tensors joined along an axis."""
    return Concatenate(axis)(inputs)
