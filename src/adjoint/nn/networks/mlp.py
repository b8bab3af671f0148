"""`MLP`: a multilayer perceptron."""

from collections.abc import Sequence
from itertools import pairwise

from adjoint.modules import Module
from adjoint.nn.activation import ReLU
from adjoint.nn.containers import Sequential
from adjoint.nn.linear import Linear
from adjoint.nn.networks.checking import require_sizes
from adjoint.nn.reshaping import Flatten

__all__ = ["MLP"]


class MLP(Sequential):
    """A multilayer perceptron: linear layers with relu between them.

    Takes arrays [N, ...], whose axes after the first it flattens, and returns [N, outputs].

    Parameters
    ----------
    inputs : int
        Number of elements of an input.
    outputs : int
        Number of outputs, such as classes.
    hidden : sequence of int, default (128, 128)
        Number of features of each hidden layer.

    Raises
    ------
    InvalidValueError
        If a size is below 1.
    """

    def __init__(self, inputs: int, outputs: int, hidden: Sequence[int] = (128, 128)) -> None:
        require_sizes("MLP", inputs=inputs, outputs=outputs, **{f"hidden[{n}]": size for n, size in enumerate(hidden)})
        layers: list[Module] = [Flatten()]
        sizes = (inputs, *hidden, outputs)
        for n, (before, after) in enumerate(pairwise(sizes)):
            layers.append(Linear(before, after))
            if n < len(hidden):
                layers.append(ReLU())
        super().__init__(*layers)
