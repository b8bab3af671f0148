"""Copies of the parameters and buffers of a network."""

import numpy as np

from adjoint.modules import Module
from adjoint.tensor.making import from_array

__all__ = ["copied", "put_back"]


def copied(network: Module) -> dict[str, np.ndarray]:
    """Copies of the parameters and buffers of a network, by their names in its `state_dict`."""
    return {name: np.array(tensor.numpy()) for name, tensor in network.state_dict().items()}


def put_back(network: Module, weights: dict[str, np.ndarray]) -> None:
    """Set the parameters and buffers of a network to copies."""
    network.load_state_dict({name: from_array(array.copy()) for name, array in weights.items()})
